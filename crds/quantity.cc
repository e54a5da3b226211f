// SPDX-License-Identifier: Apache-2.0
// ParseUnits: digits, decimals, and then a suffix or an exponent.
#include "crds/quantity.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include <nlohmann/json.hpp>

namespace berth::crds {

namespace {

using nlohmann::json;

__extension__ using Wide = unsigned __int128;

// A suffix multiplies the number by 10^tens or by 1024^kibis.
struct Suffix {
  std::string_view text;
  int tens = 0;
  int kibis = 0;
};
constexpr std::array<Suffix, 16> kSuffixes{{{"", 0, 0},
                                            {"n", -9, 0},
                                            {"u", -6, 0},
                                            {"m", -3, 0},
                                            {"k", 3, 0},
                                            {"M", 6, 0},
                                            {"G", 9, 0},
                                            {"T", 12, 0},
                                            {"P", 15, 0},
                                            {"E", 18, 0},
                                            {"Ki", 0, 1},
                                            {"Mi", 0, 2},
                                            {"Gi", 0, 3},
                                            {"Ti", 0, 4},
                                            {"Pi", 0, 5},
                                            {"Ei", 0, 6}}};
// A number up to kUnitsMax has at most 19 digits before the point, and a quantity has at most 9 decimals (nano).
constexpr std::size_t kDigitsMax = 30;
constexpr int kTensMax = 60;

// Takes digits from the front of `text` and appends them to `number`. Returns the count of these digits. If the count
// is larger than kDigitsMax, `number` is wrong.
std::size_t TakeDigits(std::string_view& text, Wide& number) {
  std::size_t count = 0;
  while (!text.empty() && text.front() >= '0' && text.front() <= '9') {
    if (++count <= kDigitsMax) number = number * 10 + static_cast<Wide>(text.front() - '0');
    text.remove_prefix(1);
  }
  return count;
}

// Parses an exponent such as "e3" or "E-2". False: `text` is not an exponent.
bool TakeExponent(std::string_view text, int& tens) {
  if (text.size() < 2 || (text.front() != 'e' && text.front() != 'E')) return false;
  text.remove_prefix(1);
  if (text.starts_with("+-")) return false;  // from_chars accepts the minus
  if (text.front() == '+') text.remove_prefix(1);
  const auto [at, error] = std::from_chars(text.begin(), text.end(), tens);
  return error == std::errc() && at == text.end();
}

// number * 10^tens * 1024^kibis, rounded up; nullopt if it is larger than kUnitsMax.
std::optional<std::int64_t> Scaled(Wide number, int tens, int kibis) {
  constexpr auto kMost = static_cast<Wide>(kUnitsMax);
  if (number == 0) return 0;
  if (tens > kTensMax || tens < -kTensMax) return tens > 0 ? std::nullopt : std::optional<std::int64_t>(1);
  for (; kibis > 0; --kibis) {
    number *= 1024;
    if (number > kMost * 1024) return std::nullopt;
  }
  for (; tens > 0; --tens) {
    if (number > kMost) return std::nullopt;
    number *= 10;
  }
  bool has_rest = false;
  for (; tens < 0; ++tens) {
    has_rest = has_rest || number % 10 != 0;
    number /= 10;
  }
  number += has_rest ? 1 : 0;
  if (number > kMost) return std::nullopt;
  return static_cast<std::int64_t>(number);
}

}  // namespace

std::optional<std::int64_t> ParseUnits(std::string_view quantity) {
  Wide number = 0;
  std::string_view rest = quantity;
  std::size_t digits = TakeDigits(rest, number);
  int tens = 0;
  if (rest.starts_with('.')) {
    rest.remove_prefix(1);
    const std::size_t decimals = TakeDigits(rest, number);
    digits += decimals;
    tens = -static_cast<int>(std::min(decimals, kDigitsMax));
  }
  if (digits == 0 || digits > kDigitsMax) return std::nullopt;
  int exponent = 0;
  if (TakeExponent(rest, exponent)) {
    if (exponent > kTensMax || exponent < -kTensMax) return std::nullopt;
    return Scaled(number, tens + exponent, 0);
  }
  const auto found = std::ranges::find(kSuffixes, rest, &Suffix::text);
  if (found == kSuffixes.end()) return std::nullopt;
  return Scaled(number, tens + found->tens, found->kibis);
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
