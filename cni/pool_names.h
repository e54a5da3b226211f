// SPDX-License-Identifier: Apache-2.0
// Names of pools: the check of their form and number, and the source from which an ADD takes them. berth checks them
// because it puts each name into a URL, and sends a request for each name.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "cni/config.h"

namespace berth::cni {

inline constexpr std::size_t kNodeNameBytesMax = 253;
// True if `name` has 1 to `bytes_max` lower-case letters, digits, "-" and ".", with a letter or digit at both ends. All
// names of pools and nodes are of this form, because the API server accepts only DNS subdomains (RFC 1123).
[[nodiscard]] bool IsObjectName(std::string_view name, std::size_t bytes_max);

// Returns `names` in order, without duplicates. `source` is for messages, for example "ipam.pools". Errors: kInvalid: a
// name that no pool can have, or more than 64 names.
[[nodiscard]] Expected<std::vector<std::string>> PoolNames(const std::vector<std::string>& names,
                                                           std::string_view source);

// The pools for an ADD of `interface`, at least one. Uses the first source that exists: the pod's annotation
// ipam.berth.dev/pools.<interface>; for eth0 the annotation ipam.berth.dev/pools; the configuration.
// Errors: kInvalid, with the name of the annotation or field.
[[nodiscard]] Expected<std::vector<std::string>> ChosenPools(const NetworkConfig& config, const std::string& interface);

}  // namespace berth::cni
