// SPDX-License-Identifier: Apache-2.0
// IPAllocations against an API server in memory that refuses them or does not answer: nothing else waits for them.
#include <algorithm>
#include <map>
#include <string>

#include <gtest/gtest.h>

#include "reconciler/controller_test_setup.h"
#include "reconciler/read_holders.h"

namespace berth::reconciler {
namespace {

using k8sclient::testing::ApiFault;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr char kAllocations[] = "/apis/ipam.berth.dev/v1alpha1/namespaces/default/ipallocations";
constexpr std::size_t kPodsCount = 256;

// Living pods on node n1 without IPAllocations.
class ControllerAllocationsTest : public ControllerTest {
 protected:
  ControllerAllocationsTest() : ControllerTest({.keeps_allocations = true}) {
    PutPool("web", {{"subnet", "10.55.0.0/16"}});
    Settle();
    std::map<PodKey, SeenPod> pods;
    for (std::size_t block = 0; block < kPodsCount / 64; ++block) PutBlockOfPods(block, pods);
    mailbox_->Replace(std::move(pods));
    mailbox_->Replace(std::map<std::string, SeenNode>{{"n1", {.name = "n1", .is_ready = true}}});
    mailbox_->Replace(std::map<std::string, SeenLease>{{"n1", {.node = "n1", .renewed = "0"}}});
    DeliverAllocations();
    RunPass();
  }

  void PutBlockOfPods(std::size_t block, std::map<PodKey, SeenPod>& pods) {
    json entries = json::object();
    for (std::size_t i = 0; i < 64; ++i) {
      const std::string number = std::to_string(1000 + block * 64 + i);
      entries[std::to_string(i)] =
          "default/p" + number + " u-" + number + " 0123456789ab-000000000000" + number + " i=eth0 t=1";
      pods["default/p" + number] = {.name_space = "default", .name = "p" + number, .uid = "u-" + number, .node = "n1"};
    }
    PutBlock("web", "10.55.0." + std::to_string(block * 64) + "/26", entries);
  }
  void DeliverAllocations() {
    std::map<AllocationKey, SeenAllocation> view;
    for (const json& object : server_->Objects(kAllocations)) {
      SeenAllocation seen = ReadAllocation(object).value();
      view.emplace(NamespacedName(seen.name_space, seen.name), seen);
    }
    mailbox_->Replace(std::move(view));
  }
  void Refuse(ApiFault fault) {
    server_->SetFaults([this, fault](const k8sclient::Request& request) {
      if (request.path != kAllocations) return ApiFault::kNone;
      ++tried_;
      return fault;
    });
  }
  // Runs passes when the controller wants them. Returns how many.
  int Pass(seconds time) {
    int passes = 0;
    for (const auto end = clock_.Now() + time; clock_.Now() < end; ++passes) {
      DeliverAllocations();
      const auto next = RunPass();
      clock_.Advance(std::max(milliseconds(50), std::chrono::ceil<milliseconds>(next - clock_.Now())));
    }
    return passes;
  }
  [[nodiscard]] std::size_t Made() const { return server_->Objects(kAllocations).size(); }

  int tried_ = 0;
};

TEST_F(ControllerAllocationsTest, TheControllerCreatesOneForEachAttachment) {
  Pass(seconds(10));
  EXPECT_EQ(Made(), kPodsCount);
}

TEST_F(ControllerAllocationsTest, RefusedCreationsAreRepeatedSeldom) {
  Refuse(ApiFault::kForbidden);
  Pass(seconds(120));
  EXPECT_LE(Pass(seconds(60)), 70);
  EXPECT_EQ(Made(), 0U);
  server_->SetFaults(nullptr);
  Pass(seconds(40));
  EXPECT_EQ(Made(), kPodsCount);
}

// The watch of pods is stuck.
TEST_F(ControllerAllocationsTest, NoneIsCreatedAgainIfTheGarbageCollectorDeletedIt) {
  Pass(seconds(10));
  ASSERT_EQ(Made(), kPodsCount);
  server_->Put(
      "/api/v1/namespaces/default/pods",
      {{"metadata", {{"name", "p1000"}, {"namespace", "default"}, {"uid", "u-1000"}}}, {"spec", {{"nodeName", "n1"}}}});
  for (const json& object : server_->Objects(kAllocations)) {
    const auto name = object["metadata"]["name"].get<std::string>();
    if (name.starts_with("p1000") || name.starts_with("p1001")) Delete(kAllocations, name);
  }
  ASSERT_EQ(Made(), kPodsCount - 2);
  int posts = 0;
  server_->SetFaults([&posts](const k8sclient::Request& request) {
    posts += request.path == kAllocations && request.method == k8sclient::Method::kPost ? 1 : 0;
    return ApiFault::kNone;
  });
  Pass(seconds(60));
  EXPECT_EQ(posts, 1) << "that of the one whose pod is there";
  EXPECT_EQ(Made(), kPodsCount - 1);
}

TEST_F(ControllerAllocationsTest, IfOneCreationHangsTheOthersWait) {
  clock_.Advance(seconds(3));
  PutPool("other", {{"subnet", "10.66.0.0/24"}});
  Refuse(ApiFault::kLateCommit);
  constexpr int kPasses = 5;
  for (int i = 0; i < kPasses; ++i) RunPass();
  EXPECT_LT(tried_, kPasses) << "after the first they wait";
  EXPECT_EQ(ReadyOf("other"), "True/Accepted");
  server_->SetFaults(nullptr);
  server_->ReleaseLateWrites();
  Pass(seconds(60));
  EXPECT_EQ(Made(), kPodsCount);
}

}  // namespace
}  // namespace berth::reconciler
