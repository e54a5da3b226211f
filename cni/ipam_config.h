// SPDX-License-Identifier: Apache-2.0
// ParseIpamConfig: the section `ipam` of a network configuration, field by field (docs/cni.md has the table).
#pragma once

#include "cni/config.h"
#include "json/field_reader.h"

namespace berth::cni {

// What a call needs of the section: a release must not fail because of what only an allocation uses.
enum class IpamScope : std::uint8_t { kEverything, kRelease };

// After a failure, which the reader's Problem keeps, the returned value means nothing.
[[nodiscard]] IpamConfig ParseIpamConfig(const AnyCaseReader& ipam, IpamScope scope);

}  // namespace berth::cni
