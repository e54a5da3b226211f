// SPDX-License-Identifier: Apache-2.0
// ParseIpamConfig: the section `ipam` of a network configuration, field by field (docs/cni.md has the table).
#pragma once

#include "cni/config.h"
#include "json/field_reader.h"

namespace berth::cni {

// The fields that a call needs. A DEL or GC (kRelease) must not fail because of a field that only ADD uses.
enum class IpamScope : std::uint8_t { kEverything, kRelease };

// If parsing fails, the reader's Problem contains the error, and the returned value is meaningless.
[[nodiscard]] IpamConfig ParseIpamConfig(const AnyCaseReader& ipam, IpamScope scope);

}  // namespace berth::cni
