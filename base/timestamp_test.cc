// SPDX-License-Identifier: Apache-2.0
// Timestamps: which texts are accepted, and which are refused.
#include "base/timestamp.h"

#include <optional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace berth {
namespace {

struct ParseCase {
  const char* name;
  const char* text;
  std::optional<std::int64_t> want;
};

class TimestampParse : public testing::TestWithParam<ParseCase> {};

TEST_P(TimestampParse, TakesRfc3339Only) {
  const auto got = ParseTimestamp(GetParam().text);
  ASSERT_EQ(got.has_value(), GetParam().want.has_value());
  if (got) {
    EXPECT_EQ(*got, *GetParam().want);
  } else {
    EXPECT_EQ(got.error().code, ErrorCode::kInvalid);
    EXPECT_THAT(got.error().message, testing::HasSubstr(GetParam().text));
  }
}

const ParseCase kParseCases[] = {
    {"Epoch", "1970-01-01T00:00:00Z", 0},
    {"BeforeEpoch", "1969-12-31T23:59:59.999Z", -1},
    {"LeapDay", "2028-02-29T12:00:00Z", 1835438400000},
    {"Millis", "2027-01-31T12:00:00.25Z", 1801396800250},
    {"FinerIsCut", "2027-01-31T12:00:00.123987Z", 1801396800123},
    {"OffsetEast", "2027-01-31T14:00:00+02:00", 1801396800000},
    {"OffsetWest", "2027-01-31T07:30:00-04:30", 1801396800000},
    {"LowerCase", "2027-01-31t12:00:00z", 1801396800000},
    {"YearMax", "9999-12-31T23:59:59Z", 253402300799000},
    {"Empty", "", std::nullopt},
    {"DateOnly", "2027-01-31", std::nullopt},
    {"NoZone", "2027-01-31T12:00:00", std::nullopt},
    {"NoSuchDay", "2027-02-29T12:00:00Z", std::nullopt},
    {"NoSuchMonth", "2027-13-01T12:00:00Z", std::nullopt},
    {"Hour24", "2027-01-31T24:00:00Z", std::nullopt},
    {"LeapSecond", "2016-12-31T23:59:60Z", std::nullopt},
    {"DotWithoutDigit", "2027-01-31T12:00:00.Z", std::nullopt},
    {"Sign", "+027-01-31T12:00:00Z", std::nullopt},
    {"TextBehind", "2027-01-31T12:00:00Z ", std::nullopt},
    {"SignedHour", "2027-01-31T-1:00:00Z", std::nullopt},
    {"HalfAnOffset", "2027-01-31T12:00:00+02", std::nullopt},
    {"OffsetTooLarge", "2027-01-31T12:00:00+24:00", std::nullopt},
};
INSTANTIATE_TEST_SUITE_P(Table, TimestampParse, testing::ValuesIn(kParseCases),
                         [](const auto& c) { return std::string(c.param.name); });

TEST(Timestamp, IsFormattedAsKubernetesDoes) {
  EXPECT_EQ(FormatTimestamp(0), "1970-01-01T00:00:00Z");
  EXPECT_EQ(FormatTimestamp(1801396800250), "2027-01-31T12:00:00Z");
  EXPECT_EQ(FormatTimestamp(-1), "1969-12-31T23:59:59Z");
  EXPECT_EQ(FormatMicroTimestamp(1801396800025), "2027-01-31T12:00:00.025000Z");
  EXPECT_EQ(FormatMicroTimestamp(-1), "1969-12-31T23:59:59.999000Z");
}

TEST(Timestamp, IsTheSameAfterFormattingAndParsing) {
  for (std::int64_t ms = -62'135'596'800'000; ms < 253'402'300'799'000; ms += 97'654'321'987) {
    EXPECT_EQ(ParseTimestamp(FormatMicroTimestamp(ms)), ms);
  }
}

}  // namespace
}  // namespace berth
