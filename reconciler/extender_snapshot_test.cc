// SPDX-License-Identifier: Apache-2.0
// The snapshot for the extender: the nodes' addresses minus those that bound pods still need, and Shared pools.
#include "reconciler/extender_snapshot.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "reconciler/pod_requests.h"
#include "reconciler/world_test_setup.h"

namespace berth::reconciler {
namespace {

json NodePool() { return {{"subnet", "10.55.0.0/24"}, {"blockSize", 29}, {"allowEdgeAddresses", true}}; }
json SharedPool() { return {{"subnet", "10.66.0.0/29"}, {"affinity", "Shared"}, {"allowEdgeAddresses", true}}; }

// Node n1 with a block of eight addresses, and node n2 without a block.
class SnapshotWorld {
 public:
  SnapshotWorld() {
    t_.decider = Decider({.reclaim = Reclaim::kOn,
                          .counts = true,
                          .unrequested = std::vector<UnitRequest>{{.resource = "ipv4", .units = 1}}});
    t_.world.knows_holders = true;
    Node("n1").Node("n2");
    t_.Pool("v4", NodePool(), {.is_ready = true}).Space("default", {"v4"});
  }
  SnapshotWorld& Node(const std::string& name, const ipam::Labels& labels = {}) {
    t_.world.nodes.PutShown(
        {.name = name, .uid = "uid-of-" + name, .is_ready = true, .labels = labels, .pods_max = 110}, t_.now.steady);
    return *this;
  }
  SnapshotWorld& Block(std::map<ipam::BlockOffset, std::string> entries = {}) {
    t_.Block("10.55.0.0/29", "v4", std::move(entries), {});
    return *this;
  }
  SnapshotWorld& Shared(json spec) {
    t_.Pool("common", std::move(spec), {.is_ready = true}).Space("default", {"v4", "common"});
    return *this;
  }
  SnapshotWorld& Pod(SeenPod pod) {
    pod.name_space = "default";
    pod.uid = "uid-of-" + pod.name;
    t_.world.pods.Put(std::move(pod), t_.now.steady);
    return *this;
  }
  SnapshotWorld& Bound(const std::string& name) { return Pod({.name = name, .node = "n1"}); }
  SnapshotWorld& Later(int count) {
    t_.now.steady += std::chrono::seconds(count);
    t_.now.unix_ms += 1000L * count;
    return *this;
  }

  Decision Decide() {
    Decision decision = t_.Decide(/*relisted=*/false);
    t_.world.pods.ForgetTouched();
    return decision;
  }
  extender::Snapshot Snapshot() { return Decide().extender_snapshot.value_or(extender::Snapshot()); }
  // Addresses that the node has left; -1000: the resource is missing.
  std::int64_t Left(const std::string& node = "n1", const std::string& resource = "ipv4") {
    const auto snapshot = Snapshot();
    const auto& left = snapshot.nodes.at(node).left;
    const auto found = left.find(resource);
    return found == left.end() ? -1000 : found->second;
  }
  // Addresses of Shared pools that the node counts for the resource.
  std::int64_t SharedFor(const std::string& node, const std::string& resource = "ipv4") {
    const auto snapshot = Snapshot();
    std::int64_t free = 0;
    for (const std::size_t index : snapshot.nodes.at(node).shared) {
      if (snapshot.shared[index].resource == resource) free += snapshot.shared[index].free;
    }
    return free;
  }
  TestWorld& world() { return t_; }

