// SPDX-License-Identifier: Apache-2.0
// Entry: parsing and printing, and texts that cannot be parsed.
#include "ipam/entry.h"

#include <limits>
#include <string>

#include <gtest/gtest.h>

namespace berth::ipam {
namespace {

constexpr const char* kAttachment = "0123456789ab-0123456789abcdef";

struct TextCase {
  const char* name;
  const char* text;
};

std::string NameOf(const testing::TestParamInfo<TextCase>& c) { return c.param.name; }

class EntryRoundTrip : public testing::TestWithParam<TextCase> {};

TEST_P(EntryRoundTrip, PrintsWhatItParsed) {
  const Entry entry = ParseEntry(GetParam().text);
  ASSERT_FALSE(std::holds_alternative<OpaqueEntry>(entry)) << "not understood";
  EXPECT_EQ(FormatEntry(entry).value(), GetParam().text);
}

constexpr TextCase kWellFormed[] = {
    {"Pod", "team-a/web-0 8d5f9c2e-1111-2222-3333-444455556666 0123456789ab-0123456789abcdef i=eth0 t=1700000000000"},
    {"NothingKnown", "-/- - 0123456789ab-0123456789abcdef i=eth0 t=1"},
    {"SharedBlock", "a/b u 0123456789ab-0123456789abcdef i=eth0 t=1 n=node-1"},
    {"Cooldown", "a/b u 0123456789ab-0123456789abcdef i=eth0 t=1 c=30"},
    {"CooldownOfASecond", "a/b u 0123456789ab-0123456789abcdef i=eth0 t=1 c=1"},
    {"SharedSibling", "a/b u 0123456789ab-0123456789abcdef i=eth0 t=1 s=1"},
    {"UnknownKeysAreKept", "a/b u 0123456789ab-0123456789abcdef i=eth0 t=1 z=9 y=%20"},
    {"APartOfAnEarlierVersionIsKept", "a/b u 0123456789ab-0123456789abcdef i=eth0 t=1 c=30 r=x"},
    {"EncodedBlank", "a/b%20c u 0123456789ab-0123456789abcdef i=eth0 t=1"},
    {"Cooling", "~ t=1700000000000"},
    {"CoolingWithMark", "~ t=1700000000000 f=0123456789ab-0123456789abcdef"},
    {"CoolingWithWhatWasFreed",
     "~ t=1700000000000 f=0123456789ab-0123456789abcdef default/web uid 0123456789ab-0123456789abcdef i=eth0 t=1 "
     "ns=cni-1"},
    {"NetworkNamespace", "default/web uid 0123456789ab-0123456789abcdef i=eth0 t=1 ns=cni-1"},
    {"Reserved", "! printer"},
};
INSTANTIATE_TEST_SUITE_P(Table, EntryRoundTrip, testing::ValuesIn(kWellFormed), NameOf);

class EntryOpaque : public testing::TestWithParam<TextCase> {};

TEST_P(EntryOpaque, IsKeptAsItStands) {
  const Entry entry = ParseEntry(GetParam().text);
  ASSERT_TRUE(std::holds_alternative<OpaqueEntry>(entry)) << "understood: " << FormatEntry(entry).value();
  EXPECT_EQ(FormatEntry(entry).value(), GetParam().text);
}

constexpr TextCase kMalformed[] = {
    {"Empty", ""},
    {"NoSlash", "web-0 u 0123456789ab-0123456789abcdef i=eth0 t=1"},
    {"AttachmentTooShort", "a/b u 0123456789ab-0123456789abcde i=eth0 t=1"},
    {"AttachmentUpperCase", "a/b u 0123456789AB-0123456789abcdef i=eth0 t=1"},
    {"NoTime", "a/b u 0123456789ab-0123456789abcdef i=eth0"},
    {"CoolingWithoutTime", "~ f=0123456789ab-0123456789abcdef"},
    {"CoolingTimeIsNoNumber", "~ t=soon"},
};
INSTANTIATE_TEST_SUITE_P(Table, EntryOpaque, testing::ValuesIn(kMalformed), NameOf);

// A text of five parts with an attachment is a held entry even if a later part cannot be parsed. If it were opaque, a
// node could write entries into Shared blocks that belong to no pod, and nobody would ever free them.
class EntryOfAPod : public testing::TestWithParam<TextCase> {};

TEST_P(EntryOfAPod, IsHeldWhateverFollowsTheAttachment) {
  const Entry entry = ParseEntry(GetParam().text);
  const auto* held = std::get_if<HeldEntry>(&entry);
  ASSERT_NE(held, nullptr);
  EXPECT_EQ(held->pod_namespace, "a");
  EXPECT_EQ(held->attachment, kAttachment);
}

constexpr TextCase kOfAPod[] = {
    {"TimeIsNoNumber", "a/b u 0123456789ab-0123456789abcdef i=eth0 t=soon"},
    {"TimeIsTooLarge", "a/b u 0123456789ab-0123456789abcdef i=eth0 t=99999999999999999999"},
    {"CooldownIsNoNumber", "a/b u 0123456789ab-0123456789abcdef i=eth0 t=1 c=x"},
    {"TruncatedEncoding", "a/b%2 u 0123456789ab-0123456789abcdef i=e%2 t=1"},
    {"EncodingWithAWrongSecondDigit", "a/b%2g u 0123456789ab-0123456789abcdef i=e%2g t=1"},
    {"OptionWithoutEquals", "a/b u 0123456789ab-0123456789abcdef i=eth0 t=1 x"},
    {"OptionWithoutKey", "a/b u 0123456789ab-0123456789abcdef i=eth0 t=1 =x"},
};
INSTANTIATE_TEST_SUITE_P(Table, EntryOfAPod, testing::ValuesIn(kOfAPod), NameOf);

TEST(Entry, AnyBytesOfAPodNameComeBack) {
  std::string every_byte;
  for (int byte = 0; byte < 256; ++byte) every_byte += static_cast<char>(byte);
  const HeldEntry entry{.pod_namespace = "a/b",
                        .pod = every_byte.substr(0, 200),
                        .uid = "-",
                        .attachment = kAttachment,
                        .interface = "e =%",
                        .since_ms = 1,
                        .node = {},
                        .cooldown_s = 0,
                        .has_shared_sibling = false,
                        .unknown = {}};
  EXPECT_EQ(ParseEntry(FormatEntry(entry).value()), Entry(entry));
}

TEST(Entry, AnEncodedByteMayHaveLowerCaseDigits) {
  const Entry entry = ParseEntry("a/b%2fc u 0123456789ab-0123456789abcdef i=eth0 t=1");
  ASSERT_TRUE(std::holds_alternative<HeldEntry>(entry));
  EXPECT_EQ(std::get<HeldEntry>(entry).pod, "b/c");
}

TEST(Entry, OneOfTheLongestLengthIsAccepted) {
  HeldEntry entry;
  entry.attachment = kAttachment;
  entry.pod = "x";
  entry.pod += std::string(kEntryLengthMax - FormatEntry(entry).value().size(), 'x');
  EXPECT_EQ(FormatEntry(entry).value().size(), kEntryLengthMax);
}

TEST(Entry, OneThatIsTooLongIsRefused) {
  HeldEntry entry;
  entry.attachment = kAttachment;
  entry.pod = std::string(kEntryLengthMax, 'x');
  const auto text = FormatEntry(entry);
  ASSERT_FALSE(text.has_value());
  EXPECT_EQ(text.error().code, ErrorCode::kInvalid);
}

TEST(Entry, TheAttachmentIsReadWithoutParsingTheRest) {
  EXPECT_EQ(AttachmentOf("a/b u 0123456789ab-0123456789abcdef i=eth0 t=1"), kAttachment);
}

TEST(Entry, AReservedEntryIsNobodysAttachment) { EXPECT_EQ(AttachmentOf("! a 0123456789ab-0123456789abcdef"), ""); }

TEST(Entry, ACoolingEntryIsNobodysAttachment) { EXPECT_EQ(AttachmentOf("~ t=1 f=0123456789ab-0123456789abcdef"), ""); }

constexpr char kWithNetns[] = "a/b u 0123456789ab-0123456789abcdef i=eth0 t=1 ns=cni-1";
constexpr char kWithoutNetns[] = "a/b u 0123456789ab-0123456789abcdef i=eth0 t=1";

std::string MarkOf(const std::string& text, bool agent_looks) {
  return FreedMark(std::get<HeldEntry>(ParseEntry(text)), text, agent_looks, 17);
}

TEST(FreedMark, ContainsTheHeldEntryIfTheAgentCanLookForTheContainer) {
  EXPECT_EQ(MarkOf(kWithNetns, /*agent_looks=*/true),
            std::string("~ t=17 f=0123456789ab-0123456789abcdef ") + kWithNetns);
  EXPECT_EQ(MarkOf(kWithNetns, /*agent_looks=*/false), "~ t=17 f=0123456789ab-0123456789abcdef");
  EXPECT_EQ(MarkOf(kWithoutNetns, /*agent_looks=*/true), "~ t=17 f=0123456789ab-0123456789abcdef");
}

TEST(FreedMark, LeavesTheHeldEntryOutIfBothAreTooLong) {
  const std::string text = std::string(kWithNetns) + " k=" + std::string(kEntryLengthMax - 60, 'x');
  EXPECT_EQ(MarkOf(text, /*agent_looks=*/true), "~ t=17 f=0123456789ab-0123456789abcdef");
}

TEST(FreedUnder, IsTheHeldEntryOfTheMark) {
  const auto freed = FreedUnder(MarkOf(kWithNetns, /*agent_looks=*/true));
  ASSERT_TRUE(freed.has_value());
  EXPECT_EQ(freed->text, kWithNetns);
  EXPECT_EQ(freed->entry.netns, "cni-1");
}

class NothingFreedUnder : public testing::TestWithParam<TextCase> {};

TEST_P(NothingFreedUnder, ATextThatIsNoMarkWithAHeldEntry) { EXPECT_FALSE(FreedUnder(GetParam().text).has_value()); }

constexpr TextCase kNothingFreed[] = {
    {"Held", "a/b u 0123456789ab-0123456789abcdef i=eth0 t=1 ns=cni-1"},
    {"Cooling", "~ t=17"},
    {"NotReadable", "~ t=soon"},
    {"OnlyAnAttachment", "~ t=17 f=0123456789ab-0123456789abcdef"},
    {"NoHeldEntry", "~ t=17 f=0123456789ab-0123456789abcdef what is this"},
    {"AnotherAttachment",
     "~ t=17 f=0123456789ab-0123456789abcdef a/b u 0123456789ab-ffffffffffffffff i=eth0 t=1 ns=cni-1"},
    {"NoNetworkNamespace", "~ t=17 f=0123456789ab-0123456789abcdef a/b u 0123456789ab-0123456789abcdef i=eth0 t=1"},
};
INSTANTIATE_TEST_SUITE_P(Table, NothingFreedUnder, testing::ValuesIn(kNothingFreed), NameOf);

TEST(Entry, OnlyACoolingEntryHasAnEnd) {
  EXPECT_EQ(CoolingUntil("~ t=17", 0), 17);
  EXPECT_EQ(CoolingUntil("! t=17", 0), std::nullopt);
}

TEST(Entry, ACoolingEntryThatEndsFurtherAheadThanAnyCooldownIsOver) {
  constexpr std::int64_t kNow = 1'800'000'000'000;
  const auto until = [](std::int64_t ms) { return CoolingUntil("~ t=" + std::to_string(ms), kNow); };
  EXPECT_EQ(until(kNow + kCoolingAheadMaxMs), kNow + kCoolingAheadMaxMs);
  EXPECT_EQ(until(kNow + kCoolingAheadMaxMs + 1), 0);
  EXPECT_EQ(until(std::numeric_limits<std::int64_t>::max()), 0);
}

}  // namespace
}  // namespace berth::ipam
