// SPDX-License-Identifier: Apache-2.0
// Why: the text about a pod, case by case.
#include "cli/why.h"

#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "cli/test_counted_world.h"

namespace berth::cli {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr const char* kPod = "team-a/web-0";
constexpr const char* kOneBlock = "10.55.0.0/29";

std::string TextOf(TestCluster& cluster) {
  const CountedWorld read = cluster.Read(kPod);
  const Counting counting(read);
  return PrintWhy(Why(read, counting, kPod).value(), Format::kTable);
}

struct WhyCase {
  const char* name;
  std::function<void(TestCluster&)> build;
  std::vector<std::string> says;  // each is a part of a line of the text
};

void PrintTo(const WhyCase& c, std::ostream* out) { *out << c.name; }

class WhyTable : public testing::TestWithParam<WhyCase> {};

TEST_P(WhyTable, SaysWhatStandsInTheWay) {
  TestCluster cluster;
  GetParam().build(cluster);
  const std::string text = TextOf(cluster);
  for (const std::string& line : GetParam().says) EXPECT_THAT(text, HasSubstr(line));
}

// A block of `node` in which pods other than web-0 have all addresses.
void FullBlock(TestCluster& c, const char* cidr, const char* node) {
  std::map<ipam::BlockOffset, std::string> entries;
  for (ipam::BlockOffset i = 0; i < 8; ++i) entries[i] = "other";
  c.Block("web", cidr, node, entries);
}

json Unschedulable() {
  return {{"conditions",
           {{{"type", "PodScheduled"},
             {"status", "False"},
             {"reason", "Unschedulable"},
             {"message", "0/1 nodes are available: 1 Insufficient ipam.berth.dev/ipv4."}}}}};
}

const WhyCase kWaitingForANode[] = {
    {"EveryBlockExistsAndIsFull",
     [](TestCluster& c) {
       c.Node("n1", 0).Pool("web", kOneBlock).Pod("web-0", 1, "", {}, Unschedulable());
       FullBlock(c, kOneBlock, "n1");
     },
     {"pod team-a/web-0 waits for a node: it requests 1 ipv4, and 0 of 1 node could take the pod; the scheduler says "
      "\"0/1 nodes are available",
      "  pool web has 0 of 8 addresses free, no block unclaimed, and admits 1 of 1 node\n      the pool is full",
      "  node n1 has 0 ipv4 left for pods: it shows 0, should show 0: 0 free + 0 held; pods request 0; 1 block\n"
      "      all blocks of pool web exist"}},
    {"TheExtenderFoundNoAddressForAPodThatRequestsNothing",
     [](TestCluster& c) {
       json status = Unschedulable();
       status["conditions"][0]["message"] =
           "0/1 nodes are available: 1 no ipam.berth.dev/ipv4 address is left, 2 no ipam.berth.dev/ipv4 address is "
           "left.";
       c.Node("n1", 0).Pool("web", kOneBlock).Pool("all", "10.56.0.0/29", {{"affinity", "Shared"}});
       c.Pod("web-0", 0, "", {}, status);
       FullBlock(c, kOneBlock, "n1");
     },
     {"pod team-a/web-0 waits for a node: it requests nothing, but the scheduler extender looks for 1 ipv4, and 0 of 1 "
      "node "
      "could take the pod",
      "  pool all is Shared and has 8 of 8 addresses free; the extender offers them",
      "  node n1 has 0 ipv4 left for pods"}},
    {"TheExtenderServesASharedPoolThatTheSpaceHasNotAccepted",
     [](TestCluster& c) {
       json status = Unschedulable();
       status["conditions"][0]["message"] = "0/1 nodes are available: 1 no ipam.berth.dev/ipv4 address is left.";
       c.Node("n1", 0).Pool("all", "10.56.0.0/29", {{"affinity", "Shared"}}).NotAccepted();
       c.Pod("web-0", 0, "", {}, status);
     },
     {"pool all is not in the list of pools that space default has accepted"}},
    {"FreeAddressesAreInBlocksOfOtherNodes",
     [](TestCluster& c) {
       c.Node("n1", 0, {{"zone", "a"}}).Node("n2", 8, {{"zone", "b"}}).Pool("web", kOneBlock);
       c.Block("web", kOneBlock, "n2").Pod("web-0", 1, "", {{"nodeSelector", {{"zone", "a"}}}}, Unschedulable());
     },
     {"0 of 2 nodes could take the pod",
      "  pool web has 8 of 8 addresses free, all of them in blocks that nodes have already, and admits 2 of 2 nodes\n",
      "node n1 has 0 ipv4 left for pods: it shows 0, should show 0",
      "takes an empty block from another node",
      "node n2 does not match the pod's nodeSelector or required node affinity; it has 8 ipv4 left\n      change"}},
    {"ABlockCanBeCreated",
     [](TestCluster& c) {
       c.Node("n1", 0).Pool("web", kWeb).Pod("web-0", 1, "");
       FullBlock(c, kOneBlock, "n1");
     },
     {"the controller creates a block of pool web for this node or for another node"}},
    {"ThePlacementIsTooLong",
     [](TestCluster& c) {
       const json spec = {{"nodeSelector", {{"zone", std::string(9'000, 'a')}}}};
       c.Node("n1", 0).Pool("web", kWeb).Pod("web-0", 1, "", spec, Unschedulable());
     },
     {"the controller creates no block for the pod, because its nodeSelector, required node affinity and tolerations "
      "are too long"}},
    {"ThePodRequestsTooManyResources",
     [](TestCluster& c) {
       json requests;
       for (int i = 0; i < 17; ++i) requests["ipam.berth.dev/x" + std::to_string(i)] = "1";
       const json spec = {{"containers", {{{"name", "c"}, {"resources", {{"requests", requests}}}}}}};
       c.Node("n1", 0).Pool("web", kWeb).Pod("web-0", 1, "", spec, Unschedulable());
     },
     {"the controller creates no block for the pod, because it requests 17 different resources of berth, and the limit "
      "is 16"}},
    {"ALimitOfBlocksIsReached",
     [](TestCluster& c) {
       c.Node("n1", 0).Pool("web", kWeb, {{"maxBlocksPerNode", 1}}).Pod("web-0", 1, "");
       FullBlock(c, kOneBlock, "n1");
     },
     {"raise spec.maxBlocksPerNode of pool web above 1"}},
    {"TheControllerIsAboutToRaiseTheNumber",
     [](TestCluster& c) { c.Node("n1", {}).Pool("web", kWeb).Block("web", kOneBlock, "n1").Pod("web-0", 1, ""); },
     {"node n1 has 0 ipv4 left for pods: it shows no number, should show 8",
      "wait: the controller corrects the number"}},
    {"PodsRequestAllThatIsLeft",
     [](TestCluster& c) {
       c.Node("n1", 8).Pool("web", kOneBlock).Block("web", kOneBlock, "n1").Pod("big", 6, "n1").Pod("web-0", 3, "");
     },
     {"it requests 3 ipv4",
      "node n1 has 2 ipv4 left for pods: it shows 8, should show 8: 8 free + 0 held; pods request 6"}},
    {"ANodeHasRoom",
     [](TestCluster& c) {
       c.Node("n1", 0).Node("n2", 8).Pool("web", kWeb).Block("web", kOneBlock, "n2").Pod("web-0", 1, "");
     },
     {"1 of 2 nodes could take the pod\n    the pod does not wait for an address: kubectl -n team-a describe pod web-0",
      "unclaimed, and admits 2 of 2 nodes\n  node n2 has 8 ipv4 left for pods: it shows 8"}},
    {"TaintsNoPlaceAndNotReady",
     [](TestCluster& c) {
       c.Node("n1", 8, {}, {{"taints", {{{"key", "gpu"}, {"value", "yes"}, {"effect", "NoSchedule"}}}}});
       c.Node("n2", 8, {}, {{"unschedulable", true}});
       c.Node("n3", 8, {}, {}, /*is_ready=*/true, /*pods_max=*/1).Pod("big", 1, "n3");
       c.Node("n4", 8, {}, {}, /*is_ready=*/false);
       c.Pool("web", kWeb).Pod("web-0", 1, "");
     },
     {"node n1 has the taint gpu=yes:NoSchedule, which the pod does not tolerate; it has 8 ipv4 left\n      remove the "
      "taint",
      "node n2 has the taint node.kubernetes.io/unschedulable:NoSchedule",
      "node n3 has no place for a pod: it has 1 pod, and its limit is 1; it has 7 ipv4 left",
      "node n4 is not Ready"}},
    {"ATaintThatThePodToleratesIsNotInTheWay",
     [](TestCluster& c) {
       c.Node("n1", 8, {}, {{"taints", {{{"key", "gpu"}, {"effect", "NoSchedule"}}}}});
       c.Pool("web", kWeb).Block("web", kOneBlock, "n1");
       c.Pod("web-0", 1, "", {{"tolerations", {{{"key", "gpu"}, {"operator", "Exists"}}}}});
     },
     {"1 of 1 node could take the pod"}},
    {"PoolIsDisabled",
     [](TestCluster& c) { c.Node("n1", {}).Pool("web", kWeb, {{"disabled", true}}).Pod("web-0", 1, ""); },
     {"  pool web is disabled\n      set spec.disabled of the IPPool to false",
      "node n1 has 0 ipv4 left for pods: it shows no number: no pool of ipv4 gives the node a number: pool web "
      "is disabled"}},
    {"PoolIsShared",
     [](TestCluster& c) { c.Node("n1", {}).Pool("web", kWeb, {{"affinity", "Shared"}}).Pod("web-0", 1, ""); },
     {"  pool web is Shared: its free addresses belong to all nodes at once"}},
    {"PoolIsForAnotherNamespace",
     [](TestCluster& c) {
       c.Node("n1", {}).Pool("web", kWeb, {{"namespaceSelector", {{"matchLabels", {{"team", "b"}}}}}});
       c.Pod("web-0", 1, "");
     },
     {"  pool web is not for namespace team-a: spec.namespaceSelector"}},
    {"PoolIsForThisNamespace",
     [](TestCluster& c) {
       c.Node("n1", 8).Pool("web", kWeb, {{"namespaceSelector", {{"matchLabels", {{"team", "a"}}}}}});
       c.Block("web", kOneBlock, "n1").Pod("web-0", 1, "");
     },
     {"  pool web has 256 of 256 addresses free, 31 of 32 blocks unclaimed, and admits 1 of 1 node"}},
    {"PoolIsNotCounted",
     [](TestCluster& c) {
       c.Node("n1", {}).Pool("web", kWeb, {{"namespaceSelector", {{"matchLabels", {{"team", "a"}}}}}});
       c.Pool("db", "10.66.0.0/24").Pod("web-0", 1, "");
     },
     {"  pool web gives no node a number: other pools of ipv4",
      "give this pool a spec.resource of its own",
      "  pool db has 256 of 256"}},
    {"PoolAdmitsNoNode",
     [](TestCluster& c) {
       c.Node("n1", {}).Pool("web", kWeb, {{"nodeSelector", {{"matchLabels", {{"zone", "b"}}}}}}).Pod("web-0", 1, "");
     },
     {"and admits 0 of 1 node\n      correct the pool's spec.nodeSelector, or label nodes",
      "pool web is not for node n1: spec.nodeSelector",
      "correct what keeps the pools of ipv4 from this node, or add a pool"}},
    {"NoPoolHasTheResource",
     [](TestCluster& c) { c.Node("n1", {}).Pool("web", kWeb, {{"resource", "web"}}).Pod("web-0", 1, ""); },
     {"no pool has the resource ipv4\n      correct the pod's request"}},
    {"ThePoolCannotBeRead",
     [](TestCluster& c) { c.Node("n1", {}).Pool("web", kWeb, {{"affinity", 5}}).Pod("web-0", 1, ""); },
     {"no pool that can be read has the resource ipv4\n      correct the pod's request, or the pool that cannot be "
      "read",
      "pool web cannot be read: IPPool web: spec.affinity"}},
    {"OneOfTwoFamiliesIsUsedUp",
     [](TestCluster& c) {
       c.Node("n1", 8).Pool("web", kWeb).Block("web", kOneBlock, "n1");
       c.Pool("v6", "2001:db8::/125", {{"blockSize", 125}, {"disabled", true}});
       const json requests = {{"ipam.berth.dev/ipv4", "1"}, {"ipam.berth.dev/ipv6", "1"}};
       c.Pod("web-0", 0, "", {{"containers", {{{"name", "c"}, {"resources", {{"requests", requests}}}}}}});
     },
     {"it requests 1 ipv4 and 1 ipv6, and 0 of 1 node could take the pod",
      "  pool v6 is disabled\n",
      "  pool web has 256 of 256 addresses free",
      "node n1 has 0 ipv6 left for pods: it shows no number: no pool of ipv6 gives the node a number: pool v6 "
      "is disabled"}},
    {"ItRequestsNothing",
     [](TestCluster& c) { c.Node("n1", 8).Pool("web", kWeb).Pod("web-0", 0, ""); },
     {"pod team-a/web-0 waits for a node, not for an address; it requests no address, so the scheduler does not "
      "check which nodes have an address left\n    docs/scheduling.md"}},
};

INSTANTIATE_TEST_SUITE_P(WaitingForANode, WhyTable, testing::ValuesIn(kWaitingForANode),
                         [](const auto& param) { return std::string(param.param.name); });

const WhyCase kOnANode[] = {
    {"RunsWithARecordedAddress",
     [](TestCluster& c) {
       c.Node("n1", 8).Pool("web", kWeb).Block("web", kOneBlock, "n1", {{1, "web-0"}});
       c.Pod("web-0", 1, "n1", {}, TestCluster::Running("10.55.0.1"));
     },
     {"pod team-a/web-0 is on node n1 and has 1 address\n",
      "  10.55.0.1 is of pool web, from block 10.55.0.0-29 of node n1\n"}},
    {"RunsWithoutARequest",
     [](TestCluster& c) {
       c.Node("n1", 8).Pool("web", kWeb).Block("web", kOneBlock, "n1", {{1, "web-0"}});
       c.Pod("web-0", 0, "n1", {}, TestCluster::Running("10.55.0.1"));
     },
     {"has 1 address; it requests no address, so the scheduler does not check which nodes have an address left\n"
      "    docs/scheduling.md",
      "  10.55.0.1 is of pool web"}},
    {"RunsWithAnAddressOfASharedBlock",
     [](TestCluster& c) {
       c.Node("n1", {}).Pool("web", kWeb, {{"affinity", "Shared"}}).Block("web", kOneBlock, "", {{1, "web-0"}});
       c.Pod("web-0", 0, "n1", {}, TestCluster::Running("10.55.0.1"));
     },
     {"  10.55.0.1 is of pool web, from block 10.55.0.0-29 of all nodes\n"}},
    {"RunsWithAnAddressThatNoBlockRecords",
     [](TestCluster& c) {
       c.Node("n1", 8).Pool("web", kWeb).Block("web", kOneBlock, "n1");
       c.Pod("web-0", 1, "n1", {}, TestCluster::Running("10.55.0.9"));
     },
     {"  no block records the pod's address 10.55.0.9\n      if the address is in a pool, find out more: berthctl "
      "check"}},
    {"WaitsForAnAddressOnAFullNode",
     [](TestCluster& c) {
       c.Node("n1", {}).Pool("web", kOneBlock).Pod("web-0", 0, "n1");
       FullBlock(c, kOneBlock, "n1");
     },
     {"pod team-a/web-0 is on node n1 and has no address yet; it requests no address",
      "kubectl -n team-a describe pod web-0",
      "  pool web has 0 free addresses in its blocks of node n1, and no block is unclaimed; all blocks of the pool "
      "have 0 free addresses\n"
      "      end pods that have addresses of this pool"}},
    {"WaitsWhereOtherNodesHaveTheBlocks",
     [](TestCluster& c) {
       c.Node("n1", {}).Node("n2", 8).Pool("web", kOneBlock).Block("web", kOneBlock, "n2").Pod("web-0", 1, "n1");
     },
     {"  pool web has 0 free addresses in its blocks of node n1, and no block is unclaimed; all blocks of the pool "
      "have 8 free addresses",
      "  node n1: ipv4 shows no number: its pods request 1, more than 0 free + 0 held by them"}},
    {"WaitsWhereItMayClaim",
     [](TestCluster& c) { c.Node("n1", 0).Pool("web", kWeb).Pod("web-0", 1, "n1"); },
     {"  pool web has 0 free addresses in its blocks of node n1, and the node may claim one of 32 unclaimed blocks\n"}},
    {"WaitsWhereItMayClaimNoMore",
     [](TestCluster& c) {
       c.Node("n1", 0).Pool("web", kWeb, {{"maxBlocksPerNode", 1}}).Pod("web-0", 1, "n1");
       FullBlock(c, kOneBlock, "n1");
     },
     {"and the node may claim no more: spec.maxBlocksPerNode is 1\n      end pods"}},
    {"WaitsWhereThePoolIsForOtherNodes",
     [](TestCluster& c) {
       c.Node("n1", {}).Pool("web", kWeb, {{"nodeSelector", {{"matchLabels", {{"zone", "b"}}}}}}).Pod("web-0", 0, "n1");
     },
     {"  pool web is not for node n1: spec.nodeSelector"}},
    {"WaitsForASharedAddress",
     [](TestCluster& c) {
       c.Node("n1", {})
           .Pool("web", kOneBlock, {{"affinity", "Shared"}})
           .Block("web", kOneBlock, "")
           .Pod("web-0", 0, "n1");
     },
     {"  pool web has 8 free addresses in its blocks\n"}},
    {"ItsNodeIsGone",
     [](TestCluster& c) { c.Pool("web", kWeb).Pod("web-0", 1, "n9"); },
     {"  node n9 does not exist\n      delete the pod"}},
    {"HasTheNetworkOfItsNode",
     [](TestCluster& c) { c.Node("n1", 8).Pod("web-0", 0, "n1", {{"hostNetwork", true}}); },
     {"has the network of its node: it needs no address of a pool\n"}},
    {"HasEnded",
     [](TestCluster& c) { c.Node("n1", 8).Pod("web-0", 1, "n1", {}, {{"phase", "Succeeded"}}); },
     {"pod team-a/web-0 has ended: it needs no address\n"}},
};

INSTANTIATE_TEST_SUITE_P(OnANode, WhyTable, testing::ValuesIn(kOnANode),
                         [](const auto& param) { return std::string(param.param.name); });

TEST(Why, SaysThatAPodDoesNotExist) {
  const CountedWorld read = TestCluster().Read(kPod);
  const auto rows = Why(read, Counting(read), kPod);
  ASSERT_FALSE(rows.has_value());
  EXPECT_EQ(rows.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(rows.error().message, "pod \"team-a/web-0\" does not exist");
}

TEST(Why, WantsANamespaceAndAName) {
  const CountedWorld read = TestCluster().Read();
  const Counting counting(read);
  for (const char* pod : {"web-0", "/web-0", "team-a/", ""}) {
    const auto rows = Why(read, counting, pod);
    ASSERT_FALSE(rows.has_value());
    EXPECT_EQ(rows.error().details, "write <namespace>/<pod>");
  }
}

TEST(Why, PrintsTwentyNodesAndTheNearestFirst) {
  TestCluster cluster;
  cluster.Pool("web", kWeb).Block("web", kOneBlock, "n30").Pod("web-0", 1, "");
  for (int i = 1; i <= 30; ++i) cluster.Node("n" + std::to_string(i), i == 30 ? 8 : 0);
  const std::string text = TextOf(cluster);
  EXPECT_THAT(text, HasSubstr("30 of 30 nodes\n  node n30 has 8 ipv4 left"));
  EXPECT_THAT(text, HasSubstr("  and 10 more nodes"));
}

TEST(Why, SaysTheSameToPrograms) {
  TestCluster cluster;
  cluster.Node("n1", 8).Pool("web", kWeb).Block("web", kOneBlock, "n1").Pod("web-0", 1, "");
  const CountedWorld read = cluster.Read(kPod);
  const auto rows = Why(read, Counting(read), kPod).value();
  EXPECT_EQ(nlohmann::ordered_json::parse(PrintWhy(rows, Format::kJson)), rows);
  EXPECT_EQ(rows[0]["fits"], false);
  EXPECT_EQ(rows[1]["about"], "pool");
  EXPECT_EQ(rows[2]["about"], "node");
  EXPECT_EQ(rows[2]["fits"], true);
  EXPECT_EQ(rows[2]["remedy"], "");
}

TEST(Why, PrintsControlCharactersOfTheSchedulerAsText) {
  TestCluster cluster;
  json status = Unschedulable();
  status["conditions"][0]["message"] = "red \x1b[31m";
  cluster.Node("n1", 0).Pool("web", kWeb).Pod("web-0", 1, "", {}, status);
  EXPECT_THAT(TextOf(cluster), Not(HasSubstr("\x1b")));
}

}  // namespace
}  // namespace berth::cli
