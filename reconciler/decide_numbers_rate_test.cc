// SPDX-License-Identifier: Apache-2.0
// How many Nodes the controller writes in a second, how often it writes one, and which come first.
#include <chrono>
#include <map>
#include <string>

#include <gtest/gtest.h>

#include "reconciler/numbers_world_test_setup.h"

namespace berth::reconciler {
namespace {

using Lines = NumbersWorld::Lines;
using std::chrono::milliseconds;

// A waiting pod with this placement fits no node, so the controller makes no block for it.
const Placement kNowhere = {.node_selector = {{"no", "node"}}, .terms = {}, .tolerations = {}};

// By names, the Nodes come in the opposite order. Only full nodes help the pod that waits.
TEST(NumberRate, ServesNodesForWhichPodsWaitFirstAndThenRaisedCounts) {
  constexpr int kOfEach = 60;
  NumbersWorld world({{"subnet", "10.55.0.0/20"}, {"blockSize", 29}, {"allowEdgeAddresses", true}});
  world.Waiting("w", kNowhere);
  int blocks = 0;
  const auto add_block = [&](const std::string& node) {
    const int block = blocks++;
    world.Block("10.55." + std::to_string(block / 32) + "." + std::to_string(block % 32 * 8) + "/29", node);
  };
  for (int i = 0; i < kOfEach; ++i) {
    const std::string number = std::to_string(10 + i);
    SeenNode old{.name = "a" + number, .uid = "u", .is_ready = true, .pods_max = 110};
    old.numbers = {{"gone", {.capacity = 5, .allocatable = 5}}, {"ipv4", {.capacity = 0, .allocatable = 0}}};
    world.world().world.nodes.PutShown(old, world.world().now.steady);
    world.Node("b" + number).Shows("b" + number, 8).Node("c" + number).Shows("c" + number, 0);
    add_block("b" + number);
    add_block("b" + number);
    add_block("c" + number);
  }
  std::map<std::string, int> written;  // by second and first letter
  for (const std::string& line : world.Pass(4)) ++written[line.substr(0, line.find("node ") + 6)];
  EXPECT_EQ(written,
            (std::map<std::string, int>{{"0: node c", 60},
                                        {"0: node b", 40},
                                        {"1: node b", 20},
                                        {"2: node a", 20},
                                        {"3: node a", 20},
                                        {"4: node a", 20}}));
}

TEST(NumberRate, LeavesRoomForALowerCountAlthoughMoreCountsRiseThanMayBeWritten) {
  constexpr int kNodes = 30;
  NumbersWorld world({{"subnet", "10.55.0.0/20"}, {"blockSize", 29}, {"allowEdgeAddresses", true}});
  TestWorld& t = world.world();
  int blocks = 0;
  const auto add_block = [&](const std::string& node) {
    const int block = blocks++;
    world.Block("10.55." + std::to_string(block / 32) + "." + std::to_string(block % 32 * 8) + "/29", node);
  };
  world.Node("z");
  add_block("z");
  for (int i = 0; i < kNodes; ++i) world.Node("n" + std::to_string(i));
  world.Pass(60);
  world.Shows("z", 64);
  t.state.node_patches = NodePatches(1);
  while (t.state.node_patches.Take(t.now.steady)) {
  }
  bool is_lowered = false;
  for (int round = 0; round < 6; ++round) {
    for (int i = 0; i < kNodes; ++i) add_block("n" + std::to_string(i));
    for (const std::string& line : world.Pass(10)) is_lowered = is_lowered || line.ends_with("node z ipv4=8");
  }
  EXPECT_TRUE(is_lowered);
}

TEST(NumberRate, OfOneNodeIsOneASecondWhilePodsWait) {
  NumbersWorld world;
  world.Node("n1").Block("10.55.0.0/29").Waiting("w", kNowhere).Pass(30);
  world.Block("10.55.0.8/29");
  EXPECT_EQ(world.Pass(0), Lines{"0: node n1 ipv4=16"});
  world.Block("10.55.0.16/29");
  world.world().now.steady -= milliseconds(1);
  EXPECT_EQ(world.Pass(0), Lines()) << "999 ms after the last write";
  world.world().now.steady -= milliseconds(999);
  EXPECT_EQ(world.Pass(0), Lines{"0: node n1 ipv4=24"}) << "1 s after it";
}

TEST(NumberRate, OfAllNodesIsWhatTheSettingsSay) {
  NumbersWorld world;
  world.world().state.node_patches = NodePatches(5);
  for (int i = 0; i < 112; ++i) world.Node("n" + std::to_string(i));
  std::map<int, int> by_second;
  for (const std::string& line : world.Pass(8)) ++by_second[std::stoi(line)];
  EXPECT_EQ(by_second, (std::map<int, int>{{3, 100}, {4, 5}, {5, 5}, {6, 2}}));
}

}  // namespace
}  // namespace berth::reconciler
