// SPDX-License-Identifier: Apache-2.0
// An address count falls step by step, as long as less is wanted.
#include <gtest/gtest.h>

#include "reconciler/test_world.h"

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

TEST_F(LoweredNumber, GoesOnDownAfterTheHighestThatWasWantedIsShown) {
  HoldInBlock(4);
  EXPECT_EQ(WrittenIn(2), "");
  HoldInBlock(10);
  EXPECT_EQ(WrittenIn(30), "60 54");
}

}  // namespace
}  // namespace berth::reconciler
