// SPDX-License-Identifier: Apache-2.0
// Names of pools: which of the sources counts, and what may stand in it. A name goes into a URL, and each costs a
// request.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "cni/config.h"

namespace berth::cni {

// RFC 1123 subdomain: what the API server takes as the name of a pool or node.
inline constexpr std::size_t kNodeNameBytesMax = 253;
[[nodiscard]] bool IsObjectName(std::string_view name, std::size_t bytes_max);

// `names` in order, without duplicates. `source` is for messages: "ipam.pools". Errors: kInvalid: one that can't be a
// pool's name, or more than 64 of them.
[[nodiscard]] Expected<std::vector<std::string>> PoolNames(const std::vector<std::string>& names,
                                                           std::string_view source);

// The pools that an ADD of the interface takes from, at least one: those of the pod's annotation
// ipam.berth.dev/pools.<interface>, for eth0 else of ipam.berth.dev/pools, else of the configuration.
// Errors: kInvalid, naming the annotation or the field.
[[nodiscard]] Expected<std::vector<std::string>> ChosenPools(const NetworkConfig& config, const std::string& interface);

}  // namespace berth::cni
