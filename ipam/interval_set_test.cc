// SPDX-License-Identifier: Apache-2.0
// AddressRange: its grammar. IntervalSet: the ends of both families, where simple arithmetic would overflow.
#include "ipam/interval_set.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ipam/test_values.h"

namespace berth::ipam {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

IntervalSet SetOf(const std::vector<const char*>& texts) {
  std::vector<AddressRange> ranges;
  ranges.reserve(texts.size());
  for (const char* text : texts) ranges.push_back(RangeOf(text));
  return IntervalSet(ranges);
}

std::vector<std::string> Texts(const IntervalSet& set) {
  std::vector<std::string> texts;
  for (const AddressRange& range : set.ranges()) texts.push_back(range.ToString());
  return texts;
}

std::vector<std::string> Texts(const std::vector<Prefix>& prefixes) {
  std::vector<std::string> texts;
  for (const Prefix& prefix : prefixes) texts.push_back(prefix.ToString());
  return texts;
}

struct GoodRange {
  const char* name;
  const char* text;
  const char* first;
  const char* last;
  const char* want;  // as AddressRange prints it
};
class RangeText : public testing::TestWithParam<GoodRange> {};

TEST_P(RangeText, IsReadAndPrintedInItsShortestForm) {
  const auto range = AddressRange::Parse(GetParam().text);
  ASSERT_TRUE(range.has_value()) << range.error().message;
  EXPECT_EQ(range->first.ToString(), GetParam().first);
  EXPECT_EQ(range->last.ToString(), GetParam().last);
  EXPECT_EQ(range->ToString(), GetParam().want);
}

constexpr GoodRange kGoodRanges[] = {
    {"FromTo", "10.55.0.9-10.55.0.12", "10.55.0.9", "10.55.0.12", "10.55.0.9-10.55.0.12"},
    {"Prefix", "10.55.0.0/26", "10.55.0.0", "10.55.0.63", "10.55.0.0/26"},
    {"FromToThatIsAPrefix", "10.55.0.0-10.55.0.63", "10.55.0.0", "10.55.0.63", "10.55.0.0/26"},
    {"AlignedButShort", "10.55.0.0-10.55.0.62", "10.55.0.0", "10.55.0.62", "10.55.0.0-10.55.0.62"},
    {"PowerOfTwoNotAligned", "10.55.0.1-10.55.0.2", "10.55.0.1", "10.55.0.2", "10.55.0.1-10.55.0.2"},
    {"OneAddress", "10.55.0.9", "10.55.0.9", "10.55.0.9", "10.55.0.9"},
    {"FromToOneAddress", "10.55.0.9-10.55.0.9", "10.55.0.9", "10.55.0.9", "10.55.0.9"},
    {"WholeIPv4", "0.0.0.0-255.255.255.255", "0.0.0.0", "255.255.255.255", "0.0.0.0/0"},
    {"WholeIPv6",
     "::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
     "::",
     "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
     "::/0"},
    {"IPv6", "2001:db8::1-2001:db8::ff", "2001:db8::1", "2001:db8::ff", "2001:db8::1-2001:db8::ff"},
};
INSTANTIATE_TEST_SUITE_P(Table, RangeText, testing::ValuesIn(kGoodRanges),
                         [](const auto& c) { return std::string(c.param.name); });

struct BadRange {
  const char* name;
  const char* text;
  const char* want_in_message;
};
class RangeRefusal : public testing::TestWithParam<BadRange> {};

TEST_P(RangeRefusal, QuotesTheTextAndSaysWhy) {
  const auto range = AddressRange::Parse(GetParam().text);
  ASSERT_FALSE(range.has_value()) << "accepted as " << range->ToString();
  EXPECT_EQ(range.error().code, ErrorCode::kInvalid);
  EXPECT_EQ(range.error().message.find(Quoted(GetParam().text)), 0U) << range.error().message;
  EXPECT_NE(range.error().message.find(GetParam().want_in_message), std::string::npos) << range.error().message;
}

constexpr BadRange kBadRanges[] = {
    {"Empty", "", "not an address"},
    {"Backwards", "10.1.0.9-10.1.0.3", "ends before it starts; swap the two addresses"},
    {"MixedFamilies", "10.1.0.9-2001:db8::9", "goes from one family to the other; write one range for each"},
    {"NoEnd", "10.1.0.9-", "\"\": not an address"},
    {"NoStart", "-10.1.0.9", "\"\": not an address"},
    {"LastNumberOnly", "10.1.0.3-9", "\"9\": not an address"},
    {"ThreeAddresses", "10.1.0.3-10.1.0.4-10.1.0.5", "\"10.1.0.4-10.1.0.5\": not an address"},
    {"Blanks", "10.1.0.3 - 10.1.0.9", "without blanks"},
    {"FromToPrefix", "10.1.0.0-10.1.1.0/24", "\"10.1.1.0/24\": not an address"},
    {"HostBits", "10.1.0.3/24", "has bits set right of the mask"},
};
INSTANTIATE_TEST_SUITE_P(Table, RangeRefusal, testing::ValuesIn(kBadRanges),
                         [](const auto& c) { return std::string(c.param.name); });

TEST(IntervalSet, MergesOverlappingAndAdjacentRangesInAnyOrder) {
  EXPECT_THAT(Texts(SetOf({"10.0.0.8-10.0.0.9", "10.0.0.1-10.0.0.4", "10.0.0.4-10.0.0.6", "10.0.0.7"})),
              ElementsAre("10.0.0.1-10.0.0.9"));
}

TEST(IntervalSet, KeepsRangesWithOneAddressBetweenThemApart) {
  EXPECT_THAT(Texts(SetOf({"10.0.0.1", "10.0.0.3"})), ElementsAre("10.0.0.1", "10.0.0.3"));
}

TEST(IntervalSet, NeverJoinsTheLastOfIPv4WithTheFirstOfIPv6) {
  EXPECT_THAT(Texts(SetOf({"::", "255.255.255.255"})), ElementsAre("255.255.255.255", "::"));
}

TEST(IntervalSet, NeverJoinsEqualNumbersOfTwoFamilies) {
  EXPECT_THAT(Texts(SetOf({"0.0.0.5", "::6"})), ElementsAre("0.0.0.5", "::6"));
}

TEST(IntervalSet, AddFillsAHole) {
  IntervalSet set = SetOf({"10.0.0.1-10.0.0.3", "10.0.0.5-10.0.0.9"});
  set.Add(RangeOf("10.0.0.4"));
  EXPECT_THAT(Texts(set), ElementsAre("10.0.0.1-10.0.0.9"));
}

TEST(IntervalSet, AddSwallowsWhatItCovers) {
  IntervalSet set = SetOf({"10.0.0.1", "10.0.0.3", "10.0.0.5", "10.0.0.7"});
  set.Add(RangeOf("10.0.0.2-10.0.0.5"));
  EXPECT_THAT(Texts(set), ElementsAre("10.0.0.1-10.0.0.5", "10.0.0.7"));
}

TEST(IntervalSet, SubtractCutsAHole) {
  IntervalSet set = SetOf({"10.0.0.1-10.0.0.9"});
  set.Subtract(RangeOf("10.0.0.4-10.0.0.5"));
  EXPECT_THAT(Texts(set), ElementsAre("10.0.0.1-10.0.0.3", "10.0.0.6-10.0.0.9"));
}

TEST(IntervalSet, SubtractWorksAtBothEndsOfAFamily) {
  IntervalSet set = SetOf({"0.0.0.0/0", "::/0"});
  set.Subtract(RangeOf("0.0.0.0"));
  set.Subtract(RangeOf("255.255.255.255"));
  set.Subtract(RangeOf("::"));
  set.Subtract(RangeOf("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"));
  EXPECT_THAT(Texts(set), ElementsAre("0.0.0.1-255.255.255.254", "::1-ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe"));
}

TEST(IntervalSet, SubtractOfEverythingLeavesNothing) {
  IntervalSet set = SetOf({"0.0.0.0/0", "::/0"});
  set.Subtract(RangeOf("0.0.0.0/0"));
  EXPECT_THAT(Texts(set), ElementsAre("::/0"));
  set.Subtract(RangeOf("::/0"));
  EXPECT_TRUE(set.empty());
}

TEST(IntervalSet, SubtractOfASetReachesOverSeveralIntervals) {
  IntervalSet set = SetOf({"10.0.0.0-10.0.0.5", "10.0.0.10-10.0.0.15", "10.0.0.20-10.0.0.25"});
  set.Subtract(SetOf({"10.0.0.1", "10.0.0.3-10.0.0.21", "10.0.0.25"}));
  EXPECT_THAT(Texts(set), ElementsAre("10.0.0.0", "10.0.0.2", "10.0.0.22-10.0.0.24"));
}

TEST(IntervalSet, ContainsTheEdgesOfItsIntervals) {
  const IntervalSet set = SetOf({"10.0.0.1-10.0.0.3"});
  EXPECT_FALSE(set.Contains(AddressOf("10.0.0.0")));
  EXPECT_TRUE(set.Contains(AddressOf("10.0.0.1")));
  EXPECT_TRUE(set.Contains(AddressOf("10.0.0.3")));
  EXPECT_FALSE(set.Contains(AddressOf("10.0.0.4")));
}

TEST(IntervalSet, CountsUpTo2To128MinusOne) {
  EXPECT_EQ(ToString(IntervalSet().Count()), "0");
  EXPECT_EQ(ToString(SetOf({"0.0.0.0/0"}).Count()), "4294967296");
  EXPECT_EQ(ToString(SetOf({"::1-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"}).Count()), ToString(~Uint128{0}));
  EXPECT_EQ(ToString(SetOf({"::/0"}).Count()), ToString(~Uint128{0}));
  EXPECT_EQ(ToString(SetOf({"0.0.0.0/0", "::/0"}).Count()), ToString(~Uint128{0}));
}

TEST(IntervalSet, IsCoveredByTheFewestPrefixes) {
  EXPECT_THAT(Texts(SetOf({"10.0.0.1-10.0.0.14"}).ToPrefixes()),
              ElementsAre("10.0.0.1/32", "10.0.0.2/31", "10.0.0.4/30", "10.0.0.8/30", "10.0.0.12/31", "10.0.0.14/32"));
  EXPECT_THAT(Texts(SetOf({"0.0.0.0/0", "::/0"}).ToPrefixes()), ElementsAre("0.0.0.0/0", "::/0"));
}

TEST(IntervalSet, IsCoveredAtTheEndOfAFamily) {
  EXPECT_THAT(Texts(SetOf({"255.255.255.253-255.255.255.255"}).ToPrefixes()),
              ElementsAre("255.255.255.253/32", "255.255.255.254/31"));
  EXPECT_EQ(SetOf({"::1-ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe"}).ToPrefixes().size(), 254U);
}

TEST(IntervalSet, LeavesOutPrefixesBeyondTheLimit) {
  const IntervalSet set = SetOf({"10.0.0.1-10.0.0.14", "10.1.0.0/16"});
  EXPECT_THAT(Texts(set.ToPrefixes(2)), ElementsAre("10.0.0.1/32", "10.0.0.2/31"));
  EXPECT_THAT(Texts(set.ToPrefixes(7)), testing::Contains("10.1.0.0/16"));
  EXPECT_THAT(IntervalSet().ToPrefixes(7), IsEmpty());
}

TEST(IntervalSetDeathTest, RefusesARangeThatRunsBackwards) {
  IntervalSet set;
  EXPECT_DEATH(set.Add({AddressOf("10.0.0.2"), AddressOf("10.0.0.1")}), "check failed");
  EXPECT_DEATH(set.Subtract({AddressOf("10.0.0.2"), AddressOf("::3")}), "check failed");
}

}  // namespace
}  // namespace berth::ipam
