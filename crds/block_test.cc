// SPDX-License-Identifier: Apache-2.0
// IPBlocks from and to JSON: what is refused, what a patch contains, what a patch keeps.
#include "crds/block.h"

#include <chrono>
#include <functional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "crds/names.h"

namespace berth::crds {
namespace {

using Json = nlohmann::json;

constexpr const char* kHeld = "team-a/web-0 0d3f uid0 i=eth0 t=1";

Json GoodBlockObject() {
  return Json::parse(R"({
    "apiVersion": "ipam.berth.dev/v1alpha1", "kind": "IPBlock",
    "metadata": {"name": "10.55.0.64-26", "uid": "b-uid", "resourceVersion": "41", "generation": 3,
                 "finalizers": ["ipam.berth.dev/in-use"], "labels": {"a": "b"}},
    "spec": {"space": "default", "pool": "web", "poolUID": "p-uid", "cidr": "10.55.0.64/26", "node": "n1"},
    "agent": "i1.7", "used": 2, "free": 60, "next": 5,
    "allocations": {"3": "team-a/web-0 u 0-0 i=eth0 t=1", "63": "~ t=9"}})");
}

ipam::Block GoodBlock() {
  auto block = ParseBlock(GoodBlockObject());
  EXPECT_TRUE(block.has_value()) << block.error().message;
  return *block;
}

TEST(Block, IsReadWithEveryField) {
  const ipam::Block block = GoodBlock();
  EXPECT_EQ(block.name, "10.55.0.64-26");
  EXPECT_EQ(block.uid, "b-uid");
  EXPECT_EQ(block.resource_version, "41");
  EXPECT_FALSE(block.deleting);
  EXPECT_THAT(block.finalizers, testing::ElementsAre("ipam.berth.dev/in-use"));
  EXPECT_EQ(block.space, "default");
  EXPECT_EQ(block.pool, "web");
  EXPECT_EQ(block.pool_uid, "p-uid");
  EXPECT_EQ(block.cidr.ToString(), "10.55.0.64/26");
  EXPECT_EQ(block.node, "n1");
  EXPECT_EQ(block.agent, "i1.7");
  EXPECT_EQ(block.free, 60U);
  EXPECT_EQ(block.next, 5U);
  EXPECT_THAT(block.allocations,
              testing::ElementsAre(testing::Pair(3U, "team-a/web-0 u 0-0 i=eth0 t=1"), testing::Pair(63U, "~ t=9")));
}

TEST(Block, IsReadWithWhatIsOnStandbyInsideIt) {
  Json object = GoodBlockObject();
  object["standby"] = {3, 4, 63, 64};
  EXPECT_THAT(ParseBlock(object)->standby, testing::ElementsAre(3U, 4U, 63U));
}

TEST(Block, IsTheSameWithStandbyAfterCreationAndReading) {
  ipam::Block block = GoodBlock();
  block.standby = {7, 8};
  Json object = BlockToJson(block);
  object["metadata"]["uid"] = block.uid;
  object["metadata"]["resourceVersion"] = block.resource_version;
  EXPECT_EQ(ParseBlock(object), block);
}

TEST(BlockPatch, CarriesStandbyWhole) {
  const ipam::Block before = GoodBlock();
  ipam::Block after = before;
  after.standby = {7, 8};
  EXPECT_EQ(BlockMergePatch(before, after)["standby"], Json({7, 8}));
}

TEST(BlockPatch, TakesStandbyAwayWithItsLastAddress) {
  ipam::Block before = GoodBlock();
  before.standby = {7};
  ipam::Block after = before;
  after.standby.clear();
  const Json patch = BlockMergePatch(before, after);
  ASSERT_TRUE(patch.contains("standby"));
  EXPECT_TRUE(patch["standby"].is_null());
}

TEST(Block, IsTheSameAfterCreationAndReading) {
  const ipam::Block block = GoodBlock();
  Json object = BlockToJson(block);
  object["metadata"]["uid"] = block.uid;
  object["metadata"]["resourceVersion"] = block.resource_version;
  const auto again = ParseBlock(object);
  ASSERT_TRUE(again.has_value()) << again.error().message;
  EXPECT_EQ(*again, block);
}

TEST(Block, IsCreatedWithEmptyAllocationsAndWithoutWhatItHasNot) {
  ipam::Block block = GoodBlock();
  block.allocations.clear();
  block.agent.clear();
  block.node.clear();
  const Json object = BlockToJson(block);
  EXPECT_EQ(object["allocations"], Json::object());
  EXPECT_EQ(object["used"], 0);
  EXPECT_FALSE(object.contains("agent"));
  EXPECT_FALSE(object["spec"].contains("node"));
}

struct RefusedBlockCase {
  const char* name;
  const char* path;   // JSON pointer of the value to replace
  Json value;         // null: remove it
  const char* field;  // must be in the message
};

class BlockRefused : public testing::TestWithParam<RefusedBlockCase> {};

TEST_P(BlockRefused, WithTheFieldNamed) {
  Json object = GoodBlockObject();
  object[Json::json_pointer(GetParam().path)] = GetParam().value;
  const auto block = ParseBlock(object);
  ASSERT_FALSE(block.has_value());
  EXPECT_EQ(block.error().code, ErrorCode::kInvalid);
  EXPECT_THAT(block.error().message, testing::HasSubstr("IPBlock"));
  EXPECT_THAT(block.error().message, testing::HasSubstr(GetParam().field));
}

const RefusedBlockCase kRefusedBlockCases[] = {
    {"NoObject", "", Json(7), "must be an object"},
    {"NoMetadata", "/metadata", nullptr, "metadata.name"},
    {"MetadataNoObject", "/metadata", Json("x"), "metadata"},
    {"NameOfAnotherBlock", "/metadata/name", "10.55.0.0-26", "metadata.name"},
    {"NameOfAnotherSpace", "/spec/space", "blue", "metadata.name"},
    {"FinalizersNoList", "/metadata/finalizers", "x", "metadata.finalizers"},
    {"FinalizerNoText", "/metadata/finalizers/0", 3, "metadata.finalizers"},
    {"NoSpec", "/spec", nullptr, "spec"},
    {"NoCidr", "/spec/cidr", nullptr, "spec.cidr"},
    {"CidrNoText", "/spec/cidr", 5, "spec.cidr"},
    {"CidrWithHostBits", "/spec/cidr", "10.55.0.65/26", "spec.cidr"},
    {"CidrTooLarge", "/spec/cidr", "10.55.0.0/16", "spec.cidr"},
    {"CidrOfAllAddresses", "/spec/cidr", "::/0", "spec.cidr"},
    {"NoPoolUid", "/spec/poolUID", nullptr, "spec.poolUID"},
    {"NodeTooLong", "/spec/node", std::string(254, 'n'), "spec.node"},
    {"AgentNoText", "/agent", 1, "agent"},
    {"UsedTooSmall", "/used", 1, "used"},
    {"UsedNegative", "/used", -1, "used"},
    {"UsedFraction", "/used", 2.0, "used"},
    {"UsedBeyond64Bits", "/used", std::numeric_limits<std::uint64_t>::max(), "used"},
    {"NoUsed", "/used", nullptr, "used"},
    {"FreeTooLarge", "/free", 257, "free"},
    {"NextTooLarge", "/next", 256, "next"},
    {"NoAllocations", "/allocations", nullptr, "allocations"},
    {"AllocationsNoMap", "/allocations", Json::array(), "allocations"},
    {"KeyBeyondTheBlock", "/allocations/64", kHeld, "allocations"},
    {"KeyWithLeadingZero", "/allocations/03", kHeld, "allocations"},
    {"KeyNegative", "/allocations/-1", kHeld, "allocations"},
    {"KeyNoNumber", "/allocations/x", kHeld, "allocations"},
    {"KeyEmpty", "/allocations/", kHeld, "allocations"},
    {"KeyHuge", "/allocations/4294967299", kHeld, "allocations"},
    {"EntryNoText", "/allocations/3", 3, "allocations.3"},
    {"EntryEmpty", "/allocations/3", "", "allocations"},
    {"EntryTooLong", "/allocations/3", std::string(801, 'x'), "allocations.3"},
};
INSTANTIATE_TEST_SUITE_P(Table, BlockRefused, testing::ValuesIn(kRefusedBlockCases),
                         [](const auto& c) { return std::string(c.param.name); });

TEST(Block, WithMoreEntriesThanAnyBlockHasIsRefused) {
  Json object = GoodBlockObject();
  for (int i = 0; i < 257; ++i) object["allocations"]["x" + std::to_string(i)] = kHeld;
  const auto block = ParseBlock(object);
  ASSERT_FALSE(block.has_value());
  EXPECT_THAT(block.error().message, testing::HasSubstr("at most 256 entries"));
}

TEST(Block, WithAnEntryOfANewerVersionIsRead) {
  Json object = GoodBlockObject();
  object["allocations"]["3"] = "? some future thing";
  const auto block = ParseBlock(object);
  ASSERT_TRUE(block.has_value()) << block.error().message;
  EXPECT_EQ(block->allocations.at(3), "? some future thing");
}

TEST(Block, ErrorQuotesForeignTextCutAndWithoutControlCharacters) {
  Json object = GoodBlockObject();
  object["spec"]["node"] = "\n" + std::string(10'000, 'n');
  const auto block = ParseBlock(object);
  ASSERT_FALSE(block.has_value());
  EXPECT_LT(block.error().message.size(), 400U);
  EXPECT_EQ(block.error().message.find('\n'), std::string::npos);
}

class BlockTouched : public testing::TestWithParam<const char*> {};

TEST_P(BlockTouched, ChangesTheObjectEachTime) {
  ipam::Block block;
  block.cidr = ipam::Prefix::Parse(GetParam()).value();
  block.name = ipam::BlockName(block.space, block.cidr);
  block.pool = "web";
  block.pool_uid = "p-uid";
  Json object = BlockToJson(block);
  object["metadata"]["resourceVersion"] = "1";
  for (int i = 0; i < 600; ++i) {
    const auto before = ParseBlock(object);
    ASSERT_TRUE(before.has_value()) << before.error().message;
    ipam::Block after = *before;
    ipam::Touch(after);
    Json patched = object;
    patched.merge_patch(BlockMergePatch(*before, after));
    ASSERT_NE(patched, object) << "after " << i << " times: a write that changes nothing settles nothing";
    object = patched;
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, BlockTouched,
                         testing::Values("10.55.0.7/32", "10.55.0.6/31", "10.55.0.0/26", "10.55.0.0/24"));

struct PatchCase {
  const char* name;
  std::function<void(ipam::Block&)> change;
  const char* want;  // besides metadata.resourceVersion
};

class BlockPatches : public testing::TestWithParam<PatchCase> {};

TEST_P(BlockPatches, CarriesOnlyWhatChanged) {
  const ipam::Block before = GoodBlock();
  ipam::Block after = before;
  GetParam().change(after);
  Json want = Json::parse(GetParam().want);
  want["metadata"]["resourceVersion"] = "41";
  EXPECT_EQ(BlockMergePatch(before, after), want);
}

TEST_P(BlockPatches, MakesTheObjectWhatItShallBeAndKeepsUnknownFields) {
  Json object = GoodBlockObject();
  object["future"] = {{"a", 1}};
  object["spec"]["future"] = "b";
  object["metadata"]["annotations"]["future"] = "c";
  const auto before = ParseBlock(object);
  ASSERT_TRUE(before.has_value()) << before.error().message;
  ipam::Block after = *before;
  GetParam().change(after);
  Json patched = object;
  patched.merge_patch(BlockMergePatch(*before, after));
  const auto again = ParseBlock(patched);
  ASSERT_TRUE(again.has_value()) << again.error().message;
  EXPECT_EQ(*again, after);
  EXPECT_EQ(patched["future"], object["future"]);
  EXPECT_EQ(patched["spec"], object["spec"]);
  EXPECT_EQ(patched["metadata"]["annotations"], object["metadata"]["annotations"]);
}

const PatchCase kPatches[] = {
    {"Nothing", [](ipam::Block&) {}, "{}"},
    {"Taken",
     [](ipam::Block& b) {
       b.allocations[5] = kHeld;
       b.free = 59;
       b.next = 6;
     },
     R"({"used": 3, "free": 59, "next": 6, "allocations": {"5": "team-a/web-0 0d3f uid0 i=eth0 t=1"}})"},
    {"GivenBack",
     [](ipam::Block& b) {
       b.allocations.erase(3);
       b.free = 61;
     },
     R"({"used": 1, "free": 61, "allocations": {"3": null}})"},
    {"OneGoneOneCome",
     [](ipam::Block& b) {
       b.allocations.erase(3);
       b.allocations[4] = kHeld;
     },
     R"({"allocations": {"3": null, "4": "team-a/web-0 0d3f uid0 i=eth0 t=1"}})"},
    {"Cooling", [](ipam::Block& b) { b.allocations[3] = "~ t=7"; }, R"({"allocations": {"3": "~ t=7"}})"},
    {"Emptied",
     [](ipam::Block& b) { b.allocations.clear(); },
     R"({"used": 0, "allocations": {"3": null, "63": null}})"},
    {"CounterRaised", [](ipam::Block& b) { b.agent = "i1.8"; }, R"({"agent": "i1.8"})"},
    {"AgentRemoved", [](ipam::Block& b) { b.agent.clear(); }, R"({"agent": null})"},
    {"FinalizerRemoved", [](ipam::Block& b) { b.finalizers.clear(); }, R"({"metadata": {"finalizers": []}})"},
    {"FinalizerAdded",
     [](ipam::Block& b) { b.finalizers.push_back("x/y"); },
     R"({"metadata": {"finalizers": ["ipam.berth.dev/in-use", "x/y"]}})"},
};
INSTANTIATE_TEST_SUITE_P(Table, BlockPatches, testing::ValuesIn(kPatches),
                         [](const auto& c) { return std::string(c.param.name); });

Json Tracked() {
  Json object = GoodBlockObject();
  object["metadata"]["managedFields"] = Json::array({{{"manager", "berth"}, {"operation", "Update"}}});
  return object;
}

TEST(BlockPatch, EndsTheTrackingOfFields) {
  const auto before = ParseBlock(Tracked());
  ASSERT_TRUE(before.has_value()) << before.error().message;
  EXPECT_EQ(BlockMergePatch(*before, *before)["metadata"]["managedFields"], Json::parse("[{}]"));
}

TEST(BlockPatch, SaysNothingOfFieldsThatNobodyTracks) {
  EXPECT_FALSE(BlockMergePatch(GoodBlock(), GoodBlock())["metadata"].contains("managedFields"));
}

TEST(BlockAfterPatch, IsWhatWasSentAtTheVersionOfTheAnswer) {
  const auto tracked = ParseBlock(Tracked());
  ASSERT_TRUE(tracked.has_value()) << tracked.error().message;
  ipam::Block sent = *tracked;
  sent.allocations[5] = kHeld;
  Json answer = {{"kind", "PartialObjectMetadata"}, {"metadata", GoodBlockObject()["metadata"]}};
  answer["metadata"]["resourceVersion"] = "42";
  ipam::Block want = sent;
  want.resource_version = "42";
  want.has_managed_fields = false;
  EXPECT_EQ(BlockAfterPatch(sent, answer), want);
}

TEST(BlockAfterPatch, IsBeingDeletedIfTheAnswerSaysSo) {
  Json answer = {{"metadata", GoodBlockObject()["metadata"]}};
  answer["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z";
  const auto after = BlockAfterPatch(GoodBlock(), answer);
  ASSERT_TRUE(after.has_value()) << after.error().message;
  EXPECT_TRUE(after->deleting);
}

TEST(BlockAfterPatch, OfAnotherObjectIsRefused) {
  Json answer = {{"metadata", GoodBlockObject()["metadata"]}};
  answer["metadata"]["uid"] = "another";
  EXPECT_FALSE(BlockAfterPatch(GoodBlock(), answer).has_value());
}

TEST(BlockPatchDeathTest, IsNotMadeOfTwoObjects) {
  const ipam::Block before = GoodBlock();
  ipam::Block other = before;
  other.node = "n2";
  EXPECT_DEATH((void)BlockMergePatch(before, other), "node");
}

TEST(BlockPatchDeathTest, IsNotMadeForAnObjectThatWasNeverRead) {
  ipam::Block before = GoodBlock();
  before.resource_version.clear();
  EXPECT_DEATH((void)BlockMergePatch(before, before), "resource_version");
}

TEST(BlockPatchDeathTest, NeverCarriesAnEntryThatTheSchemaRefuses) {
  const ipam::Block before = GoodBlock();
  ipam::Block after = before;
  after.allocations[5] = std::string(801, 'x');
  EXPECT_DEATH((void)BlockMergePatch(before, after), "kEntryLengthMax");
}

struct BlockNameCase {
  const char* name;
  const char* text;
  const char* space;  // nullptr: refused
  const char* cidr;
};

class BlockNames : public testing::TestWithParam<BlockNameCase> {};

TEST_P(BlockNames, AreReadAsTheyAreWritten) {
  const auto got = ParseBlockName(GetParam().text);
  if (GetParam().space == nullptr) {
    ASSERT_FALSE(got.has_value()) << got->space << ' ' << got->cidr.ToString();
    EXPECT_EQ(got.error().code, ErrorCode::kInvalid);
    return;
  }
  ASSERT_TRUE(got.has_value()) << got.error().message;
  EXPECT_EQ(got->space, GetParam().space);
  EXPECT_EQ(got->cidr.ToString(), GetParam().cidr);
  EXPECT_EQ(ipam::BlockName(got->space, got->cidr), GetParam().text);
}

constexpr BlockNameCase kBlockNames[] = {
    {"Ipv4", "10.55.0.0-26", "default", "10.55.0.0/26"},
    {"Ipv4InASpace", "blue.10.55.0.0-26", "blue", "10.55.0.0/26"},
    {"SpaceLikeANumber", "10.10.55.0.0-26", "10", "10.55.0.0/26"},
    {"Ipv6", "2001-db8---122", "default", "2001:db8::/122"},
    {"Ipv6InASpace", "blue-1.2001-db8--40-122", "blue-1", "2001:db8::40/122"},
    {"Ipv6FromZero", "0---122", "default", "::/122"},
    {"Ipv6FromZeroAndMore", "0--1-128", "default", "::1/128"},
    {"Ipv6FirstGroupZero", "0-1-2-3-4-5-6-7-128", "default", "0:1:2:3:4:5:6:7/128"},
    {"Longest",
     "a23456789012345678z.1111-2222-3333-4444-5555-6666-7777-8888-128",
     "a23456789012345678z",
     "1111:2222:3333:4444:5555:6666:7777:8888/128"},
    {"Empty", "", nullptr, nullptr},
    {"NoLength", "10.55.0.0", nullptr, nullptr},
    {"HostBits", "10.55.0.1-26", nullptr, nullptr},
    {"NotCanonical", "2001-0db8---122", nullptr, nullptr},
    {"DefaultSpaceSpelledOut", "default.10.55.0.0-26", nullptr, nullptr},
    {"DashInTheSpaceOnly", "blue-1.10", nullptr, nullptr},
    {"FiveDots", "a.b.10.55.0.0-26", nullptr, nullptr},
    {"OnlyDash", "-", nullptr, nullptr},
    {"OnlyDots", "....-", nullptr, nullptr},
};
INSTANTIATE_TEST_SUITE_P(Table, BlockNames, testing::ValuesIn(kBlockNames),
                         [](const auto& c) { return std::string(c.param.name); });

}  // namespace
}  // namespace berth::crds
