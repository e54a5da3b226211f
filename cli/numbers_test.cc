// SPDX-License-Identifier: Apache-2.0
// NumberOf: the sentence about a Node, case by case.
#include "cli/numbers.h"

#include <functional>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "cli/test_counted_world.h"
#include "k8sclient/testing/deadlines.h"

namespace berth::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

struct NumbersCase {
  const char* name;
  std::function<void(TestCluster&)> build;
  const char* says;       // the beginning of the text for n1 and ipv4
  const char* also = "";  // also in the text
};

void PrintTo(const NumbersCase& c, std::ostream* out) { *out << c.name; }

class NumbersTable : public testing::TestWithParam<NumbersCase> {};

TEST_P(NumbersTable, SaysWhatTheNodeShowsAndWhy) {
  TestCluster cluster;
  GetParam().build(cluster);
  const CountedWorld read = cluster.Read();
  const Counting counting(read);
  const auto* n1 = read.world.nodes.Find("n1");
  ASSERT_NE(n1, nullptr);
  EXPECT_THAT(NumberOf(read, counting, *n1, "ipv4").says,
              AllOf(StartsWith(GetParam().says), HasSubstr(GetParam().also)));
}

const NumbersCase kNumbersCases[] = {
    {"AsItShould",
     [](TestCluster& c) {
       c.Node("n1", 8).Pool("web", kWeb).Block("web", "10.55.0.0/29", "n1", {{1, "a"}}).Pod("a", 1, "n1");
     },
     "shows 8, should show 8: 7 free + 1 held; pods request 1; 1 block"},
    {"TwoPoolsOfOneResourceAreAddedUp",
     [](TestCluster& c) {
       c.Node("n1", 16).Pool("web", kWeb).Pool("db", "10.66.0.0/24");
       c.Block("web", "10.55.0.0/29", "n1").Block("db", "10.66.0.0/29", "n1");
     },
     "shows 16, should show 16: 16 free + 0 held; pods request 0; 2 blocks"},
    {"BlockThatIsDeletedDoesNotCount",
     [](TestCluster& c) {
       c.Node("n1", 8).Pool("web", kWeb).Block("web", "10.55.0.0/29", "n1");
       c.Block("web", "10.55.0.8/29", "n1", {{1, "a"}}, /*is_deleting=*/true);
     },
     "shows 8, should show 8: 8 free + 0 held; pods request 0; 1 block, 1 more not included"},
    {"NumberThatIsTooSmallIsRaised",
     [](TestCluster& c) { c.Node("n1", 3).Pool("web", kWeb).Block("web", "10.55.0.0/29", "n1"); },
     "shows 3, should show 8: 8 free + 0 held; pods request 0; 1 block; the controller raises a number within 2 s"},
    {"NumberThatIsTooLargeIsLowered",
     [](TestCluster& c) { c.Node("n1", 64).Pool("web", kWeb).Block("web", "10.55.0.0/29", "n1"); },
     "shows 64, should show 8: 8 free + 0 held; pods request 0; 1 block; before the controller lowers "
     "this number, it waits 5 s"},
    {"NumberThatIsMissingComesBack",
     [](TestCluster& c) { c.Node("n1", {}).Pool("web", kWeb).Block("web", "10.55.0.0/29", "n1"); },
     "shows no number, should show 8: 8 free + 0 held",
     "--count=off"},
    {"PodsRequestMoreThanThereIs",
     [](TestCluster& c) {
       c.Node("n1", {}).Pool("web", "10.55.0.0/29", {{"blockSize", 30}});
       c.Block("web", "10.55.0.0/30", "n1", {{0, "a"}, {1, "a"}, {2, "a"}}).Pod("a", 5, "n1");
     },
     "shows no number: its pods request 5, more than 1 free + 3 held by them"},
    {"NumberIsStillThereAlthoughPodsRequestMore",
     [](TestCluster& c) {
       c.Node("n1", 8).Pool("web", kWeb).Block("web", "10.55.0.0/29", "n1", {{1, "a"}}).Pod("b", 8, "n1");
     },
     "shows 8, should show no number: its pods request 8, more than 7 free + 0 held by them; "
     "before the controller lowers this number, it waits 5 s"},
    {"NoPoolAdmitsTheNode",
     [](TestCluster& c) { c.Node("n1", {}).Pool("web", kWeb, {{"nodeSelector", {{"matchLabels", {{"zone", "b"}}}}}}); },
     "shows no number: no pool of ipv4 gives the node a number: pool web is not for node n1: spec.nodeSelector"},
    {"PoolIsDisabled",
     [](TestCluster& c) { c.Node("n1", {}).Pool("web", kWeb, {{"disabled", true}}); },
     "shows no number: no pool of ipv4 gives the node a number: pool web is disabled"},
    {"PoolIsNotReady",
     [](TestCluster& c) { c.Node("n1", {}).Pool("web", kWeb, {}, /*is_ready=*/false); },
     "shows no number: no pool of ipv4 gives the node a number: pool web is not Ready: Overlaps"},
    {"PoolIsShared",
     [](TestCluster& c) { c.Node("n1", {}).Pool("web", kWeb, {{"affinity", "Shared"}}); },
     "shows no number: no pool of ipv4 gives the node a number: pool web is Shared"},
    {"OnlyThePoolForSomeNamespacesIsLeft",
     [](TestCluster& c) {
       c.Node("n1", {}).Pool("web", kWeb, {{"namespaceSelector", {{"matchLabels", {{"team", "a"}}}}}});
       c.Pool("db", "10.66.0.0/24", {{"disabled", true}});
     },
     "shows no number: no pool of ipv4 gives the node a number: ",
     "pool web gives no node a number: other pools of ipv4 have another spec.namespaceSelector, or none"},
    {"NobodyHasSuchAPool",
     [](TestCluster& c) { c.Node("n1", 5); },
     "shows 5, should show no number: no pool of ipv4 gives the node a number: there is no such pool"},
    {"PoolCannotBeRead",
     [](TestCluster& c) { c.Node("n1", {}).Pool("web", kWeb, {{"affinity", 5}}); },
     "shows no number: no pool of ipv4 gives the node a number: pool web cannot be read: "},
    {"DisabledPoolsHoldersStillCount",
     [](TestCluster& c) {
       c.Node("n1", 1).Pool("web", kWeb, {{"disabled", true}}).Pod("a", 1, "n1");
       c.Block("web", "10.55.0.0/29", "n1", {{1, "a"}});
     },
     "shows 1, should show 1: 0 free + 1 held; pods request 1; 0 blocks, 1 more not included"},
    {"NodeIsNotReady",
     [](TestCluster& c) {
       c.Node("n1", {}, {}, {}, /*is_ready=*/false).Pool("web", kWeb).Block("web", "10.55.0.0/29", "n1");
       for (int i = 2; i <= 10; ++i) c.Node("n" + std::to_string(i), 0);
     },
     "shows no number: the node is not Ready"},
    {"ATenthOfTheNodesIsNotReadySoItKeepsItsNumber",
     [](TestCluster& c) {
       c.Node("n1", 8, {}, {}, /*is_ready=*/false).Pool("web", kWeb).Block("web", "10.55.0.0/29", "n1");
     },
     "shows 8, should show 8"},
};

