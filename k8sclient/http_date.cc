// SPDX-License-Identifier: Apache-2.0
// IMF-fixdate, which has a fixed length.
#include "k8sclient/http_date.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace berth::k8sclient {
namespace {

using namespace std::string_view_literals;

constexpr std::array kMonths = {
    "Jan"sv, "Feb"sv, "Mar"sv, "Apr"sv, "May"sv, "Jun"sv, "Jul"sv, "Aug"sv, "Sep"sv, "Oct"sv, "Nov"sv, "Dec"sv};
// 'a' stands for a letter of a name, '0' for a digit.
constexpr std::string_view kForm = "aaa, 00 aaa 0000 00:00:00 GMT";

bool HasForm(std::string_view text) {
  return std::ranges::equal(text, kForm, [](char c, char form) {
    if (form == 'a') return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
    if (form == '0') return c >= '0' && c <= '9';
    return c == form;
  });
}

// Requires: digits only.
int ValueOf(std::string_view text) {
  int value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

}  // namespace

std::optional<std::chrono::sys_seconds> ParseHttpDate(std::string_view text) {
  constexpr int kYearMin = 1970;
  constexpr int kYearMax = 2199;  // nanoseconds since 1970 are in 64 bits until 2262
  if (!HasForm(text)) return {};
  const auto month = std::ranges::find(kMonths, text.substr(8, 3)) - kMonths.begin();
  const int year = ValueOf(text.substr(12, 4));
  const int hour = ValueOf(text.substr(17, 2));
  const int minute = ValueOf(text.substr(20, 2));
  const int second = ValueOf(text.substr(23, 2));
  const std::chrono::year_month_day date{std::chrono::year(year),
                                         std::chrono::month(static_cast<unsigned>(month) + 1),
                                         std::chrono::day(static_cast<unsigned>(ValueOf(text.substr(5, 2))))};
  // A leap second is 60.
  if (!date.ok() || year < kYearMin || year > kYearMax || hour > 23 || minute > 59 || second > 60) return {};
  return std::chrono::sys_days(date) + std::chrono::hours(hour) + std::chrono::minutes(minute) +
         std::chrono::seconds(second);
}

}  // namespace berth::k8sclient
