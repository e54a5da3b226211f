// SPDX-License-Identifier: Apache-2.0
// Orphans: when the controller frees an entry, and the many cases in which it does not.
#include "reconciler/decide_orphans.h"

#include <gtest/gtest.h>

#include "reconciler/world_test_setup.h"

namespace berth::reconciler {
namespace {

using std::chrono::seconds;

// A block with the entries of pods web-0, web-1, ... of node n1, all of which live.
class OrphansTest : public testing::Test {
 protected:
  explicit OrphansTest(Reclaim mode = Reclaim::kOn) {
    world_.decider = Decider({.reclaim = mode});
    world_.world.knows_holders = true;
    world_.world.nodes.Put({.name = "n1", .is_ready = true});
    world_.world.nodes.PutLease({.node = "n1", .renewed = "0"});
  }

  static std::string UidOf(int i) { return "uid-" + std::to_string(i); }
  static std::string EntryOf(int i) {
    return "default/web-" + std::to_string(i) + " " + UidOf(i) + " 0123456789ab-00000000000" +
           std::to_string(10000 + i) + " i=eth0 t=1799999999000";
  }
  void PutBlock(int index, int first, int count) {
    std::map<ipam::BlockOffset, std::string> entries;
    for (int i = 0; i < count; ++i) entries[static_cast<ipam::BlockOffset>(i)] = EntryOf(first + i);
    world_.Block("10.55.0." + std::to_string(index * 64) + "/26", "web", entries);
  }
  void PutPod(int i, const std::string& address = "", const std::string& node = "n1") {
    SeenPod pod{.name_space = "default", .name = "web-" + std::to_string(i), .uid = UidOf(i), .node = node};
    if (!address.empty()) pod.addresses = {ipam::Address::Parse(address).value()};
    pod.has_sandbox = !address.empty();
    world_.world.pods.Put(pod, world_.now.steady);
  }
  // The kubelet has ended the pod.
  void RemovePod(int i) {
    const std::string key = "default/web-" + std::to_string(i);
    SeenPod pod = *world_.world.pods.Find(key);
    pod.has_sandbox = false;
    pod.is_terminal = true;
    world_.world.pods.Put(std::move(pod), world_.now.steady);
    world_.world.pods.Remove(key, world_.now.steady);
  }
  void RenewEveryTenSeconds() {
    const auto version = static_cast<std::uint64_t>(++ticks_);
    world_.leases_version = version;
    if (ticks_ % 10 != 0) return;
    world_.world.nodes.PutLease({.node = "n1", .renewed = std::to_string(ticks_), .version = version});
  }
  void Pass(seconds time, bool with_renewals = true) {
    for (seconds passed{0}; passed < time; passed += seconds(1)) {
      world_.now.steady += seconds(1);
      world_.now.unix_ms += 1000;
      if (with_renewals) RenewEveryTenSeconds();
      Lines();
    }
  }
  std::vector<std::string> Lines() {
    decision_ = world_.Decide(/*relisted=*/false);
    world_.world.pods.ForgetTouched();
    return TestWorld::Describe(decision_);
  }

