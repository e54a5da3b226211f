// SPDX-License-Identifier: Apache-2.0
// Reading quantities.
#include "crds/quantity.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include <nlohmann/json.hpp>

namespace berth::crds {

namespace {

using nlohmann::json;

constexpr std::array<std::pair<std::string_view, double>, 16> kSuffixes{{{"", 1.0},
                                                                         {"n", 1e-9},
                                                                         {"u", 1e-6},
                                                                         {"m", 1e-3},
                                                                         {"k", 1e3},
                                                                         {"M", 1e6},
                                                                         {"G", 1e9},
                                                                         {"T", 1e12},
                                                                         {"P", 1e15},
                                                                         {"E", 1e18},
                                                                         {"Ki", 1024.0},
                                                                         {"Mi", 1048576.0},
                                                                         {"Gi", 1073741824.0},
                                                                         {"Ti", 1099511627776.0},
                                                                         {"Pi", 1125899906842624.0},
                                                                         {"Ei", 1152921504606846976.0}}};

}  // namespace

std::optional<std::int64_t> ParseUnits(std::string_view quantity) {
  const char* const end = quantity.data() + quantity.size();
  std::int64_t whole = 0;
  if (const auto [at, error] = std::from_chars(quantity.data(), end, whole); error == std::errc() && at == end) {
    return whole < 0 || whole > kUnitsMax ? std::nullopt : std::optional(whole);
  }
  double number = 0;
  const auto [at, error] = std::from_chars(quantity.data(), end, number);
  if (error != std::errc()) return std::nullopt;
  const std::string_view suffix(at, static_cast<std::size_t>(end - at));
  const auto found = std::ranges::find(kSuffixes, suffix, [](const auto& one) { return one.first; });
  if (found == kSuffixes.end()) return std::nullopt;
  const double units = number * found->second;
  if (!(units >= 0 && units <= static_cast<double>(kUnitsMax))) return std::nullopt;
  // Without libm, which berth-direct would need from its node.
  const auto whole_units = static_cast<std::int64_t>(units);
  return static_cast<double>(whole_units) < units ? whole_units + 1 : whole_units;
}

std::map<std::string, std::int64_t> ReadUnits(const json& resource_list) {
  std::map<std::string, std::int64_t> units;
  if (!resource_list.is_object()) return units;
  for (const auto& [name, value] : resource_list.items()) {
    if (!name.starts_with(kResourcePrefix)) continue;
    std::optional<std::int64_t> number;
    if (value.is_string()) number = ParseUnits(value.get_ref<const std::string&>());
    if (value.is_number_integer()) number = ParseUnits(value.dump());
    units.emplace(name.substr(kResourcePrefix.size()), number.value_or(kUnitsMax));
  }
  return units;
}

std::map<std::string, std::int64_t> AllocatableUnits(const json& node) {
  const auto status = node.is_object() ? node.find("status") : node.end();
  if (status == node.end() || !status->is_object()) return {};
  const auto allocatable = status->find("allocatable");
  return allocatable == status->end() ? std::map<std::string, std::int64_t>() : ReadUnits(*allocatable);
}

}  // namespace berth::crds