 private:
  TestWorld t_;
};

TEST(ExtenderSnapshot, IsMissingWithoutAnExtender) {
  SnapshotWorld world;
  world.world().decider = Decider({.reclaim = Reclaim::kOn, .counts = true});
  EXPECT_FALSE(world.Block().Decide().extender_snapshot);
}

TEST(ExtenderSnapshot, IsMissingWhilePodsAreUnknown) {
  SnapshotWorld world;
  world.world().world.knows_holders = false;
  EXPECT_FALSE(world.Block().Decide().extender_snapshot);
}

TEST(ExtenderSnapshot, IsMadeEveryTenSecondsAlsoIfNothingHappens) {
  SnapshotWorld world;
  const Decision decision = world.Block().Decide();
  ASSERT_TRUE(decision.wake_steady);
  EXPECT_LE(*decision.wake_steady, world.world().now.steady + kSnapshotPeriod);
}

TEST(ExtenderSnapshot, CountsTheFreeAddressesOfANodesBlocks) {
  EXPECT_EQ(SnapshotWorld().Block().Left(), 8);
  EXPECT_EQ(SnapshotWorld().Block({{0, kHeldEntry}}).Left(), 7);
  EXPECT_EQ(SnapshotWorld().Left("n2"), 0) << "the pool serves it, and it has no block";
}

TEST(ExtenderSnapshot, CountsAnAddressForAPodWithoutARequestOnceThePodIsBound) {
  EXPECT_EQ(SnapshotWorld().Block().Bound("web-1").Left(), 7);
}

TEST(ExtenderSnapshot, CountsTheAddressOfABoundPodOnlyOnceWhenItIsRecorded) {
  const std::string entry = "default/web-1 uid-of-web-1 0123456789ab-0123456789abcdef i=eth0 t=1799999999000";
  EXPECT_EQ(SnapshotWorld().Block({{0, entry}}).Bound("web-1").Left(), 7);
}

TEST(ExtenderSnapshot, CountsAsManyAddressesAsAPodRequests) {
  EXPECT_EQ(SnapshotWorld().Block().Pod({.name = "a", .node = "n1", .requests = {{"ipv4", 3}}}).Left(), 5);
}

TEST(ExtenderSnapshot, CountsNoAddressForPodsThatNeedNone) {
  const auto none = std::make_shared<const std::vector<UnitRequest>>();
  EXPECT_EQ(SnapshotWorld().Block().Pod({.name = "a", .node = "n1", .is_host_network = true}).Left(), 8);
  EXPECT_EQ(SnapshotWorld().Block().Pod({.name = "a", .node = "n1", .is_terminal = true}).Left(), 8);
  EXPECT_EQ(SnapshotWorld().Block().Pod({.name = "a", .node = "n1", .named = none}).Left(), 8);
  EXPECT_EQ(SnapshotWorld().Block().Pod({.name = "a"}).Left(), 8);
}

TEST(ExtenderSnapshot, ReadsThePodsNeedsFromItsAnnotation) {
  const auto named = std::make_shared<const std::vector<UnitRequest>>(ParseResources("ipv6"));
  EXPECT_EQ(SnapshotWorld().Block().Pod({.name = "a", .node = "n1", .named = named}).Left(), 8);
}

TEST(ExtenderSnapshot, HasNoAddressesForANodeThatNoPoolServes) {
  SnapshotWorld world;
  json spec = NodePool();
  spec["nodeSelector"] = {{"matchLabels", {{"zone", "a"}}}};
  world.world().Pool("v4", spec, {.is_ready = true});
  EXPECT_EQ(world.Block().Left(), -1000);
}

TEST(ExtenderSnapshot, CountsASharedPoolForAllNodesThatItServes) {
  json spec = SharedPool();
  spec["nodeSelector"] = {{"matchLabels", {{"zone", "a"}}}};
  const auto snapshot = SnapshotWorld().Node("n2", {{"zone", "a"}}).Shared(spec).Snapshot();
  ASSERT_EQ(snapshot.shared.size(), 1U);
  EXPECT_EQ(snapshot.shared[0].resource, "ipv4");
  EXPECT_EQ(snapshot.shared[0].free, 8);
  EXPECT_TRUE(snapshot.nodes.at("n1").shared.empty());
  EXPECT_EQ(snapshot.nodes.at("n2").shared, std::vector<std::size_t>{0});
}

TEST(ExtenderSnapshot, CountsAnAddressOfTwoSharedPoolsOnce) {
  const struct {
    const char* name;
    json second;
    std::int64_t want;
  } cases[] = {
      {"the same subnet", SharedPool(), 8},
      {"ranges that overlap", {{"ranges", {"10.66.0.6-10.66.0.9"}}}, 10},
      {"other ranges of the same subnet", {{"ranges", {"10.66.0.8-10.66.0.10"}}}, 11},
      {"another space", {{"space", "second"}}, 16},
      {"another resource", {{"resource", "web"}}, 8},
  };
  for (const auto& one : cases) {
    json spec = SharedPool();
    spec.merge_patch(one.second);
    if (spec.contains("ranges")) spec["subnet"] = "10.66.0.0/28";
    SnapshotWorld world;
    world.world().Pool("first", SharedPool(), {.is_ready = true}).Pool("second", spec, {.is_ready = true});
    const bool is_elsewhere = spec.contains("space");
    if (is_elsewhere) {
      world.world().Space("default", {"v4", "first"}).Space("second", {"second"});
    } else {
      world.world().Space("default", {"v4", "first", "second"});
    }
    EXPECT_EQ(world.SharedFor("n1"), one.want) << one.name;
    EXPECT_EQ(world.SharedFor("n1", "web"), spec.contains("resource") ? 8 : 0) << one.name;
  }
}

TEST(ExtenderSnapshot, CountsAnAddressOfABlockForThePoolOfTheBlock) {
  SnapshotWorld world;
  json zone_a = SharedPool();
  zone_a["nodeSelector"] = {{"matchLabels", {{"zone", "a"}}}};
  world.Node("a", {{"zone", "a"}});
  world.world().Pool("first", zone_a, {.is_ready = true}).Pool("second", SharedPool(), {.is_ready = true});
  world.world().Space("default", {"v4", "first", "second"});
  world.world().Block("10.66.0.0/29", "first", {{0, kHeldEntry}}, {.node = ""});
  EXPECT_EQ(world.SharedFor("a"), 7);
  EXPECT_EQ(world.SharedFor("n1"), 0);
  EXPECT_EQ(world.Snapshot().nodes.at("n1").shared.size(), 1U) << "the second pool serves it, and has no address";
}

TEST(ExtenderSnapshot, CountsAnAddressOfOverlappingSharedPoolsOnceForEachNodeThatAnyOfThemServes) {
  SnapshotWorld world;
  world.Node("a", {{"zone", "a"}}).Node("b", {{"zone", "b"}}).Node("gpu", {{"zone", "b"}, {"gpu", "yes"}});
  const auto pool = [&world](const std::string& name, const std::string& ranges, const ipam::Labels& labels) {
    json spec = SharedPool();
    spec.merge_patch({{"subnet", "10.66.0.0/28"}, {"ranges", {ranges}}, {"nodeSelector", {{"matchLabels", labels}}}});
    world.world().Pool(name, spec, {.is_ready = true});
  };
  pool("of-a", "10.66.0.0-10.66.0.7", {{"zone", "a"}});
  pool("of-b", "10.66.0.4-10.66.0.9", {{"zone", "b"}});
  pool("of-gpu", "10.66.0.6-10.66.0.12", {{"gpu", "yes"}});
  world.world().Space("default", {"v4", "of-a", "of-b", "of-gpu"});
  EXPECT_EQ(world.SharedFor("a"), 8);
  EXPECT_EQ(world.SharedFor("b"), 6);
  EXPECT_EQ(world.SharedFor("gpu"), 9) << "10.66.0.4 to 10.66.0.12";
  EXPECT_EQ(world.SharedFor("n1"), 0);
}

TEST(ExtenderSnapshot, IsBelowZeroIfPodsNeedMoreThanTheNodesOwnAddresses) {
  SnapshotWorld world;
  world.world().Pool("v4", NodePool(), {}).Space("default", {});
  world.Shared(SharedPool()).world().Space("default", {"common"});
  EXPECT_EQ(world.Bound("web-1").Bound("web-2").Left(), -2);
}

TEST(ExtenderSnapshot, DoesNotCountASharedPoolForSomeNamespacesOnly) {
  json spec = SharedPool();
  spec["namespaceSelector"] = {{"matchLabels", {{"team", "a"}}}};
  EXPECT_TRUE(SnapshotWorld().Shared(spec).Snapshot().shared.empty());
}

TEST(ExtenderSnapshot, LetsAnUnschedulablePodWithoutARequestCauseANewBlock) {
  SnapshotWorld world;
  world.Pod({.name = "w", .is_unschedulable = true, .placement = std::make_shared<const Placement>()});
  static_cast<void>(world.Decide());
  const Decision decision = world.Later(2).Decide();
  EXPECT_TRUE(std::ranges::any_of(decision.actions,
                                  [](const Action& action) { return std::holds_alternative<CreateBlock>(action); }));
}

TEST(ExtenderSnapshot, SaysWhetherAnAnsweredPodIsUnknownWaitsOrIsSettled) {
  SnapshotWorld world;
  const World& seen = world.world().world;
  world.Pod({.name = "waits"}).Bound("bound").Pod({.name = "over", .is_terminal = true});
  EXPECT_EQ(SeenIn(seen, "default/none", "uid"), extender::Seen::kUnknown);
  EXPECT_EQ(SeenIn(seen, "default/waits", "uid-of-waits"), extender::Seen::kWaiting);
  EXPECT_EQ(SeenIn(seen, "default/waits", "uid-of-another"), extender::Seen::kUnknown) << "the world may lag behind";
  EXPECT_EQ(SeenIn(seen, "default/bound", "uid-of-bound"), extender::Seen::kSettled);
  EXPECT_EQ(SeenIn(seen, "default/over", "uid-of-over"), extender::Seen::kSettled);
}

}  // namespace
}  // namespace berth::reconciler
