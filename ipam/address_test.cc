// SPDX-License-Identifier: Apache-2.0
// Address: which texts it accepts, which text it prints, and 128-bit numbers in decimal.
#include "ipam/address.h"

#include <string>

#include <gtest/gtest.h>

namespace berth::ipam {
namespace {

struct GoodAddressCase {
  const char* name;
  const char* text;
  const char* want;  // as Address prints it
};
class AddressText : public testing::TestWithParam<GoodAddressCase> {};

TEST_P(AddressText, IsPrintedInItsOneForm) {
  const auto address = Address::Parse(GetParam().text);
  ASSERT_TRUE(address.has_value()) << address.error().message;
  EXPECT_EQ(address->ToString(), GetParam().want);
}

TEST_P(AddressText, PrintedFormIsReadAsTheSameAddress) {
  const auto address = Address::Parse(GetParam().text);
  ASSERT_TRUE(address.has_value()) << address.error().message;
  EXPECT_EQ(Address::Parse(address->ToString()), *address);
}

constexpr GoodAddressCase kGoodAddresses[] = {
    {"FirstOfIPv4", "0.0.0.0", "0.0.0.0"},
    {"LastOfIPv4", "255.255.255.255", "255.255.255.255"},
    {"PlainIPv4", "10.55.0.9", "10.55.0.9"},
    {"FirstOfIPv6", "::", "::"},
    {"FirstOfIPv6Written", "0:0:0:0:0:0:0:0", "::"},
    {"LastOfIPv6", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"},
    {"Loopback", "0:0:0:0:0:0:0:1", "::1"},
    {"GapAtEnd", "2001:db8:0:0:0:0:0:0", "2001:db8::"},
    {"GapAtStart", "0:0:0:0:1:2:3:4", "::1:2:3:4"},
    {"UpperCase", "2001:DB8::ABCD", "2001:db8::abcd"},
    {"LeadingZerosInGroups", "2001:0db8:0001::0009", "2001:db8:1::9"},
    {"SingleZeroIsWritten", "2001:db8:0:1:1:1:1:1", "2001:db8:0:1:1:1:1:1"},
    {"GapForOneGroupIsRead", "2001:db8::1:1:1:1:1", "2001:db8:0:1:1:1:1:1"},
    {"GapForLastGroupIsRead", "1:2:3:4:5:6:7::", "1:2:3:4:5:6:7:0"},
    {"GapForFirstGroupIsRead", "::2:3:4:5:6:7:8", "0:2:3:4:5:6:7:8"},
    {"LongestRunIsShortened", "2001:0:0:1:0:0:0:1", "2001:0:0:1::1"},
    {"FirstOfEqualRunsIsShortened", "2001:db8:0:0:1:0:0:1", "2001:db8::1:0:0:1"},
    {"GapNotAtTheLongestRun", "2001:0:0:1::", "2001:0:0:1::"},
    {"DottedQuadAtTheEnd", "64:ff9b::10.55.0.9", "64:ff9b::a37:9"},
    {"DottedQuadWithoutGap", "1:2:3:4:5:6:1.2.3.4", "1:2:3:4:5:6:102:304"},
    {"DottedQuadAfterGapForOneGroup", "1:2:3:4:5::1.2.3.4", "1:2:3:4:5:0:102:304"},
    {"NearlyMapped", "::fffe:10.55.0.9", "::fffe:a37:9"},
};
INSTANTIATE_TEST_SUITE_P(Table, AddressText, testing::ValuesIn(kGoodAddresses),
                         [](const auto& c) { return std::string(c.param.name); });

struct BadAddressCase {
  const char* name;
  std::string_view text;
  const char* want_in_message;
};
class AddressRefusal : public testing::TestWithParam<BadAddressCase> {};

TEST_P(AddressRefusal, QuotesTheTextAndSaysWhy) {
  const auto address = Address::Parse(GetParam().text);
  ASSERT_FALSE(address.has_value()) << "accepted as " << address->ToString();
  EXPECT_EQ(address.error().code, ErrorCode::kInvalid);
  EXPECT_EQ(address.error().message.find(Quoted(GetParam().text)), 0U) << address.error().message;
  EXPECT_NE(address.error().message.find(GetParam().want_in_message), std::string::npos) << address.error().message;
}

constexpr BadAddressCase kBadAddresses[] = {
    {"Empty", "", "not an address"},
    {"Word", "bogus", "not an address"},
    {"ThreeNumbers", "10.55.0", "not an address"},
    {"FiveNumbers", "10.55.0.9.1", "not an address"},
    {"EmptyNumber", "10..0.9", "not an address"},
    {"TrailingDot", "10.55.0.9.", "not an address"},
    {"NumberTooLarge", "10.55.0.256", "not an address"},
    {"FourDigits", "10.55.0.0009", "not an address"},
    {"Sign", "10.55.0.+9", "not an address"},
    {"Negative", "10.55.0.-9", "not an address"},
    {"HexInIPv4", "0x0a.55.0.9", "not an address"},
    {"LeadingBlank", " 10.55.0.9", "without blanks"},
    {"TrailingBlank", "10.55.0.9 ", "without blanks"},
    {"TrailingNewline", "10.55.0.9\n", "without blanks"},
    {"NulByte", std::string_view("10.55.0.9\0", 10), "not an address"},
    {"PrefixLength", "10.55.0.9/26", "not an address"},
    {"LeadingZero", "10.055.0.9", "leading zero in \"055\", which some programs read as octal; write 10.55.0.9"},
    {"TwoZeros", "10.55.0.00", "leading zero in \"00\""},
    {"Mapped", "::ffff:10.55.0.9", "IPv4-mapped, a second name of an IPv4 address; write 10.55.0.9"},
    {"MappedInHex", "::ffff:a37:9", "write 10.55.0.9"},
    {"MappedWrittenOut", "0:0:0:0:0:FFFF:a37:9", "write 10.55.0.9"},
    {"Zone", "fe80::1%eth0", "has a zone; leave out \"%eth0\""},
    {"ZoneOnIPv4", "10.55.0.9%eth0", "has a zone"},
    {"SevenGroups", "1:2:3:4:5:6:7", "not an IPv6 address"},
    {"NineGroups", "1:2:3:4:5:6:7:8:9", "not an IPv6 address"},
    {"GapForNothing", "1:2:3:4::5:6:7:8", "not an IPv6 address"},
    {"TwoGaps", "1::2::3", "not an IPv6 address"},
    {"ThreeColons", "1:::2", "not an IPv6 address"},
    {"OnlyThreeColons", ":::", "not an IPv6 address"},
    {"OneColon", ":", "not an IPv6 address"},
    {"LeadingColon", ":1:2:3:4:5:6:7", "not an IPv6 address"},
    {"TrailingColon", "1:2:3:4:5:6:7:", "not an IPv6 address"},
    {"TrailingColonAfterGap", "1::2:", "not an IPv6 address"},
    {"FiveDigitsInGroup", "2001:db8::00001", "not an IPv6 address"},
    {"NotHex", "2001:db8::g", "not an IPv6 address"},
    {"SignInGroup", "2001:db8::+1", "not an IPv6 address"},
    {"HexPrefixInGroup", "2001:db8::0x1", "not an IPv6 address"},
    {"Brackets", "[2001:db8::1]", "not an IPv6 address"},
    {"QuadBeforeGap", "1.2.3.4::", "not an IPv6 address"},
    {"QuadInTheMiddle", "1::1.2.3.4:5", "not an IPv6 address"},
    {"QuadTooMuch", "1:2:3:4:5:6:7:1.2.3.4", "not an IPv6 address"},
    {"QuadTooMuchWithGap", "1:2:3:4:5:6::1.2.3.4", "not an IPv6 address"},
    {"QuadWithLeadingZero", "64:ff9b::10.055.0.9", "not an IPv6 address"},
};
INSTANTIATE_TEST_SUITE_P(Table, AddressRefusal, testing::ValuesIn(kBadAddresses),
                         [](const auto& c) { return std::string(c.param.name); });

TEST(Address, OrdersIPv4BeforeIPv6AndThenByNumber) {
  const Address last_v4 = Address::FromBits(Family::kIPv4, 0xffffffffU);
  const Address first_v6 = Address::FromBits(Family::kIPv6, 0);
  EXPECT_LT(Address(), last_v4);
  EXPECT_LT(last_v4, first_v6);
  EXPECT_LT(first_v6, Address::FromBits(Family::kIPv6, 1));
}

TEST(Address, BitsAreInHostOrder) {
  EXPECT_TRUE(Address::Parse("10.55.0.9")->bits() == 0x0a370009U);
  EXPECT_TRUE(Address::Parse("::1:0")->bits() == 0x10000U);
}

TEST(AddressDeathTest, RefusesBitsBeyondTheFamily) {
  EXPECT_DEATH((void)Address::FromBits(Family::kIPv4, Uint128{1} << 32), "check failed");
}

TEST(Uint128Text, IsDecimal) {
  EXPECT_EQ(ToString(Uint128{0}), "0");
  EXPECT_EQ(ToString(Uint128{10}), "10");
  EXPECT_EQ(ToString(Uint128{1} << 64), "18446744073709551616");
  EXPECT_EQ(ToString(~Uint128{0}), "340282366920938463463374607431768211455");
}

}  // namespace
}  // namespace berth::ipam
