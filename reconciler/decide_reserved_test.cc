// SPDX-License-Identifier: Apache-2.0
// Reservations in blocks: which entries come, which go, and which stay.
#include "reconciler/decide_reserved.h"

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reconciler/decide_drain.h"
#include "reconciler/withheld.h"
#include "reconciler/world_test_setup.h"

namespace berth::reconciler {
namespace {

using Lines = std::vector<std::string>;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using Entries = std::map<ipam::BlockOffset, std::string>;

const std::string kHeld = kHeldEntry;
const std::string kMarked = "~ t=1799999999999 f=0123456789ab-0123456789abcdef";

struct EntryCase {
  const char* name;
  Entries before;
  // Range and reservation, in the order of the reservations' names.
  std::vector<std::pair<const char*, const char*>> reserved;
  Entries want_unlisted;
  Entries want_relisted;
};
class ReservedEntries : public testing::TestWithParam<EntryCase> {};

TEST_P(ReservedEntries, AreAddedAndRemovedWithTheReservation) {
  const EntryCase& c = GetParam();
  ipam::Pool pool;
  pool.subnet = ipam::PrefixOf("10.55.0.0/24");
  ipam::Block block = ipam::NewBlock(pool, ipam::PrefixOf("10.55.0.64/29"), "n1");
  block.allocations = c.before;
  std::vector<ReservedRange> reserved;
  for (const auto& [range, name] : c.reserved) reserved.push_back({ipam::RangeOf(range), name});
  for (const bool relisted : {false, true}) {
    const ReservedChange change = WithReserved(block, pool, reserved, kTestNowMs, relisted);
    const Entries& want = relisted ? c.want_relisted : c.want_unlisted;
    EXPECT_EQ(change.after.has_value(), want != c.before) << "relisted: " << relisted;
    EXPECT_EQ(change.after.value_or(block).allocations, want) << "relisted: " << relisted;
    EXPECT_EQ(change.wants_removal, !relisted && c.want_unlisted != c.want_relisted);
  }
}

const EntryCase kEntryCases[] = {
    {"NoReservationNoEntry", {{1, kHeld}}, {}, {{1, kHeld}}, {{1, kHeld}}},
    {"AFreeAddressGetsItsEntry", {}, {{"10.55.0.66", "r"}}, {{2, "! r"}}, {{2, "! r"}}},
    {"EdgesOfTheBlock",
     {},
     {{"10.55.0.60-10.55.0.64", "r"}, {"10.55.0.71-10.55.0.90", "r"}},
     {{0, "! r"}, {7, "! r"}},
     {{0, "! r"}, {7, "! r"}}},
    {"ARangeBesideTheBlock", {}, {{"10.55.0.60-10.55.0.63", "r"}, {"10.55.0.72", "r"}}, {}, {}},
    {"TheOtherFamily", {}, {{"2001:db8::/64", "r"}}, {}, {}},
    {"AHeldAddressStaysHeld", {{2, kHeld}}, {{"10.55.0.66", "r"}}, {{2, kHeld}}, {{2, kHeld}}},
    {"AnEntryNobodyUnderstandsStays", {{2, "?"}}, {{"10.55.0.66", "r"}}, {{2, "?"}}, {{2, "?"}}},
    {"ACoolingAddressIsWaitedFor",
     {{2, "~ t=1800000000001"}},
     {{"10.55.0.66", "r"}},
     {{2, "~ t=1800000000001"}},
     {{2, "~ t=1800000000001"}}},
    {"ACooledAddressGetsItsEntry", {{2, "~ t=1800000000000"}}, {{"10.55.0.66", "r"}}, {{2, "! r"}}, {{2, "! r"}}},
    {"ACooledAddressThatAnAgentShallForgetIsTheAgents",
     {{2, kMarked}},
     {{"10.55.0.66", "r"}},
     {{2, kMarked}},
     {{2, kMarked}}},
    {"ACooledAddressThatNobodyReservesStays",
     {{2, "~ t=1"}},
     {{"10.55.0.67", "r"}},
     {{2, "~ t=1"}, {3, "! r"}},
     {{2, "~ t=1"}, {3, "! r"}}},
    {"AnEntryThatIsThereStays", {{2, "! r"}}, {{"10.55.0.66", "r"}}, {{2, "! r"}}, {{2, "! r"}}},
    {"AnEntryOfNobodyIsTakenAwayWhenThatIsCertain",
     {{2, "! gone"}, {3, kHeld}},
     {},
     {{2, "! gone"}, {3, kHeld}},
     {{3, kHeld}}},
    {"AnEntryThatMovedOn", {{2, "! r"}}, {{"10.55.0.67", "r"}}, {{2, "! r"}, {3, "! r"}}, {{3, "! r"}}},
    {"AnEntryThatSomebodyElseKeepsNow", {{2, "! a"}}, {{"10.55.0.66", "b"}}, {{2, "! a"}}, {{2, "! b"}}},
    {"OfTwoTheFirstNameGetsIt", {}, {{"10.55.0.66", "a"}, {"10.55.0.66", "b"}}, {{2, "! a"}}, {{2, "! a"}}},
    {"OfTwoTheOneThatHasItKeepsIt",
     {{2, "! b"}},
     {{"10.55.0.66", "a"}, {"10.55.0.66", "b"}},
     {{2, "! b"}},
     {{2, "! b"}}},
};
INSTANTIATE_TEST_SUITE_P(Table, ReservedEntries, testing::ValuesIn(kEntryCases),
                         [](const auto& c) { return std::string(c.param.name); });

TEST(ReservedEntry, LowersTheCountOfFreeAddresses) {
  ipam::Pool pool;
  pool.subnet = ipam::PrefixOf("10.55.0.0/24");
  const ipam::Block block = ipam::NewBlock(pool, ipam::PrefixOf("10.55.0.64/29"), "n1");
  const auto change =
      WithReserved(block, pool, {{ipam::RangeOf("10.55.0.66-10.55.0.68"), "r"}}, kTestNowMs, /*may_remove=*/false);
  ASSERT_TRUE(change.after.has_value());
  EXPECT_EQ(change.after->free, 5U);
}

TEST(ReservedEntry, OfACoolingAddressIsWrittenWhenItHasCooled) {
  ipam::Pool pool;
  pool.subnet = ipam::PrefixOf("10.55.0.0/24");
  ipam::Block block = ipam::NewBlock(pool, ipam::PrefixOf("10.55.0.64/29"), "n1");
  block.allocations = {{2, "~ t=1800000005000"}, {3, "~ t=1800000009000"}};
  EXPECT_EQ(WithReserved(block, pool, {{ipam::RangeOf("10.55.0.66-10.55.0.67"), "r"}}, kTestNowMs, false).next_ms,
            1'800'000'005'000);
}

// The node's agent may have given the address to a pod already.
TEST(ReservedEntry, IsNotWrittenForAnAddressOnStandby) {
  ipam::Pool pool;
  pool.subnet = ipam::PrefixOf("10.55.0.0/24");
  ipam::Block block = ipam::NewBlock(pool, ipam::PrefixOf("10.55.0.64/29"), "n1");
  block.standby = {2};
  EXPECT_FALSE(WithReserved(block, pool, {{ipam::RangeOf("10.55.0.66"), "r"}}, kTestNowMs, false).after.has_value());
}

// A pool that needs no change, so that a test sees only what concerns reservations.
class ReservedInSpace : public testing::Test {
 protected:
  void SetUp() override { Settle({}); }
  // Sets the statuses as the controller would have written them.
  void Settle(const std::vector<std::string>& withheld) {
    t_.Pool("web", {{"subnet", "10.55.0.0/24"}}, {.is_ready = true, .withheld = withheld});
    t_.Space("default", {"web"}, withheld);
  }
  // Lines about blocks, and requests for a relist.
  Lines Reserved(bool relisted) {
    Lines lines = t_.Lines(relisted);
    std::erase_if(lines,
                  [](const std::string& line) { return line.starts_with("pool ") || line.starts_with("space "); });
    return lines;
  }
  TestWorld t_;
};

TEST_F(ReservedInSpace, WithoutReservationsThereIsNothingToDo) {
  t_.Block("10.55.0.0/26", "web", {{5, kHeld}});
  EXPECT_THAT(Reserved(/*relisted=*/false), IsEmpty());
  EXPECT_THAT(Reserved(/*relisted=*/true), IsEmpty());
}

TEST_F(ReservedInSpace, EntriesAndWithheldAddressesAreWrittenAtOnce) {
  t_.Reservation("r", {"10.55.0.7"}).Block("10.55.0.0/26", "web", {});
  const Lines want = {"block 10.55.0.0-26 entries=[7:! r]"};
  EXPECT_EQ(Reserved(/*relisted=*/false), want);
  EXPECT_EQ(Reserved(/*relisted=*/true), want);
  EXPECT_THAT(t_.Lines(/*relisted=*/false), Contains(HasSubstr("pool web ready=True/Accepted withheld=[10.55.0.7]")));
}

TEST_F(ReservedInSpace, ABlockThatIsGoingHidesNoBlockBehindIt) {
  t_.Reservation("r", {"10.55.0.0/24"});
  t_.Block("10.55.0.0/30", "web", {{1, kHeld}}, {.is_deleting = true}).Block("10.55.0.4/30", "web", {});
  t_.Block("10.54.0.0/30", "gone", {{1, "! r"}});
  EXPECT_EQ(Reserved(/*relisted=*/false), Lines{"block 10.55.0.4-30 entries=[0:! r,1:! r,2:! r,3:! r]"});
}

// The node's agent gives the address to pods until it knows of the reservation.
TEST_F(ReservedInSpace, AReservedAddressGetsItsEntryOnceItIsNotOnStandby) {
  t_.Reservation("r", {"10.55.0.7"});
  Settle({"10.55.0.7"});
  t_.Block("10.55.0.0/26", "web", {{5, kHeld}}, {.standby = {7, 8}});
  EXPECT_THAT(Reserved(/*relisted=*/true), IsEmpty());
  t_.Block("10.55.0.0/26", "web", {{5, kHeld}}, {.standby = {8}});
  EXPECT_EQ(Reserved(/*relisted=*/true), Lines{"block 10.55.0.0-26 entries=[5:held,7:! r]"});
}

TEST_F(ReservedInSpace, BlocksThatWaitAfterAFailureDoNotHoldUpEntriesOfOtherBlocks) {
  t_.Pool("web", {{"subnet", "10.55.0.0/16"}}, {.is_ready = true}).Space("default", {"web"});
  t_.Reservation("r", {"10.55.0.0/16"});
  for (std::size_t i = 0; i <= kBlockChangesMax; ++i) t_.Block("10.55." + std::to_string(i) + ".0/30", "web", {});
  const std::string last = t_.world.blocks().rbegin()->first;
  const Error refused{.code = ErrorCode::kForbidden, .message = "x", .retry_after = std::chrono::seconds(30)};
  for (const auto& [name, block] : t_.world.blocks()) {
    if (name != last) t_.state.backoff.Failed(BlockKey(name), refused, t_.now.steady);
  }
  EXPECT_THAT(Reserved(/*relisted=*/false), Contains("block " + last + " entries=[0:! r,1:! r,2:! r,3:! r]"));
}

TEST_F(ReservedInSpace, EntriesOfADeletedReservationAreRemovedOnlyAfterARelist) {
  Settle({"10.55.0.7"});
  t_.Block("10.55.0.0/26", "web", {{7, "! r"}});
  const Lines stale = t_.Lines(/*relisted=*/false);
  EXPECT_THAT(stale, Not(Contains(HasSubstr("entries"))));
  EXPECT_THAT(stale, Not(Contains(HasSubstr("withheld=[]"))));
  EXPECT_THAT(stale, Contains("relist for IPPool/web"));
  const Lines sure = t_.Lines(/*relisted=*/true);
  EXPECT_THAT(sure, Contains("pool web ready=True/Accepted withheld=[]"));
  EXPECT_THAT(sure, Contains("space default accepted=[web] withheld=[]"));
  EXPECT_THAT(sure, Contains("block 10.55.0.0-26 entries=[]"));
}

// A person removed the pod's entry, and the reservation's entry took its place. The controller writes the pod's entry
// again a minute later. If the reserved entry went before, another pod could get the address.
TEST_F(ReservedInSpace, TheEntryOfADeletedReservationStaysWhileALivePodHasTheAddress) {
  t_.decider = Decider({.reclaim = Reclaim::kOn});
  Settle({"10.55.0.7-10.55.0.9"});
  t_.Block("10.55.0.0/26", "web", {{7, "! r"}}, {.node = "n1"});
  const auto is_removed = [this](bool relisted) {
    const Lines lines = Reserved(relisted);
    return std::ranges::find(lines, "block 10.55.0.0-26 entries=[]") != lines.end();
  };
  EXPECT_FALSE(is_removed(/*relisted=*/true)) << "the pods are not listed yet";
  t_.world.knows_holders = true;
  const auto put_pod = [this](const std::string& address) {
    t_.world.pods.Put({.name_space = "default",
                       .name = "web",
                       .uid = "u-1",
                       .node = "n1",
                       .addresses = {ipam::Address::Parse(address).value()},
                       .has_sandbox = true},
                      t_.now.steady);
  };
  put_pod("10.55.0.7");
  for (const bool relisted : {false, true}) EXPECT_FALSE(is_removed(relisted));
  put_pod("10.55.0.8");
  EXPECT_TRUE(is_removed(/*relisted=*/true)) << "the pod has another address without an entry";
}

TEST_F(ReservedInSpace, WithheldAddressesAreAddedWithoutARelist) {
  Settle({"10.55.0.7"});
  t_.Reservation("r", {"10.55.0.9"});
  EXPECT_THAT(t_.Lines(/*relisted=*/false), Contains("pool web ready=True/Accepted withheld=[10.55.0.7,10.55.0.9]"));
  EXPECT_THAT(t_.Lines(/*relisted=*/true), Contains("pool web ready=True/Accepted withheld=[10.55.0.9]"));
}

TEST_F(ReservedInSpace, AnExpiredReservationCountsAsGone) {
  Settle({"10.55.0.7"});
  t_.Reservation("r", {"10.55.0.7"}, kTestNowMs + 5000).Block("10.55.0.0/26", "web", {{7, "! r"}});
  const Decision before = t_.Decide(/*relisted=*/true);
  EXPECT_EQ(before.wake_unix_ms, kTestNowMs + 5000);
  EXPECT_THAT(TestWorld::Describe(before), Not(Contains(HasSubstr("entries"))));
  t_.now.unix_ms += 5000;
  EXPECT_THAT(t_.Lines(/*relisted=*/true), Contains("block 10.55.0.0-26 entries=[]"));
}

TEST_F(ReservedInSpace, AnUnreadableReservationKeepsTheAddressesThatItKeptBefore) {
  Settle({"10.55.0.7"});
  t_.Reservation("r", {"10.55.0.9-10.55.0.3"}).Block("10.55.0.0/26", "web", {{7, "! r"}});
  const Lines sure = t_.Lines(/*relisted=*/true);
  EXPECT_THAT(sure, Not(Contains(HasSubstr("entries"))));
  EXPECT_THAT(sure, Not(Contains(HasSubstr("withheld=[]"))));
  EXPECT_THAT(t_.Lines(/*relisted=*/false), Not(Contains(HasSubstr("relist")))) << "no relist can help";
}

TEST_F(ReservedInSpace, BlocksThatAreBeingDeletedGetNoEntries) {
  t_.Reservation("r", {"10.55.0.0/24"});
  t_.Block("10.55.0.0/26", "web", {{1, kHeld}}, {.is_deleting = true});
  t_.Block("10.55.0.64/26", "web", {{1, kHeld}}, {.pool_uid = "uid-of-former"});
  t_.UnreadableBlock("10.55.0.128-26", "uid-of-web");
  EXPECT_THAT(t_.Lines(/*relisted=*/true), Not(Contains(HasSubstr("entries"))));
}

TEST_F(ReservedInSpace, BlocksOfAPoolThatIsBeingDeletedGetNoEntries) {
  t_.Reservation("r", {"10.55.0.7"}).Block("10.55.0.0/26", "web", {{1, kHeld}});
  t_.Pool("web", {{"subnet", "10.55.0.0/24"}}, {.is_deleting = true, .is_ready = true});
  EXPECT_THAT(t_.Lines(/*relisted=*/true), Not(Contains(HasSubstr("entries"))));
}

TEST_F(ReservedInSpace, AReservationOfAnotherSpaceChangesNothing) {
  t_.Reservation("r", {"10.55.0.7"}, 0, "blue").Block("10.55.0.0/26", "web", {});
  EXPECT_THAT(t_.Lines(/*relisted=*/true), Not(Contains(HasSubstr("10.55.0.7"))));
  EXPECT_THAT(t_.Lines(/*relisted=*/true), Not(Contains(HasSubstr("entries"))));
}

TEST_F(ReservedInSpace, TheGatewayOfOnePoolIsWithheldFromTheOther) {
  t_.Pool("more", {{"subnet", "10.55.0.0/16"}, {"gateway", "10.55.0.1"}}, {.is_ready = true});
  t_.Space("default", {"web", "more"});
  const Lines lines = t_.Lines(/*relisted=*/false);
  EXPECT_THAT(lines, Contains("pool web ready=True/Accepted withheld=[10.55.0.1]"));
  EXPECT_THAT(lines, Contains("pool more ready=True/Accepted withheld=[10.55.0.1]"));
}

TEST_F(ReservedInSpace, TooManyWithheldRangesAreJoinedAndNotDropped) {
  std::vector<std::string> addresses;
  t_.Pool("web", {{"subnet", "10.55.0.0/16"}}, {.is_ready = true}).Space("default", {"web"});
  for (int i = 0; i < 600; ++i) {
    addresses.push_back("10.55." + std::to_string(i / 100) + "." + std::to_string(1 + (i % 100) * 2));
    if (addresses.size() < 200) continue;
    t_.Reservation("r" + std::to_string(i), addresses);
    addresses.clear();
  }
  ipam::IntervalSet withheld;
  for (const Action& action : t_.Decide(/*relisted=*/true).actions) {
    const auto* status = std::get_if<SetPoolStatus>(&action);
    if (status == nullptr) continue;
    EXPECT_EQ(status->status.withheld.size(), crds::kPoolWithheldMax);
    withheld = ipam::IntervalSet(status->status.withheld);
  }
  for (const ReservedRange& item : ReservedRanges(t_.world, "default", kTestNowMs)) {
    EXPECT_TRUE(withheld.Contains(item.range.first)) << item.range.ToString();
  }
}

}  // namespace
}  // namespace berth::reconciler
