// SPDX-License-Identifier: Apache-2.0
// ParseHttpDate: one form, and nothing that could be read in two ways.
#include "k8sclient/http_date.h"

#include <gtest/gtest.h>

namespace berth::k8sclient {
namespace {

struct DateCase {
  const char* name;
  const char* text;
  std::int64_t unix_seconds;  // -1: it is none
};

class HttpDate : public ::testing::TestWithParam<DateCase> {};

TEST_P(HttpDate, IsReadInOneFormOnly) {
  const auto date = ParseHttpDate(GetParam().text);
  EXPECT_EQ(date ? date->time_since_epoch().count() : -1, GetParam().unix_seconds) << GetParam().text;
}

const DateCase kDateCases[] = {
    {"OfTheRfc", "Sun, 06 Nov 1994 08:49:37 GMT", 784'111'777},
    {"OfToday", "Thu, 01 Jan 2026 00:00:00 GMT", 1'767'225'600},
    {"First", "Thu, 01 Jan 1970 00:00:00 GMT", 0},
    {"LeapDay", "Thu, 29 Feb 2024 23:59:59 GMT", 1'709'251'199},
    {"LeapSecond", "Sat, 31 Dec 2016 23:59:60 GMT", 1'483'228'800},
    {"NoLeapDay", "Sat, 29 Feb 2025 00:00:00 GMT", -1},
    {"NoSuchMonth", "Sun, 06 Nuv 1994 08:49:37 GMT", -1},
    {"NoSuchHour", "Sun, 06 Nov 1994 24:49:37 GMT", -1},
    {"OtherZone", "Sun, 06 Nov 1994 08:49:37 CET", -1},
    {"Rfc850", "Sunday, 06-Nov-94 08:49:37 GMT", -1},
    {"Asctime", "Sun Nov  6 08:49:37 1994", -1},
    {"Sign", "Sun, 06 Nov -994 08:49:37 GMT", -1},
    {"TooEarly", "Sun, 06 Nov 1969 08:49:37 GMT", -1},
    {"TooLate", "Sun, 06 Nov 9994 08:49:37 GMT", -1},
    {"MoreBehind", "Sun, 06 Nov 1994 08:49:37 GMT ", -1},
    {"Empty", "", -1},
};
INSTANTIATE_TEST_SUITE_P(Table, HttpDate, ::testing::ValuesIn(kDateCases),
                         [](const auto& c) { return std::string(c.param.name); });

}  // namespace
}  // namespace berth::k8sclient
