// SPDX-License-Identifier: Apache-2.0
// Change: what each kind of change does to a block, and what it does not change.
#include "ipam/change.h"

#include <ostream>
#include <string>

#include <gtest/gtest.h>

namespace berth::ipam {
namespace {

constexpr std::int64_t kChangeNow = 1'700'000'000'000;

const Pool& ChangedPool() {
  static const Pool kPool = [] {
    Pool made;
    made.name = "p1";
    made.uid = "pool-uid";
    made.subnet = Prefix::Parse("10.55.0.0/29").value();
    made.allow_edge_addresses = true;
    made.cooldown = std::chrono::seconds(30);
    return made;
  }();
  return kPool;
}
PoolView ChangedPoolView() { return std::make_shared<const Pool>(ChangedPool()); }

HeldEntry ChangedEntry(char pod) {
  HeldEntry entry;
  entry.pod_namespace = "team-a";
  entry.pod = pod;
  entry.uid = "u";
  entry.attachment = "0123456789ab-000000000000000" + std::string(1, pod);
  entry.interface = "eth0";
  entry.cooldown_s = 30;
  return entry;
}
std::string HeldBy(char pod) { return FormatEntry(ChangedEntry(pod)).value(); }

// Pod a has .0, pod b has .1; .2 and .3 are on standby; .4 cools for another second, and the cooling of .5 is over.
Block ChangedBlock() {
  Block block = NewBlock(ChangedPool(), ChangedPool().subnet, "n1");
  block.uid = "uid-1";
  block.allocations = {{0, HeldBy('a')},
                       {1, HeldBy('b')},
                       {4, "~ t=" + std::to_string(kChangeNow + 1000)},
                       {5, "~ t=" + std::to_string(kChangeNow)}};
  block.standby = {2, 3};
  block.free = CountFree(block, ChangedPool(), kChangeNow);
  return block;
}

// "0=a 1=b 4=~ 5=~ s2 s3 free 5": a cooling entry is "~", a held entry is the pod's name, with "+" if it has s=1.
std::string ShownBlock(const Block& block) {
  std::string shown;
  for (const auto& [offset, text] : block.allocations) {
    const Entry entry = ParseEntry(text);
    const auto* held = std::get_if<HeldEntry>(&entry);
    shown += std::to_string(offset) + "=" + (held == nullptr ? text.substr(0, 1) : held->pod);
    shown += held != nullptr && held->has_shared_sibling ? "+ " : " ";
  }
  for (const BlockOffset offset : block.standby) shown += "s" + std::to_string(offset) + " ";
  return shown + "free " + std::to_string(block.free);
}
const std::string kUnchanged = "0=a 1=b 4=~ 5=~ s2 s3 free 5";

TakeAddress TakeBy(char pod) { return {.pool = ChangedPoolView(), .entry = ChangedEntry(pod), .now_ms = kChangeNow}; }
TakeAddress TakeAt(char pod, const char* address) {
  TakeAddress take = TakeBy(pod);
  take.requested = Address::Parse(address).value();
  return take;
}
TakeAddress TakeOf(char pod, const char* block_uid) {
  TakeAddress take = TakeBy(pod);
  take.block_uid = block_uid;
  return take;
}

struct ChangeCase {
  const char* name;
  decltype(Change::what) what;
  std::string want;  // "": the change fails
  ErrorCode error = ErrorCode::kInternal;
  friend void PrintTo(const ChangeCase& one, std::ostream* out) { *out << one.name; }
};
class AppliedChange : public testing::TestWithParam<ChangeCase> {};

TEST_P(AppliedChange, ComesToTheSameEndTwice) {
  const ChangeCase& param = GetParam();
  Block block = ChangedBlock();
  const Change change{.attachment = ChangedEntry('a').attachment, .what = param.what};
  for (int i = 0; i < 2; ++i) {
    const auto applied = Apply(change, block);
    EXPECT_EQ(applied.has_value(), !param.want.empty());
    if (!applied) {
      EXPECT_EQ(applied.error().code, param.error) << applied.error().message;
      EXPECT_EQ(block, ChangedBlock()) << "a change that fails leaves the block as it was";
    } else {
      EXPECT_EQ(ShownBlock(block), param.want);
    }
  }
}

std::string AttachmentOfPod(char pod) { return ChangedEntry(pod).attachment; }

const ChangeCase kChangeCases[] = {
    {"Nothing", NoChange{}, kUnchanged},
    {"TakesAFreeAddress", TakeBy('c'), "0=a 1=b 4=~ 5=c s2 s3 free 4"},
    {"TakesNothingForWhoHasOne", TakeBy('a'), kUnchanged},
    {"TakesTheRequestedAddress", TakeAt('c', "10.55.0.7"), "0=a 1=b 4=~ 5=~ 7=c s2 s3 free 4"},
    {"TakesARequestedAddressOffStandby", TakeAt('c', "10.55.0.2"), "0=a 1=b 2=c 4=~ 5=~ s3 free 4"},
    {"TakesNoAddressThatIsHeld", TakeAt('c', "10.55.0.1"), "", ErrorCode::kAddressTaken},
    {"TakesNoAddressThatCools", TakeAt('c', "10.55.0.4"), "", ErrorCode::kAddressTaken},
    {"TakesFromTheBlockWithThatUid", TakeOf('c', "uid-1"), "0=a 1=b 4=~ 5=c s2 s3 free 4"},
    {"TakesFromNoBlockThatCameInItsPlace", TakeOf('c', "uid-0"), "", ErrorCode::kConflict},
    {"ReleasesWithACooldown", ReleaseAddresses{{AttachmentOfPod('a')}, kChangeNow}, "0=~ 1=b 4=~ 5=~ s2 s3 free 5"},
    {"ReleasesWithoutCooldownWhatNobodyHasUsed",
     ReleaseAddresses{{AttachmentOfPod('a')}, kChangeNow, /*were_used=*/false},
     "1=b 4=~ 5=~ s2 s3 free 6"},
    {"ReleasesSeveral",
     ReleaseAddresses{{AttachmentOfPod('a'), AttachmentOfPod('c'), AttachmentOfPod('b')}, kChangeNow},
     "0=~ 1=~ 4=~ 5=~ s2 s3 free 5"},
    {"ReleasesNothingOfWhoHasNone", ReleaseAddresses{{AttachmentOfPod('c')}, kChangeNow}, kUnchanged},
    {"MarksTheSibling", MarkSibling{AttachmentOfPod('a')}, "0=a+ 1=b 4=~ 5=~ s2 s3 free 5"},
    {"MarksNobodyWhoHasNone", MarkSibling{AttachmentOfPod('c')}, "", ErrorCode::kConflict},
    {"SweepsWhatIsOver", SweepCooled{kChangeNow}, "0=a 1=b 4=~ s2 s3 free 6"},
    {"SweepsAllLater", SweepCooled{kChangeNow + 1000}, "0=a 1=b s2 s3 free 7"},
    {"SweepsNothingBefore", SweepCooled{kChangeNow - 1}, kUnchanged},
    {"SetsEntries", SetEntries{{{0, ""}, {2, HeldBy('c')}}}, "1=b 2=c 4=~ 5=~ s2 s3 free 5"},
};
INSTANTIATE_TEST_SUITE_P(Table, AppliedChange, testing::ValuesIn(kChangeCases),
                         [](const auto& one) { return std::string(one.param.name); });

TEST(ApplyOnStandby, TakesOneOfTheseAddresses) {
  Block block = ChangedBlock();
  const Change change{.what = TakeBy('c'), .may_take_standby = true};
  ASSERT_TRUE(ApplyOnStandby(change, block, {3}));
  EXPECT_EQ(ShownBlock(block), "0=a 1=b 3=c 4=~ 5=~ s2 free 4");
}

TEST(ApplyOnStandby, OfNoAddressesIsExhausted) {
  Block block = ChangedBlock();
  const Change change{.what = TakeBy('c'), .may_take_standby = true};
  EXPECT_EQ(ApplyOnStandby(change, block, {}).error().code, ErrorCode::kExhausted);
  EXPECT_EQ(ShownBlock(block), kUnchanged);
}

TEST(Prepare, PutsFreeAddressesOnStandby) {
  Block block = ChangedBlock();
  ApplyStandbyPlan({.pool = ChangedPoolView(), .now_ms = kChangeNow}, block, 4);
  EXPECT_EQ(ShownBlock(block), "0=a 1=b 4=~ 5=~ s2 s3 s6 s7 free 5") << "what cooled rests until it is swept";
  block.allocations.erase(5);
  ApplyStandbyPlan({.pool = ChangedPoolView(), .now_ms = kChangeNow}, block, 5);
  EXPECT_EQ(ShownBlock(block), "0=a 1=b 4=~ s2 s3 s5 s6 s7 free 5");
}

TEST(Prepare, WithoutAPoolTakesAllOffStandby) {
  Block block = ChangedBlock();
  ApplyStandbyPlan({.pool = nullptr}, block, 4);
  EXPECT_EQ(ShownBlock(block), "0=a 1=b 4=~ 5=~ free 5");
}

TEST(Prepare, LeavesABlockAloneThatCameInItsPlaceOrIsOfAnotherPool) {
  Block block = ChangedBlock();
  block.allocations.clear();
  const Block before = block;
  ApplyStandbyPlan({.pool = ChangedPoolView(), .now_ms = kChangeNow, .block_uid = "uid-0"}, block, 4);
  EXPECT_EQ(block, before);
  Pool another = ChangedPool();
  another.uid = "another";
  ApplyStandbyPlan({.pool = std::make_shared<const Pool>(another), .now_ms = kChangeNow}, block, 4);
  EXPECT_EQ(block, before);
}

TEST(Describe, SaysWhatAChangeWants) {
  const auto described = [](decltype(Change::what) what) { return Describe({.what = std::move(what)}); };
  EXPECT_EQ(described(NoChange{}), "nothing");
  EXPECT_EQ(described(TakeBy('c')), "take team-a/c");
  EXPECT_EQ(described(ReleaseAddresses{{"x", "y"}, 0}), "release 2 attachments");
  EXPECT_EQ(described(MarkSibling{}), "mark the sibling");
  EXPECT_EQ(described(SweepCooled{}), "sweep");
  EXPECT_EQ(described(SetEntries{{{0, ""}}}), "set 1 entries");
}

TEST(Change, IsComparedByValue) {
  const Change one{.attachment = "x", .what = SweepCooled{1}};
  EXPECT_EQ(one, (Change{.attachment = "x", .what = SweepCooled{1}}));
  EXPECT_NE(one, (Change{.attachment = "x", .what = SweepCooled{2}}));
  EXPECT_NE(one, (Change{.attachment = "x", .what = SweepCooled{1}, .fence = true}));
}

}  // namespace
}  // namespace berth::ipam