  TestWorld world_;
  Decision decision_;
  int ticks_ = 0;
};
class OrphansReportTest : public OrphansTest {
 protected:
  OrphansReportTest() : OrphansTest(Reclaim::kReport) {}
};

using Texts = std::vector<std::string>;

struct WaitCase {
  const char* name;
  Cause cause;
  seconds grace;
  seconds want;  // from the first renewal of the Lease
};
class WaitForTheEndOfAPod : public testing::TestWithParam<WaitCase> {};

TEST_P(WaitForTheEndOfAPod, DependsOnWhatWasSeenAndOnTheGrace) {
  const SteadyTime heard = SteadyTime() + seconds(7);
  const Suspicion suspicion{
      .cause = GetParam().cause, .grace = GetParam().grace, .since = heard, .renewals = 2, .first_renewal = heard};
  const NodeFacts node{.exists = true, .is_ready = true};
  const SteadyTime due = heard + GetParam().want;
  const Ruling before = Judge(suspicion, node, due - std::chrono::milliseconds(1));
  EXPECT_FALSE(before.may_free);
  EXPECT_EQ(before.due, due);
  EXPECT_TRUE(Judge(suspicion, node, due).may_free);
  EXPECT_FALSE(Judge(suspicion, node, due).node_is_gone);
}

const WaitCase kWaitCases[] = {
    {"Vanished", Cause::kVanished, seconds(30), seconds(40)},
    {"Terminal", Cause::kTerminal, seconds(30), seconds(60)},
    {"TerminalWithALongGrace", Cause::kTerminal, seconds(90), seconds(100)},
    {"ReplacedWithALongGrace", Cause::kReplaced, seconds(90), seconds(100)},
    {"Absent", Cause::kAbsent, seconds(0), seconds(600)},
    {"AbsentWithALongGrace", Cause::kAbsent, seconds(900), seconds(910)},
};
INSTANTIATE_TEST_SUITE_P(Table, WaitForTheEndOfAPod, testing::ValuesIn(kWaitCases),
                         [](const auto& c) { return std::string(c.param.name); });

TEST(Orphan, OfAGoneNodeIsFreedAsSuch) {
  const NodeFacts gone{.gone_since = SteadyTime()};
  const Ruling ruling = Judge(Suspicion(), gone, SteadyTime() + kNodeGoneMin);
  EXPECT_TRUE(ruling.may_free);
  EXPECT_TRUE(ruling.node_is_gone);
}

// A living pod with an entry of its previous sandbox and an entry of its present sandbox.
class ReplacedTest : public OrphansTest {
 protected:
  static std::string EntryOfSandbox(int sandbox, const std::string& interface = "eth0",
                                    const std::string& network = "0123456789ab") {
    return "default/web-0 uid-0 " + network + "-00000000000" + std::to_string(20000 + sandbox) + " i=" + interface +
           " t=" + std::to_string(kTestNowMs + std::int64_t{1000} * sandbox);
  }
  void Put(const std::map<ipam::BlockOffset, std::string>& entries) {
    world_.Block("10.55.0.0/26", "web", entries);
    Lines();
  }
  [[nodiscard]] bool IsFirstFreed() {
    for (const std::string& line : Lines()) {
      if (line == "free 10.55.0.0-26 [1]") return true;
    }
    return false;
  }
};

TEST_F(ReplacedTest, TheOlderEntryIsFreedAMinuteAfterTheNewerEntryCame) {
  PutPod(0, "10.55.0.1");
  Put({{1, EntryOfSandbox(1)}});
  Put({{1, EntryOfSandbox(1)}, {2, EntryOfSandbox(2)}});
  Pass(seconds(100));
  EXPECT_FALSE(IsFirstFreed()) << "the pod still says that it has the address";
  PutPod(0, "10.55.0.2");
  Lines();
  Pass(seconds(69));
  EXPECT_FALSE(IsFirstFreed());
  Pass(seconds(1));
  EXPECT_TRUE(IsFirstFreed());
}

TEST_F(ReplacedTest, TheOlderEntryStaysIfThePodsAddressesAreUnknown) {
  PutPod(0);
  Put({{1, EntryOfSandbox(1)}});
  Put({{1, EntryOfSandbox(1)}, {2, EntryOfSandbox(2)}});
  Pass(seconds(700));
  EXPECT_FALSE(IsFirstFreed());
}

TEST_F(ReplacedTest, TheOlderEntryIsFreedIfTheNetworkWasRenamedMeanwhile) {
  PutPod(0, "10.55.0.2");
  Put({{1, EntryOfSandbox(1)}});
  Put({{1, EntryOfSandbox(1)}, {2, EntryOfSandbox(2, "eth0", "ba9876543210")}});
  Pass(seconds(700));
  EXPECT_TRUE(IsFirstFreed());
}

TEST_F(ReplacedTest, BothEntriesStayIfNobodyKnowsWhichIsNewer) {
  PutPod(0, "10.55.0.2");
  Put({{1, EntryOfSandbox(1)}, {2, EntryOfSandbox(2)}});
  Pass(seconds(700));
  EXPECT_FALSE(IsFirstFreed());
  Put({});
  Put({{1, EntryOfSandbox(1)}, {2, EntryOfSandbox(2)}});
  Pass(seconds(700));
  EXPECT_FALSE(IsFirstFreed());
}

TEST_F(ReplacedTest, TheOlderEntryStaysIfItWasWrittenAgain) {
  PutPod(0, "10.55.0.1");
  Put({{2, EntryOfSandbox(2)}});
  Put({{1, EntryOfSandbox(1)}, {2, EntryOfSandbox(2)}});
  Pass(seconds(700));
  EXPECT_TRUE(decision_.actions.empty());
}

TEST_F(ReplacedTest, EntriesOfOtherInterfacesStay) {
  PutPod(0, "10.55.0.9");
  Put({{1, EntryOfSandbox(1, "net1")}});
  Put({{1, EntryOfSandbox(1, "net1")}, {2, EntryOfSandbox(2, "net1")}});
  Pass(seconds(700));
  EXPECT_FALSE(IsFirstFreed());
}

// Nothing is freed from a node that is not Ready. What somebody did with its pods says nothing about other nodes.
TEST_F(OrphansTest, MissingPodsOfANodeThatIsNotReadyDoNotCountForTheBrake) {
  world_.world.nodes.Put({.name = "n2", .is_ready = false});
  std::map<ipam::BlockOffset, std::string> of_n2;
  for (int i = 0; i < 60; ++i) of_n2[static_cast<ipam::BlockOffset>(i)] = EntryOf(100 + i);
  world_.Block("10.55.1.0/26", "web", of_n2, {.node = "n2"});
  PutBlock(0, 0, 50);
  for (int i = 1; i < 50; ++i) PutPod(i);
  Lines();
  Pass(seconds(700));
  EXPECT_FALSE(decision_.orphans.is_braked);
  EXPECT_EQ(Lines(), Texts{"free 10.55.0.0-26 [0]"});
  // All of them may be due then, and none was seen to go.
  world_.world.nodes.Put({.name = "n2", .is_ready = true});
  Lines();
  EXPECT_TRUE(decision_.orphans.is_braked);
  world_.world.nodes.Put({.name = "n2", .is_ready = false});
  Lines();
  EXPECT_TRUE(decision_.orphans.is_braked) << "a node that is not Ready for a moment ends no brake";
}

TEST_F(OrphansTest, TheVersionOfLeasesIsAskedForAfterASecondAndOnceForAllSuspects) {
  PutPod(0);
  PutPod(1);
  PutBlock(0, 0, 2);
  RemovePod(0);
  RemovePod(1);
  const auto asks = [&] {
    const Decision decision = world_.decider.Decide(world_.world, world_.state, world_.now, /*relisted=*/false);
    return std::ranges::count_if(decision.actions,
                                 [](const Action& one) { return std::holds_alternative<AskLeases>(one); });
  };
  EXPECT_EQ(asks(), 0);
  world_.now.steady += seconds(1);
  EXPECT_EQ(asks(), 1);
  // Asked before the pods were seen gone: a renewal between the two proves nothing.
  world_.state.leases = ControllerState::LeasesAsked{.asked = world_.now.steady - seconds(2), .version = 5};
  EXPECT_EQ(asks(), 1);
  world_.state.leases = ControllerState::LeasesAsked{.asked = world_.now.steady, .version = 7};
  EXPECT_EQ(asks(), 0);
}

// The watch of Leases was cut, and shows late what came before the pod was gone. The kubelet may be cut off since.
TEST_F(OrphansTest, RenewalsFromBeforeThePodWasGoneDoNotCount) {
  PutPod(0);
  PutBlock(0, 0, 1);
  world_.leases_version = 100;
  RemovePod(0);
  Lines();
  for (const std::uint64_t version : {80U, 90U, 100U}) {
    world_.world.nodes.PutLease({.node = "n1", .renewed = "at " + std::to_string(version), .version = version});
    Pass(seconds(30), /*with_renewals=*/false);
  }
  EXPECT_TRUE(decision_.actions.empty());
  EXPECT_EQ(decision_.orphans.kept, (std::map<std::string, std::size_t>{{"node-not-heard-of", 1}}));
}

TEST_F(OrphansTest, AnEntryIsFreedWhenTheEndOfItsPodMustBeOver) {
  PutPod(0);
  PutPod(1);
  PutBlock(0, 0, 2);
  EXPECT_EQ(Lines(), Texts{});
  RemovePod(1);
  Lines();
  // The node renews its Lease after ten seconds.
  Pass(seconds(49));
  EXPECT_EQ(Lines(), Texts{});
  EXPECT_EQ(decision_.orphans.kept, (std::map<std::string, std::size_t>{{"may-be-ending", 1}}));
  Pass(seconds(1));
  EXPECT_EQ(Lines(), Texts{"free 10.55.0.0-26 [1]"});
}

TEST_F(OrphansTest, EntriesOfANodeThatRenewsNoLeaseStay) {
  PutPod(0);
  PutBlock(0, 0, 1);
  Lines();
  RemovePod(0);
  Pass(seconds(3600), /*with_renewals=*/false);
  EXPECT_EQ(Lines(), Texts{});
  Pass(seconds(49));
  EXPECT_EQ(Lines(), Texts{}) << "its kubelet ends the pod only since it is heard of again";
  Pass(seconds(5));
  EXPECT_EQ(Lines(), Texts{"free 10.55.0.0-26 [0]"});
}

TEST_F(OrphansTest, AnEntryStaysIfAPodOfTheNodeHasItsAddress) {
  PutPod(0);
  PutBlock(0, 0, 1);
  Lines();
  RemovePod(0);
  PutPod(6, "10.55.0.9", "n2");  // says nothing about the node
  PutPod(7, "10.55.0.0");
  Pass(seconds(60));
  EXPECT_EQ(Lines(), Texts{"report 1 contested"});
  EXPECT_EQ(decision_.orphans.kept, (std::map<std::string, std::size_t>{{"address-in-use", 1}}));
  RemovePod(7);
  PutPod(8, "10.55.0.0", "n2");
  EXPECT_EQ(Lines(), Texts{"free 10.55.0.0-26 [0]"}) << "another node's pod proves nothing";
}

TEST_F(OrphansTest, PodsThatHaveEndedOrUseTheNetworkOfTheHostKeepNoEntry) {
  PutPod(0);
  PutBlock(0, 0, 1);
  Lines();
  RemovePod(0);
  const std::vector<ipam::Address> addresses = {ipam::Address::Parse("10.55.0.0").value()};
  world_.world.pods.Put(
      {.name_space = "default", .name = "a", .uid = "a", .node = "n1", .addresses = addresses, .is_terminal = true},
      {});
  world_.world.pods.Put(
      {.name_space = "default", .name = "b", .uid = "b", .node = "n1", .addresses = addresses, .is_host_network = true},
      {});
  Pass(seconds(60));
  EXPECT_EQ(Lines(), Texts{"free 10.55.0.0-26 [0]"});
}

TEST_F(OrphansTest, AnAddressInUseKeepsNoEntryOfAnotherBlock) {
  PutPod(0);
  PutPod(1);
  PutBlock(0, 0, 1);
  PutBlock(1, 1, 1);
  Lines();
  RemovePod(0);
  RemovePod(1);
  PutPod(7, "10.55.0.0");
  Pass(seconds(50));
  EXPECT_EQ(Lines(), (Texts{"free 10.55.0.64-26 [0]", "report 1 contested"}));
}

TEST_F(OrphansTest, AnEntryThatIsWrittenAfterItsPodVanishedIsAlsoFreed) {
  PutPod(0);
  Lines();
  RemovePod(0);
  Lines();
  PutBlock(0, 0, 1);
  Pass(seconds(60));
  EXPECT_EQ(Lines(), Texts{"free 10.55.0.0-26 [0]"});
}

TEST_F(OrphansTest, AnEntryWhosePodIsSeenAgainStays) {
  PutBlock(0, 0, 1);
  Pass(seconds(599));
  PutPod(0);
  Pass(seconds(30));
  EXPECT_EQ(Lines(), Texts{});
  EXPECT_TRUE(decision_.orphans.kept.empty());
}

TEST_F(OrphansTest, EntriesOfAGoneNodeAreFreedThoughATenantBindsPodsToIt) {
  PutPod(0, "10.55.0.0");
  world_.Block("10.55.0.0/26", "web", {{0, EntryOf(0)}, {1, "-/- - 0123456789ab-0123456789abcdef i=eth0 t=1"}});
  Lines();
  world_.world.nodes.Remove("n1");
  Pass(seconds(600), /*with_renewals=*/false);
  EXPECT_EQ(Lines(), Texts{}) << "a pod with an address is still bound to it";
  RemovePod(0);
  PutPod(7);  // spec.nodeName names the node, but no kubelet starts the pod
  Pass(seconds(299), /*with_renewals=*/false);
  EXPECT_EQ(Lines(), Texts{});
  Pass(seconds(5), /*with_renewals=*/false);
  EXPECT_EQ(Lines(), Texts{"free 10.55.0.0-26 [0,1]"});
}

TEST_F(OrphansTest, AnEntryThatCannotBeReadStaysAsLongAsItsNode) {
  world_.Block("10.55.0.0/26", "web", {{0, "what is this"}});
  Pass(seconds(1000));
  EXPECT_EQ(Lines(), Texts{});
}

TEST_F(OrphansTest, NoEntryIsFreedIfTooManyPodsAreGoneWhoseDeletionNobodySaw) {
  for (int i = 60; i < 64; ++i) PutPod(i);
  PutBlock(0, 0, 64);
  RemovePod(63);  // its deletion was seen, but nothing at all is freed
  Pass(seconds(700));
  EXPECT_EQ(Lines(), Texts{});
  EXPECT_TRUE(decision_.orphans.is_braked);
  EXPECT_EQ(decision_.orphans.kept, (std::map<std::string, std::size_t>{{"too-many", 61}}));
  for (int i = 0; i < 10; ++i) PutPod(i);
  Lines();
  EXPECT_TRUE(decision_.orphans.is_braked) << "exactly 50";
  PutPod(10);
  Lines();
  EXPECT_FALSE(decision_.orphans.is_braked) << "49";
  for (int i = 0; i < 20; ++i) PutPod(i);
  Lines();
  EXPECT_FALSE(decision_.orphans.is_braked) << "40 are fewer than 50";
  EXPECT_EQ(decision_.orphans.due, 41U);
}

TEST_F(OrphansTest, ManyEntriesAreFreedIfTheControllerSawTheDeletions) {
  for (int i = 0; i < 64; ++i) PutPod(i);
  PutBlock(0, 0, 64);
  Lines();
  for (int i = 0; i < 64; ++i) RemovePod(i);
  Pass(seconds(55));
  Lines();
  EXPECT_FALSE(decision_.orphans.is_braked);
  EXPECT_EQ(decision_.orphans.due, 64U);
}

TEST_F(OrphansReportTest, OrphansAreReportedOnceAndStay) {
  PutPod(0);
  PutBlock(0, 0, 1);
  Lines();
  RemovePod(0);
  Pass(seconds(50));
  EXPECT_EQ(Lines(), Texts{"report 1 orphans"});
  EXPECT_EQ(decision_.orphans.due, 0U) << "an alert would say that the API server refuses the writes";
  EXPECT_EQ(decision_.orphans.kept["report-only"], 1U);
  world_.state.reported = {{"10.55.0.0-26", EntryOf(0)}};
  EXPECT_EQ(Lines(), Texts{});
}

// The condition Reclaiming of the pool "web" after the next decision.
std::string ReclaimingAfter(TestWorld& world, const Decision& decision) {
  for (const Action& action : decision.actions) {
    if (const auto* set = std::get_if<SetPoolStatus>(&action)) world.world.pools.at("web").status = set->status;
  }
  const auto* found = crds::FindCondition(world.world.pools.at("web").status.conditions, "Reclaiming");
  return found == nullptr ? "none" : found->status + "/" + found->reason;
}

TEST_F(OrphansTest, ThePoolsConditionShowsTheBrakeUntilItIsOff) {
  world_.Pool("web", {{"subnet", "10.55.0.0/24"}}).Space("default", {"web"});
  PutBlock(0, 0, 64);
  const auto condition = [this] {
    Lines();
    return ReclaimingAfter(world_, decision_);
  };
  EXPECT_EQ(condition(), "False/TooManyOrphans");
  world_.world.knows_holders = false;
  EXPECT_EQ(condition(), "False/TooManyOrphans") << "a new leader has not listed the pods yet";
  world_.world.knows_holders = true;
  for (int i = 0; i < 64; ++i) PutPod(i);
  EXPECT_EQ(condition(), "True/AsUsual");
}

TEST_F(OrphansTest, ThePoolsConditionIsUpToDateThoughTheControllerFreesNothing) {
  world_.Pool("web", {{"subnet", "10.55.0.0/24"}}).Space("default", {"web"});
  PutBlock(0, 0, 64);
  const auto condition = [this](Reclaim mode) {
    world_.decider = Decider({.reclaim = mode});
    Lines();
    return ReclaimingAfter(world_, decision_);
  };
  EXPECT_EQ(condition(Reclaim::kOn), "False/TooManyOrphans");
  EXPECT_EQ(condition(Reclaim::kReport), "False/TooManyOrphans");
  EXPECT_EQ(condition(Reclaim::kOff), "none") << "the controller does not count orphans";
  EXPECT_EQ(condition(Reclaim::kReport), "False/TooManyOrphans");
  for (int i = 0; i < 64; ++i) PutPod(i);
  EXPECT_EQ(condition(Reclaim::kReport), "none") << "the controller frees no address, and no brake holds it back";
}

}  // namespace
}  // namespace berth::reconciler
