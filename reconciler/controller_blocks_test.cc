// SPDX-License-Identifier: Apache-2.0
// Blocks that the controller deletes for other nodes, against an API server in memory, while the node's agent writes
// them.
#include <algorithm>
#include <chrono>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "reconciler/controller_test_setup.h"

namespace berth::reconciler {
namespace {

using std::chrono::seconds;

constexpr char kEmptyBlock[] = "10.55.0.0-26";

// Passes everything to another Api. A list of pods takes 5 s of the clock's time, or as long as the caller waits.
class SlowListsApi final : public k8sclient::Api {
 public:
  SlowListsApi(k8sclient::Api& inner, k8sclient::testing::FakeClock& clock) : inner_(inner), clock_(clock) {}

  Expected<k8sclient::Response> Call(const k8sclient::Request& request,
                                     const k8sclient::CallOptions& options) override {
    if (request.path != kPodsPath) return inner_.Call(request, options);
    // The caller computed its deadline with the real clock.
    const auto limit = std::chrono::ceil<seconds>(options.deadline - std::chrono::steady_clock::now());
    clock_.Advance(std::min(limit, seconds(5)));
    if (limit < seconds(5)) return Fail(ErrorCode::kTimeout, "no answer within the time limit");
    return inner_.Call(request, options);
  }
  Expected<k8sclient::Response> Watch(const k8sclient::Request& request, const k8sclient::WatchOptions& options,
                                      const k8sclient::WatchSink& sink) override {
    return inner_.Watch(request, options, sink);
  }

 private:
  k8sclient::Api& inner_;
  k8sclient::testing::FakeClock& clock_;
};

// Ten nodes and four blocks; n1 has an empty block.
class ControllerBlocksTest : public ControllerTest {
 protected:
  ControllerBlocksTest() : ControllerTest({.reclaim = Reclaim::kOn}) {
    PutPool("web", {{"subnet", "10.55.0.0/24"}});
    ListHolders();
    Settle();
    PutBlock("web", "10.55.0.0/26", json::object());
  }
  void ListHolders() {
    mailbox_->Replace(std::map<PodKey, SeenPod>());
    mailbox_->Replace(std::map<std::string, SeenLease>());
    std::map<std::string, SeenNode> nodes;
    for (int i = 1; i <= 10; ++i) {
      const std::string name = "n" + std::to_string(i);
      nodes.emplace(name, SeenNode{.name = name, .is_ready = true});
    }
    mailbox_->Replace(std::move(nodes));
  }
  void Pass(int time) {
    for (int i = 0; i < time; ++i) {
      clock_.Advance(seconds(1));
      RunPass();
    }
  }
  [[nodiscard]] bool IsGoing() const {
    return Object(crds::kBlocksPath, kEmptyBlock)["metadata"].contains("deletionTimestamp");
  }
  // A pod of n1 with an address of the block, which the watch of pods does not show.
  void PutUnseenPod() {
    server_->Put("/api/v1/namespaces/default/pods",
                 {{"metadata", {{"name", "web"}, {"uid", "u"}}},
                  {"spec", {{"nodeName", "n1"}}},
                  {"status",
                   {{"phase", "Running"},
                    {"podIPs", {{{"ip", "10.55.0.3"}}}},
                    {"conditions", {{{"type", "PodReadyToStartContainers"}, {"status", "True"}}}}}}});
  }
  // Waits until the controller has asked for the deletion.
  void AwaitDeletion() {
    for (int i = 0; i < 90 && !IsGoing(); ++i) Pass(1);
    ASSERT_TRUE(IsGoing());
  }
};

TEST_F(ControllerBlocksTest, TheControllerDeletesAnEmptyBlockThatAnotherNodeNeeds) {
  Pass(59);
  EXPECT_FALSE(IsGoing());
  Pass(30);
  EXPECT_FALSE(Exists(crds::kBlocksPath, kEmptyBlock));
}

TEST_F(ControllerBlocksTest, TheControllerDeletesBlocksThoughEachListOfPodsTakesSeconds) {
  SlowListsApi slow(*server_, clock_);
  controller_ = std::make_unique<Controller>(slow, server_clock_, *mailbox_, metrics_, settings_);
  ListHolders();
  Pass(89);
  EXPECT_FALSE(Exists(crds::kBlocksPath, kEmptyBlock));
  controller_.reset();
}

// For a list with a limit, some API servers read all pods of the cluster from etcd to find those of one node.
TEST_F(ControllerBlocksTest, TheControllerListsThePodsOfANodeWithoutALimit) {
  int lists = 0;
  server_->SetFaults([&lists](const k8sclient::Request& request) {
    if (request.path != kPodsPath) return ApiFault::kNone;
    ++lists;
    for (const auto& [name, value] : request.query) EXPECT_NE(name, "limit");
    return ApiFault::kNone;
  });
  Pass(89);
  EXPECT_GE(lists, 1);
}

TEST_F(ControllerBlocksTest, AnAddThatWroteBeforeTheDeletionKeepsTheBlock) {
  Pass(59);
  // The watch is late, so the passes decide on the empty block.
  SetEntry(kEmptyBlock, "3", kHeldEntry);
  for (int i = 0; i < 60; ++i) {
    clock_.Advance(seconds(1));
    RunPassWithoutNews();
  }
  EXPECT_FALSE(IsGoing());
  EXPECT_EQ(EntryAt(kEmptyBlock, "3"), kHeldEntry);
}

TEST_F(ControllerBlocksTest, AnAddThatWritesAfterTheDeletionKeepsItsAddress) {
  AwaitDeletion();
  Deliver();
  SetEntry(kEmptyBlock, "3", kHeldEntry);
  for (int i = 0; i < 60; ++i) {
    clock_.Advance(seconds(1));
    RunPassWithoutNews();
  }
  EXPECT_EQ(EntryAt(kEmptyBlock, "3"), kHeldEntry);
  Pass(60);
  EXPECT_EQ(EntryAt(kEmptyBlock, "3"), kHeldEntry);
  SetEntry(kEmptyBlock, "3", nullptr);
  Pass(15);
  EXPECT_FALSE(Exists(crds::kBlocksPath, kEmptyBlock));
}

// Somebody removed the pod's entry while no agent ran, and the watch of pods is behind the watch of blocks.
TEST_F(ControllerBlocksTest, ABlockStaysIfTheApiServerKnowsAPodWithAnAddressOfIt) {
  PutUnseenPod();
  Pass(200);
  EXPECT_TRUE(Exists(crds::kBlocksPath, kEmptyBlock));
  EXPECT_FALSE(IsGoing());
}

TEST_F(ControllerBlocksTest, ABlockThatSomebodyDeletesStaysWhileAPodHasAnAddressOfIt) {
  PutUnseenPod();
  Delete(crds::kBlocksPath, kEmptyBlock);
  Pass(200);
  EXPECT_TRUE(Exists(crds::kBlocksPath, kEmptyBlock));
}

TEST_F(ControllerBlocksTest, TheControllerKeepsStandbyIfTheApiServerStillHasTheNode) {
  server_->Change(std::string(crds::kBlocksPath), kEmptyBlock, [](json& block) { block["standby"] = {4, 5}; });
  server_->Put("/api/v1/nodes", {{"metadata", {{"name", "n1"}, {"uid", "u"}}}});
  // The watch shows no Node, but the API server has it.
  mailbox_->Remove<SeenNode>("n1");
  Pass(400);
  EXPECT_EQ(Object(crds::kBlocksPath, kEmptyBlock)["standby"], json({4, 5}));
}

}  // namespace
}  // namespace berth::reconciler
