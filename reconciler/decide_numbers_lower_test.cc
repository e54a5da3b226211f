// SPDX-License-Identifier: Apache-2.0
// An address count falls step by step while the wanted count is smaller.
#include <map>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "reconciler/world_test_setup.h"

namespace berth::reconciler {
namespace {

using std::chrono::seconds;

class LoweredNumber : public ::testing::Test {
 protected:
  LoweredNumber() {
    t_.decider = Decider({.counts = true});
    t_.world.knows_holders = true;
    t_.Pool("web", {{"subnet", "10.55.0.0/24"}, {"resource", "ipv4"}}, {.is_ready = true}).Space("default", {"web"});
    t_.world.nodes.PutShown({.name = "n1", .uid = "u-1", .is_ready = true, .numbers = {{"ipv4", {64, 64}}}},
                            t_.now.steady);
  }
  // A pod that requests nothing holds the first addresses of the block.
  void HoldInBlock(ipam::BlockOffset count) {
    std::map<ipam::BlockOffset, std::string> entries;
    for (ipam::BlockOffset i = 1; i <= count; ++i) entries[i] = kHeldEntry;
    t_.Block("10.55.0.64/26", "web", entries);
  }
  // Returns the counts that the controller writes to the Node within `count` seconds.
  std::string WrittenIn(int count) {
    std::string written;
    for (int i = 0; i < count; ++i, t_.now.steady += seconds(1), t_.now.unix_ms += 1000) {
      for (const Action& action : t_.Decide(true).actions) {
        if (std::holds_alternative<ListPods>(action)) t_.state.pods_listed["n1"] = {.at = t_.now.steady, .pods = {}};
        const auto* const shown = std::get_if<ShowNumbers>(&action);
        if (shown == nullptr) continue;
        const auto number = shown->numbers.at("ipv4");
        written += (written.empty() ? "" : " ") + (number ? std::to_string(*number) : "none");
        t_.world.nodes.PutShown({.name = "n1", .uid = "u-1", .is_ready = true, .numbers = {{"ipv4", {number, number}}}},
                                t_.now.steady);
      }
    }
    return written;
  }
  TestWorld t_;
};

TEST_F(LoweredNumber, IsLoweredFurtherAfterTheHighestWantedCountIsShown) {
  HoldInBlock(4);
  EXPECT_EQ(WrittenIn(2), "");
  HoldInBlock(10);
  EXPECT_EQ(WrittenIn(30), "60 54");
}

// A pass has time for a few lists only: each is a request to a busy API server.
TEST(LoweredNumbers, OfManyNodesAreWrittenThoughAPassHasTimeForFewLists) {
  constexpr int kNodes = 100;
  constexpr int kListsInTime = 5;
  TestWorld t;
  t.decider = Decider({.counts = true});
  t.world.knows_holders = true;
  t.Pool("web", {{"subnet", "10.55.0.0/16"}, {"resource", "ipv4"}}, {.is_ready = true}).Space("default", {"web"});
  std::map<ipam::BlockOffset, std::string> entries;
  for (ipam::BlockOffset i = 1; i <= 10; ++i) entries[i] = kHeldEntry;
  for (int i = 0; i < kNodes; ++i) {
    const std::string node = "n" + std::to_string(i);
    t.world.nodes.PutShown({.name = node, .uid = "u", .is_ready = true, .numbers = {{"ipv4", {64, 64}}}}, t.now.steady);
    const std::string part = std::to_string(i / 4) + "." + std::to_string(i % 4 * 64);
    t.Block("10.55." + part + "/26", "web", entries, {.node = node});
  }
  std::set<std::string> written;
  for (int pass = 0; pass < 100; ++pass, t.now.steady += std::chrono::milliseconds(600), t.now.unix_ms += 600) {
    int lists = 0;
    std::erase_if(t.state.pods_listed, [&](const auto& one) { return one.second.at + kNextList < t.now.steady; });
    for (const Action& action : t.Decide(true).actions) {
      if (const auto* list = std::get_if<ListPods>(&action)) {
        if (++lists <= kListsInTime) t.state.pods_listed[list->node] = {.at = t.now.steady, .pods = {}};
      }
      const auto* const shown = std::get_if<ShowNumbers>(&action);
      if (shown == nullptr) continue;
      ASSERT_EQ(lists, 0) << "the lists come after what can be written now";
      written.insert(shown->node);
      t.state.numbers_written[shown->node] = t.now.steady;
      t.world.nodes.PutShown({.name = shown->node, .uid = "u", .is_ready = true, .numbers = {{"ipv4", {54, 54}}}},
                             t.now.steady);
    }
  }
  EXPECT_EQ(written.size(), kNodes);
}

}  // namespace
}  // namespace berth::reconciler
