// SPDX-License-Identifier: Apache-2.0
// Prefix: which texts it accepts, and what it computes, beginning with edge cases.
#include "ipam/prefix.h"

#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "ipam/test_values.h"

namespace berth::ipam {
namespace {

struct GoodPrefixCase {
  const char* name;
  const char* text;  // canonical
  const char* last;
  const char* last_offset;
};
class PrefixText : public testing::TestWithParam<GoodPrefixCase> {};

TEST_P(PrefixText, IsReadAndPrintedBack) {
  const auto prefix = Prefix::Parse(GetParam().text);
  ASSERT_TRUE(prefix.has_value()) << prefix.error().message;
  EXPECT_EQ(prefix->ToString(), GetParam().text);
}

TEST_P(PrefixText, EndsWhereItShould) {
  const Prefix prefix = PrefixOf(GetParam().text);
  EXPECT_EQ(prefix.Last().ToString(), GetParam().last);
  EXPECT_EQ(ToString(prefix.LastOffset()), GetParam().last_offset);
}

TEST_P(PrefixText, OffsetsRunFromItsFirstToItsLastAddress) {
  const Prefix prefix = PrefixOf(GetParam().text);
  EXPECT_EQ(prefix.At(0), prefix.First());
  EXPECT_EQ(prefix.At(prefix.LastOffset()), prefix.Last());
  EXPECT_TRUE(prefix.OffsetOf(prefix.First()) == 0);
  EXPECT_TRUE(prefix.OffsetOf(prefix.Last()) == prefix.LastOffset());
}

constexpr GoodPrefixCase kGoodPrefixes[] = {
    {"DefaultBlock", "10.55.0.0/26", "10.55.0.63", "63"},
    {"WholeIPv4", "0.0.0.0/0", "255.255.255.255", "4294967295"},
    {"OneIPv4", "255.255.255.255/32", "255.255.255.255", "0"},
    {"TwoIPv4", "255.255.255.254/31", "255.255.255.255", "1"},
    {"DefaultIPv6Block", "2001:db8::/122", "2001:db8::3f", "63"},
    {"WholeIPv6", "::/0", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "340282366920938463463374607431768211455"},
    {"HalfIPv6", "8000::/1", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "170141183460469231731687303715884105727"},
    {"OneIPv6", "2001:db8::9/128", "2001:db8::9", "0"},
    {"AcrossTheMiddle", "2001:db8::/63", "2001:db8:0:1:ffff:ffff:ffff:ffff", "36893488147419103231"},
};
INSTANTIATE_TEST_SUITE_P(Table, PrefixText, testing::ValuesIn(kGoodPrefixes),
                         [](const auto& c) { return std::string(c.param.name); });

struct BadPrefixCase {
  const char* name;
  const char* text;
  const char* want_in_message;
};
class PrefixRefusal : public testing::TestWithParam<BadPrefixCase> {};

TEST_P(PrefixRefusal, QuotesTheTextAndSaysWhy) {
  const auto prefix = Prefix::Parse(GetParam().text);
  ASSERT_FALSE(prefix.has_value()) << "accepted as " << prefix->ToString();
  EXPECT_EQ(prefix.error().code, ErrorCode::kInvalid);
  EXPECT_EQ(prefix.error().message.find(Quoted(GetParam().text)), 0U) << prefix.error().message;
  EXPECT_NE(prefix.error().message.find(GetParam().want_in_message), std::string::npos) << prefix.error().message;
}

constexpr BadPrefixCase kBadPrefixes[] = {
    {"Empty", "", "not an address"},
    {"NoLength", "10.55.0.9", "has no prefix length; for this one address write 10.55.0.9/32"},
    {"NoLengthIPv6", "2001:db8::9", "write 2001:db8::9/128"},
    {"EmptyLength", "10.55.0.0/", "\"\" is not a prefix length; write a number from 0 to 32"},
    {"LengthTooLarge", "10.55.0.0/33", "from 0 to 32"},
    {"LengthTooLargeIPv6", "2001:db8::/129", "from 0 to 128"},
    {"LengthNegative", "10.55.0.0/-1", "from 0 to 32"},
    {"LengthWithSign", "10.55.0.0/+26", "from 0 to 32"},
    {"LengthWithLeadingZero", "10.55.0.0/026", "from 0 to 32"},
    {"LengthOverflows", "10.55.0.0/4294967322", "from 0 to 32"},
    {"LengthIsMask", "10.55.0.0/255.255.255.192", "from 0 to 32"},
    {"TextAfterLength", "10.55.0.0/26 ", "from 0 to 32"},
    {"TwoLengths", "10.55.0.0/26/26", "from 0 to 32"},
    {"HostBitsSet", "10.55.0.1/26", "has bits set right of the mask; the prefix that contains it is 10.55.0.0/26"},
    {"HostBitsSetIPv6", "2001:db8::1/122", "is 2001:db8::/122"},
    {"HostBitsInAll", "::1/0", "is ::/0"},
    {"LeadingZeroInAddress", "10.055.0.0/26", "\"10.055.0.0\": leading zero"},
    {"Mapped", "::ffff:10.55.0.0/122", "IPv4-mapped"},
};
INSTANTIATE_TEST_SUITE_P(Table, PrefixRefusal, testing::ValuesIn(kBadPrefixes),
                         [](const auto& c) { return std::string(c.param.name); });

TEST(Prefix, IsReadFromItsTextAloneWhereThatIsPartOfALongerOne) {
  EXPECT_EQ(Prefix::Parse(std::string_view("0.0.0.0/24").substr(0, 9))->ToString(), "0.0.0.0/2");
}

TEST(Prefix, AroundClearsTheBitsRightOfTheMask) {
  EXPECT_EQ(Prefix::Around(AddressOf("10.55.0.77"), 26), PrefixOf("10.55.0.64/26"));
  EXPECT_EQ(Prefix::Around(AddressOf("10.55.0.77"), 32), PrefixOf("10.55.0.77/32"));
  EXPECT_EQ(Prefix::Around(AddressOf("255.255.255.255"), 0), PrefixOf("0.0.0.0/0"));
  EXPECT_EQ(Prefix::Around(AddressOf("ffff::1"), 0), PrefixOf("::/0"));
}

TEST(Prefix, ContainsItsEdgesAndNotTheirNeighbours) {
  const Prefix block = PrefixOf("10.55.0.64/26");
  EXPECT_FALSE(block.Contains(AddressOf("10.55.0.63")));
  EXPECT_TRUE(block.Contains(AddressOf("10.55.0.64")));
  EXPECT_TRUE(block.Contains(AddressOf("10.55.0.127")));
  EXPECT_FALSE(block.Contains(AddressOf("10.55.0.128")));
}

TEST(Prefix, ContainsNoAddressOfTheOtherFamily) {
  EXPECT_FALSE(PrefixOf("0.0.0.0/0").Contains(AddressOf("::")));
  EXPECT_FALSE(PrefixOf("::/0").Contains(AddressOf("0.0.0.0")));
  EXPECT_FALSE(PrefixOf("0.0.0.0/0").Overlaps(PrefixOf("::/0")));
}

TEST(Prefix, ContainsLongerPrefixesInsideOnly) {
  EXPECT_TRUE(PrefixOf("10.55.0.0/16").Contains(PrefixOf("10.55.0.64/26")));
  EXPECT_TRUE(PrefixOf("10.55.0.0/16").Contains(PrefixOf("10.55.0.0/16")));
  EXPECT_FALSE(PrefixOf("10.55.0.64/26").Contains(PrefixOf("10.55.0.0/16")));
  EXPECT_FALSE(PrefixOf("10.55.0.0/16").Contains(PrefixOf("10.56.0.64/26")));
}

TEST(Prefix, OverlapsInBothDirections) {
  EXPECT_TRUE(PrefixOf("10.55.0.0/16").Overlaps(PrefixOf("10.55.0.64/26")));
  EXPECT_TRUE(PrefixOf("10.55.0.64/26").Overlaps(PrefixOf("10.55.0.0/16")));
  EXPECT_FALSE(PrefixOf("10.55.0.64/26").Overlaps(PrefixOf("10.55.0.128/26")));
}

TEST(PrefixDeathTest, RefusesOffsetsAndAddressesOutside) {
  EXPECT_DEATH((void)PrefixOf("10.55.0.0/26").At(64), "check failed");
  EXPECT_DEATH((void)PrefixOf("10.55.0.0/26").OffsetOf(AddressOf("10.55.0.64")), "check failed");
  EXPECT_DEATH((void)Prefix::Around(AddressOf("10.55.0.0"), 33), "check failed");
}

}  // namespace
}  // namespace berth::ipam
