// SPDX-License-Identifier: Apache-2.0
// ParseIpamConfig: the section `ipam` of a network configuration, field by field (docs/cni.md has the table).
#pragma once

#include "cni/config.h"
#include "cni/fields.h"

namespace berth::cni {

// What a call needs of the section: a release must not fail because of what only an allocation uses.
enum class IpamScope : std::uint8_t { kEverything, kRelease };

// Faults are reported to the fields' fault; the returned value then means nothing.
[[nodiscard]] IpamConfig ParseIpamConfig(const Fields& ipam, IpamScope scope);

}  // namespace berth::cni
