// SPDX-License-Identifier: Apache-2.0
// Freeing the address of a pod whose sandbox nobody saw end: somebody deleted the pod by force, or only a list shows
// that the pod is gone.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reconciler/controller_orphans_test_setup.h"

namespace berth::reconciler {
namespace {

using std::chrono::seconds;

// Somebody deletes a pod by force, and the pod's container hangs.
class ControllerForcedTest : public ControllerOrphansTest {
 protected:
  static constexpr char kOfContainer[] =
      "default/web 11111111-2222-3333-4444-555555555555 0123456789ab-0123456789abcdef i=eth0 t=1799999999000 ns=cni-1";

  ControllerForcedTest() {
    json pod = PodObject(kPodUid);
    pod["status"]["conditions"] = {{{"type", "PodReadyToStartContainers"}, {"status", "True"}}};
    server_->Put(kPods, pod);
    mailbox_->Put("default/web", ReadPod(pod).value());
    SetEntry(kBlock, "3", kOfContainer);
    Pass(seconds(3));
    Delete(kPods, "web");
    mailbox_->ObserveDeletion(ReadPod(pod).value());
  }
  [[nodiscard]] bool IsFreed() const { return Entry().starts_with("~ "); }
};

TEST_F(ControllerForcedTest, APodWhoseSandboxEndedUnseenKeepsItsAddressForTenMinutes) {
  Pass(seconds(600));
  EXPECT_FALSE(IsFreed());
  Pass(seconds(40));
  EXPECT_TRUE(IsFreed()) << Entry();
  EXPECT_TRUE(Entry().ends_with(std::string(" f=0123456789ab-0123456789abcdef ") + kOfContainer)) << Entry();
  EXPECT_THAT(metrics_.Text(), testing::HasSubstr("berth_controller_orphans_freed_total{why=\"sandbox-unknown\"} 1"));
}

TEST_F(ControllerForcedTest, AnEntryThatItsAgentWroteAgainIsReportedOnceAndFreedAfterTheFullWait) {
  Pass(seconds(640));
  ASSERT_TRUE(IsFreed());
  SetEntry(kBlock, "3", kOfContainer);
  Pass(seconds(600));
  EXPECT_FALSE(IsFreed());
  EXPECT_THAT(Events(), testing::Contains(std::string(kBlock) + " FreedInUse").Times(1));
  EXPECT_THAT(metrics_.Text(), testing::HasSubstr("berth_controller_freed_in_use_total 1"));
  Pass(seconds(60));
  EXPECT_TRUE(IsFreed()) << "the container may be gone by now";
}

// The agent writes before the controller looks again.
TEST_F(ControllerForcedTest, AnEntryThatItsAgentWritesAgainAtOnceIsFreedOnce) {
  int freed = 0;
  for (int i = 0; i < 1200; ++i) {
    Pass(seconds(1));
    if (!IsFreed()) continue;
    ++freed;
    SetEntry(kBlock, "3", kOfContainer);
  }
  EXPECT_EQ(freed, 1);
  EXPECT_THAT(Events(), testing::Contains(std::string(kBlock) + " FreedInUse").Times(1));
}

TEST_F(ControllerForcedTest, AnOldVersionOfTheBlockDoesNotCountAsAnEntryWrittenAgain) {
  const SeenBlock before = ReadBlock(Object(crds::kBlocksPath, kBlock)).value();
  Deliver();
  for (int i = 0; i < 700 && !IsFreed(); ++i) {
    clock_.Advance(seconds(1));
    ++ticks_;
    mailbox_->Put("n1", SeenLease{.node = "n1", .renewed = std::to_string(ticks_), .version = kLeasesVersion + ticks_});
    RunPassWithoutNews();
  }
  ASSERT_TRUE(IsFreed());
  mailbox_->Put(kBlock, before);
  RunPassWithoutNews();
  EXPECT_THAT(Events(), testing::Not(testing::Contains(std::string(kBlock) + " FreedInUse")));
}

// Before Kubernetes 1.36 a kubelet reports the sandbox of a new pod only when all images are there.
TEST_F(ControllerOrphansTest, APodDeletedByForceDuringAnImagePullKeepsItsAddressForTheFullWait) {
  Delete(kPods, "web");
  mailbox_->ObserveDeletion(ReadPod(PodObject(kPodUid, "Pending")).value());
  Pass(seconds(600));
  EXPECT_EQ(Entry(), kOrphan);
  Pass(seconds(40));
  EXPECT_TRUE(Entry().starts_with("~ ")) << Entry();
}

// The watch broke, and the next list lacks the pod: nobody can say how the pod was deleted.
TEST_F(ControllerOrphansTest, APodThatAListLacksKeepsItsAddressIfNoAgentCanLookForItsSandbox) {
  for (const bool has_proof : {true, false}) {
    SetEntry(kBlock, "3", std::string(kOrphan) + (has_proof ? " ns=cni-1" : ""));
    json pod = PodObject(kPodUid);
    pod["status"]["conditions"] = {{{"type", "PodReadyToStartContainers"}, {"status", "True"}}};
    server_->Put(kPods, pod);
    mailbox_->Replace(std::map<PodKey, SeenPod>{{"default/web", ReadPod(pod).value()}});
    Pass(seconds(3));
    Delete(kPods, "web");
    mailbox_->Replace(std::map<PodKey, SeenPod>{});
    Pass(seconds(300));
    EXPECT_EQ(Entry().starts_with("~ "), has_proof) << Entry();
  }
  Pass(seconds(340));
  EXPECT_TRUE(Entry().starts_with("~ ")) << Entry();
}

// A person removed the entry, and the node's agent wrote it again.
TEST_F(ControllerOrphansTest, AStaticPodsEntryStaysIfItsAgentHasWrittenItAgain) {
  const std::string entry =
      "default/web 0123456789abcdef0123456789abcdef 0123456789ab-0123456789abcdef i=eth0 t=1 ns=cni-1";
  SetEntry(kBlock, "3", entry);
  Pass(seconds(3));
  SetEntry(kBlock, "3", "~ t=1 f=0123456789ab-0123456789abcdef");
  Pass(seconds(3));
  SetEntry(kBlock, "3", entry);
  Pass(seconds(700));
  EXPECT_EQ(Entry(), entry);
  EXPECT_THAT(Events(), testing::Not(testing::Contains(std::string(kBlock) + " FreedInUse")));
}

TEST_F(ControllerForcedTest, TheEntryOfAGoneNodeDoesNotAskAnAgentToLookForTheSandbox) {
  mailbox_->Replace(std::map<std::string, SeenNode>{});
  Pass(seconds(400));
  EXPECT_FALSE(Entry().contains("ns=")) << Entry();
}

}  // namespace
}  // namespace berth::reconciler
