// SPDX-License-Identifier: Apache-2.0
// Checks the names of pools, and chooses the source of the names.
#include "cni/pool_names.h"

#include <algorithm>

namespace berth::cni {
namespace {

constexpr std::string_view kPoolsAnnotation = "ipam.berth.dev/pools";
constexpr std::string_view kPodInterface = "eth0";
constexpr std::size_t kPoolNameBytesMax = 63;
constexpr std::size_t kPoolsMax = 64;

// Splits an annotation's value such as "a, b".
std::vector<std::string> SplitNames(std::string_view text) {
  std::vector<std::string> names;
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    std::string_view name = text.substr(0, comma);
    while (name.starts_with(' ')) name.remove_prefix(1);
    while (name.ends_with(' ')) name.remove_suffix(1);
    if (!name.empty()) names.emplace_back(name);
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
  }
  return names;
}

}  // namespace

bool IsObjectName(std::string_view name, std::size_t bytes_max) {
  const auto inner = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  return !name.empty() && name.size() <= bytes_max && inner(name.front()) && inner(name.back()) &&
         std::ranges::all_of(name, [&](char c) { return inner(c) || c == '-' || c == '.'; });
}

Expected<std::vector<std::string>> PoolNames(const std::vector<std::string>& names, std::string_view source) {
  std::vector<std::string> pools;
  for (const std::string& name : names) {
    if (!IsObjectName(name, kPoolNameBytesMax)) {
      return Fail(ErrorCode::kInvalid,
                  std::string(source) + ": " + Quoted(name) + " cannot be the name of an IPPool",
                  "a name has at most 63 characters: lower-case letters, digits, - and .");
    }
    if (std::ranges::find(pools, name) != pools.end()) continue;
    if (pools.size() == kPoolsMax) {
      return Fail(ErrorCode::kInvalid,
                  std::string(source) + " names more than " + std::to_string(kPoolsMax) + " pools");
    }
    pools.push_back(name);
  }
  return pools;
}

Expected<std::vector<std::string>> ChosenPools(const NetworkConfig& config, const std::string& interface) {
  auto chosen = config.annotations.find(std::string(kPoolsAnnotation) + "." + interface);
  if (chosen == config.annotations.end() && interface == kPodInterface) {
    chosen = config.annotations.find(std::string(kPoolsAnnotation));
  }
  if (chosen != config.annotations.end()) {
    const std::string source = "the pod's annotation " + Quoted(chosen->first);
    auto pools = PoolNames(SplitNames(chosen->second), source);
    if (!pools || !pools->empty()) return pools;
    return Fail(ErrorCode::kInvalid,
                source + " names no pool",
                "name IPPools, separated by commas, or remove the annotation; see: kubectl get ippools");
  }
  if (!config.ipam.pools.empty()) return config.ipam.pools;
  return Fail(ErrorCode::kInvalid,
              "no pool is named: ipam.pools is missing or empty",
              "name at least one IPPool in ipam.pools; see: kubectl get ippools");
}

}  // namespace berth::cni
