// SPDX-License-Identifier: Apache-2.0
// RFC 3339, parsed and printed by our own code: GCC 12 has neither std::chrono::parse nor std::format.
#include "base/timestamp.h"

#include <algorithm>
#include <chrono>
#include <optional>

#include "base/check.h"

namespace berth {

namespace {

using std::chrono::floor;

// Parses a text piece by piece from the front. After the first piece that does not have the expected form, all further
// pieces fail too.
class Cursor {
 public:
  explicit Cursor(std::string_view text) : rest_(text) {}

  [[nodiscard]] int Digits(std::size_t count) {
    int number = 0;
    for (std::size_t i = 0; i < count; ++i) {
      if (rest_.empty() || rest_.front() < '0' || rest_.front() > '9') failed_ = true;
      if (failed_) return 0;
      number = number * 10 + (rest_.front() - '0');
      rest_.remove_prefix(1);
    }
    return number;
  }
  // Takes one character if it is in `characters`.
  std::optional<char> AnyOf(std::string_view characters) {
    if (failed_ || rest_.empty() || !characters.contains(rest_.front())) return std::nullopt;
    const char taken = rest_.front();
    rest_.remove_prefix(1);
    return taken;
  }
  void Expect(std::string_view characters) {
    if (!AnyOf(characters)) failed_ = true;
  }
  void Require(bool condition) { failed_ = failed_ || !condition; }
  [[nodiscard]] bool Done() const { return !failed_ && rest_.empty(); }

 private:
  std::string_view rest_;
  bool failed_ = false;
};

std::chrono::sys_days ReadDate(Cursor& cursor) {
  const int year = cursor.Digits(4);
  cursor.Expect("-");
  const int month = cursor.Digits(2);
  cursor.Expect("-");
  const int day = cursor.Digits(2);
  const std::chrono::year_month_day date{std::chrono::year(year),
                                         std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day))};
  cursor.Require(date.ok());
  return date.ok() ? std::chrono::sys_days(date) : std::chrono::sys_days();
}

std::chrono::milliseconds ReadFraction(Cursor& cursor) {
  if (!cursor.AnyOf(".")) return {};
  int millis = cursor.Digits(1) * 100;
  for (int weight = 10; const auto digit = cursor.AnyOf("0123456789"); weight /= 10) millis += (*digit - '0') * weight;
  return std::chrono::milliseconds(millis);
}

std::chrono::milliseconds ReadTimeOfDay(Cursor& cursor) {
  const int hours = cursor.Digits(2);
  cursor.Expect(":");
  const int minutes = cursor.Digits(2);
  cursor.Expect(":");
  const int seconds = cursor.Digits(2);
  cursor.Require(hours < 24 && minutes < 60 && seconds < 60);
  return std::chrono::hours(hours) + std::chrono::minutes(minutes) + std::chrono::seconds(seconds) +
         ReadFraction(cursor);
}

std::chrono::minutes ReadOffset(Cursor& cursor) {
  if (cursor.AnyOf("Zz")) return {};
  const auto sign = cursor.AnyOf("+-");
  cursor.Require(sign.has_value());
  const int hours = cursor.Digits(2);
  cursor.Expect(":");
  const int minutes = cursor.Digits(2);
  cursor.Require(hours < 24 && minutes < 60);
  const auto offset = std::chrono::hours(hours) + std::chrono::minutes(minutes);
  return sign == '-' ? -offset : offset;
}

struct Calendar {
  std::chrono::year_month_day date;
  std::chrono::hh_mm_ss<std::chrono::milliseconds> time;
};

Calendar CalendarOf(std::int64_t unix_ms) {
  const std::chrono::sys_time<std::chrono::milliseconds> time{std::chrono::milliseconds(unix_ms)};
  const auto day = floor<std::chrono::days>(time);
  Calendar calendar{.date = day, .time = std::chrono::hh_mm_ss(time - day)};
  BERTH_CHECK(int{calendar.date.year()} >= 0 && int{calendar.date.year()} <= 9999);
  return calendar;
}

// `number` in decimal with leading zeros, at least `count` digits.
std::string Digits(std::int64_t number, std::size_t count) {
  const std::string digits = std::to_string(number);
  return std::string(count - std::min(count, digits.size()), '0') + digits;
}

std::string FormatSeconds(const Calendar& calendar) {
  return Digits(int{calendar.date.year()}, 4) + '-' + Digits(unsigned{calendar.date.month()}, 2) + '-' +
         Digits(unsigned{calendar.date.day()}, 2) + 'T' + Digits(calendar.time.hours().count(), 2) + ':' +
         Digits(calendar.time.minutes().count(), 2) + ':' + Digits(calendar.time.seconds().count(), 2);
}

}  // namespace

Expected<std::int64_t> ParseTimestamp(std::string_view text) {
  Cursor cursor(text);
  const std::chrono::sys_days day = ReadDate(cursor);
  cursor.Expect("Tt");
  const std::chrono::milliseconds time_of_day = ReadTimeOfDay(cursor);
  const std::chrono::minutes offset = ReadOffset(cursor);
  if (!cursor.Done()) {
    return Fail(ErrorCode::kInvalid, Quoted(text) + ": not a time; write one like 2027-01-31T12:00:00Z");
  }
  return (std::chrono::sys_time<std::chrono::milliseconds>(day) + time_of_day - offset).time_since_epoch().count();
}

std::string FormatTimestamp(std::int64_t unix_ms) { return FormatSeconds(CalendarOf(unix_ms)) + 'Z'; }

std::string FormatMicroTimestamp(std::int64_t unix_ms) {
  const Calendar calendar = CalendarOf(unix_ms);
  return FormatSeconds(calendar) + '.' + Digits(calendar.time.subseconds().count(), 3) + "000Z";
}

}  // namespace berth