INSTANTIATE_TEST_SUITE_P(All, NumbersTable, testing::ValuesIn(kNumbersCases),
                         [](const auto& param) { return std::string(param.param.name); });

TEST(Numbers, PrintsASentenceForPeopleAndFiguresForPrograms) {
  TestCluster cluster;
  cluster.Node("n1", 8).Node("n2", {}).Pool("web", kWeb).Block("web", "10.55.0.0/29", "n1", {{1, "a"}});
  cluster.Pod("a", 1, "n1");
  const CountedWorld read = cluster.Read();
  const auto rows = NodeRows(read, Counting(read));
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].dump(),
            R"({"node":"n1","resource":"ipv4","published":8,"wanted":8,"free":7,"held":1,"requested":1,"blocks":1,)"
            R"("says":"shows 8, should show 8: 7 free + 1 held; pods request 1; 1 block"})");
  EXPECT_EQ(rows[1]["published"], nullptr);
  EXPECT_EQ(rows[1]["wanted"], 0);
  EXPECT_THAT(PrintNodes(rows, Format::kTable),
              StartsWith("NODE   RESOURCE   SAYS\n"
                         "n1     ipv4       shows 8, should show 8: 7 free + 1 held; pods request 1; 1 block\n"
                         "n2     ipv4       shows no number, should show 0: 0 free + 0 held; "));
  EXPECT_EQ(nlohmann::ordered_json::parse(PrintNodes(rows, Format::kJson)), rows);
}

TEST(Numbers, SayNothingOfAClusterWithoutNodes) {
  const CountedWorld read = TestCluster().Pool("web", kWeb).Read();
  EXPECT_EQ(PrintNodes(NodeRows(read, Counting(read)), Format::kTable), "none\n");
}

TEST(CountedWorld, KeepsGoingWithoutAnObjectThatIsUnreadable) {
  TestCluster cluster;
  cluster.Node("n1", 8).Pool("web", kWeb).Block("web", "10.55.0.0/29", "n1");
  cluster.api().Put("/api/v1/nodes", {{"metadata", {{"name", "odd"}}}, {"spec", {{"taints", 5}}}});
  const CountedWorld read = cluster.Read();
  EXPECT_EQ(read.unreadable.size(), 1U);
  EXPECT_EQ(NodeRows(read, Counting(read)).size(), 1U);
}

TEST(CountedWorld, HasATimeLimitForEachPageAndNoneForAWholeList) {
  TestCluster cluster;
  cluster.Node("n1", 8).Node("n2", 8);
  cluster.api().SetPageMax(1);
  k8sclient::testing::Deadlines deadlines(cluster.api());
  ASSERT_TRUE(ReadCountedWorld(deadlines, "").has_value());
  // Lists of pools, spaces, blocks, Nodes (two pages) and pods.
  EXPECT_EQ(std::set(deadlines.seen.begin(), deadlines.seen.end()).size(), 6U);
}

TEST(CountedWorld, NamesTheListThatIsForbidden) {
  TestCluster cluster;
  cluster.api().SetFaults([](const k8sclient::Request& request) {
    return request.path == crds::kSpacesPath ? k8sclient::testing::ApiFault::kForbidden
                                             : k8sclient::testing::ApiFault::kNone;
  });
  const auto read = ReadCountedWorld(cluster.api(), "");
  ASSERT_FALSE(read.has_value());
  EXPECT_EQ(read.error().code, ErrorCode::kForbidden);
  EXPECT_THAT(read.error().message, HasSubstr(crds::kSpacesPath));
}

}  // namespace
}  // namespace berth::cli
