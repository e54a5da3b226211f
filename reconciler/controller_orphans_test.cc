// SPDX-License-Identifier: Apache-2.0
// Freeing orphans against an API server in memory: what the controller asks just before a write, what it writes, what
// fails.
#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reconciler/controller_orphans_test_setup.h"
#include "reconciler/decide_status.h"

namespace berth::reconciler {
namespace {

using k8sclient::testing::ApiFault;
using std::chrono::seconds;

TEST_F(ControllerOrphansTest, AFreedEntryCoolsAMinuteAndTellsTheAgentToForgetTheAttachment) {
  Vanish();
  Pass(seconds(46));
  EXPECT_EQ(Entry(), kOrphan);
  Pass(seconds(6));
  const ipam::Entry entry = ipam::ParseEntry(Entry());
  const auto* cooling = std::get_if<ipam::CoolingEntry>(&entry);
  ASSERT_NE(cooling, nullptr) << Entry();
  EXPECT_EQ(cooling->forget, "0123456789ab-0123456789abcdef");
  const auto now = std::chrono::duration_cast<std::chrono::milliseconds>(clock_.WallNow().time_since_epoch()).count();
  EXPECT_NEAR(static_cast<double>(cooling->until_ms - now), 60'000, 7'000);
}

// Pods of a tenant, which the controller's watch does not show.
TEST_F(ControllerOrphansTest, TheControllerAsksForAtMostTwentyPodsInAPass) {
  json entries;
  for (int i = 10; i < 50; ++i) {
    const std::string number = std::to_string(i);
    json pod = PodObject("uid-" + number);
    pod["metadata"]["name"] = "late-" + number;
    server_->Put(kPods, pod);
    entries[number] = "default/late-" + number + " uid-" + number + " 0123456789ab-01234567890000" + number +
                      " i=eth0 t=1799999999000";
  }
  PutBlock("web", "10.55.0.64/26", entries);
  int most = 0;
  for (int i = 0; i < 640; ++i) {
    const int before = server_->CountOf(k8sclient::Method::kGet);
    Pass(seconds(1));
    most = std::max(most, server_->CountOf(k8sclient::Method::kGet) - before);
  }
  EXPECT_EQ(most, 20);
}

// With 20 answers that take 600 ms each, the time limit would pass before the block is written.
TEST_F(ControllerOrphansTest, EntriesAreFreedAlsoIfTheApiServerAnswersSlowly) {
  json entries;
  for (int i = 10; i < 50; ++i) {
    const std::string number = std::to_string(i);
    entries[number] = "default/gone-" + number + " uid-" + number + " 0123456789ab-01234567890000" + number +
                      " i=eth0 t=1799999999000";
  }
  PutBlock("web", "10.55.0.64/26", entries);
  int gets = 0;
  server_->SetFaults([&](const k8sclient::Request& request) {
    if (!request.path.starts_with(std::string(kPods) + "/gone-")) return ApiFault::kNone;
    clock_.Advance(std::chrono::milliseconds(600));
    return ++gets > 16 ? ApiFault::kUnavailable : ApiFault::kNone;
  });
  int most = 0;
  for (int i = 0; i < 640; ++i) {
    Pass(seconds(1));
    most = std::max(most, std::exchange(gets, 0));
  }
  EXPECT_EQ(most, 9) << "5.4 s";
  EXPECT_TRUE(EntryAt("10.55.0.64-26", "49").starts_with("~ ")) << EntryAt("10.55.0.64-26", "49");
}

TEST_F(ControllerOrphansTest, AnUnansweredQuestionAboutAPodHoldsUpNoOtherEntry) {
  json other = PodObject(OtherPod().uid);
  other["metadata"]["name"] = "other";
  server_->Put(kPods, other);
  mailbox_->Put("default/other", OtherPod());
  PutBlock("web",
           "10.55.0.64/26",
           {{"5", "default/other 22222222-2222-3333-4444-555555555555 0123456789ab-00000000000000aa i=eth0 t=1"}});
  Pass(seconds(3));
  server_->SetFaults([](const k8sclient::Request& request) {
    return request.path == std::string(kPods) + "/web" ? ApiFault::kUnavailable : ApiFault::kNone;
  });
  SeeItVanish();
  Delete(kPods, "other");
  SeeOtherVanish();
  Pass(seconds(80));
  EXPECT_TRUE(EntryAt("10.55.0.64-26", "5").starts_with("~ ")) << EntryAt("10.55.0.64-26", "5");
}

TEST_F(ControllerOrphansTest, AnEventOfTheBlockReportsAFreedEntry) {
  Vanish();
  Pass(seconds(55));
  EXPECT_THAT(Events(), testing::Contains(std::string(kBlock) + " OrphansFreed").Times(1));
}

TEST_F(ControllerOrphansTest, ARefusedEventDoesNotKeepTheEntryFromBeingFreed) {
  Vanish();
  server_->SetFaults([](const k8sclient::Request& request) {
    return request.path == kEventsPath ? ApiFault::kForbidden : ApiFault::kNone;
  });
  Pass(seconds(55));
  EXPECT_TRUE(Entry().starts_with("~ ")) << Entry();
}

// The API server does not answer requests for events, or refuses them only after two seconds.
class SlowEventsTest : public ControllerOrphansTest, public testing::WithParamInterface<ApiFault> {};

TEST_P(SlowEventsTest, DoNotHoldUpTheFreeingOfEntries) {
  PutBlock("web", "10.55.0.64/26", {{"5", kOrphan}});
  Pass(seconds(3));
  Vanish();
  int tried = 0;
  server_->SetFaults([&](const k8sclient::Request& request) {
    if (request.path != kEventsPath) return ApiFault::kNone;
    ++tried;
    clock_.Advance(seconds(2));
    return GetParam();
  });
  Pass(seconds(55));
  EXPECT_TRUE(EntryAt("10.55.0.64-26", "5").starts_with("~ "));
  EXPECT_EQ(tried, 1);
}

INSTANTIATE_TEST_SUITE_P(Table, SlowEventsTest, testing::Values(ApiFault::kUnavailable, ApiFault::kForbidden));

TEST_F(ControllerOrphansTest, AnExistingEventDoesNotKeepTheNextEventFromBeingWritten) {
  PutBlock("web", "10.55.0.64/26", {{"5", kOrphan}});
  Pass(seconds(3));
  Vanish();
  int tried = 0;
  server_->SetFaults([&](const k8sclient::Request& request) {
    const bool is_event = request.path == kEventsPath && request.method == k8sclient::Method::kPost;
    if (is_event && ++tried == 1) server_->Put(std::string(kEventsPath), json::parse(request.body));
    return ApiFault::kNone;
  });
  Pass(seconds(55));
  EXPECT_EQ(tried, 2);
  EXPECT_THAT(Events(), testing::Contains("10.55.0.0-26 OrphansFreed"));
  EXPECT_THAT(Events(), testing::Contains("10.55.0.64-26 OrphansFreed"));
}

TEST_F(ControllerOrphansTest, APodThatTheApiServerStillHasKeepsItsAddressAlsoIfTheWatchLacksIt) {
  SeeItVanish();
  Pass(seconds(120));
  EXPECT_EQ(Entry(), kOrphan);
}

// The taint is still there, its Node is not Ready yet, and the watch of pods lags.
TEST_F(ControllerOrphansTest, APodThatAnOutOfServiceMachineStartsKeepsItsAddress) {
  const json taint = {{"key", "node.kubernetes.io/out-of-service"}, {"effect", "NoExecute"}};
  server_->Put(std::string(kNodesPath), {{"metadata", {{"name", "n1"}}}, {"spec", {{"taints", {taint}}}}});
  mailbox_->Replace(std::map<std::string, SeenNode>{{"n1", {.name = "n1", .is_out_of_service = true}}});
  SeeItVanish();
  Pass(seconds(60));
  EXPECT_EQ(Entry(), kOrphan);
  Delete(kPods, "web");
  Pass(seconds(60));
  EXPECT_TRUE(Entry().starts_with("~ ")) << Entry();
}

TEST_F(ControllerOrphansTest, AnUnreadablePodOnAnOutOfServiceNodeKeepsItsAddress) {
  const json taint = {{"key", "node.kubernetes.io/out-of-service"}, {"effect", "NoExecute"}};
  server_->Put(std::string(kNodesPath), {{"metadata", {{"name", "n1"}}}, {"spec", {{"taints", {taint}}}}});
  mailbox_->Replace(std::map<std::string, SeenNode>{{"n1", {.name = "n1", .is_out_of_service = true}}});
  json pod = PodObject(kPodUid);
  pod["spec"]["nodeName"] = 1;
  server_->Put(kPods, pod);
  SeeItVanish();
  Pass(seconds(60));
  EXPECT_EQ(Entry(), kOrphan);
}

TEST_F(ControllerOrphansTest, ANewPodOfTheSameNameDoesNotKeepTheAddress) {
  server_->Put(kPods, PodObject("99999999-2222-3333-4444-555555555555"));
  SeeItVanish();
  Pass(seconds(60));
  EXPECT_TRUE(Entry().starts_with("~ ")) << Entry();
}

TEST_F(ControllerOrphansTest, TheEntryOfAPodThatHasEndedIsFreedThoughThePodObjectStays) {
  server_->Put(kPods, PodObject(kPodUid, "Succeeded"));
  mailbox_->Put("default/web", ReadPod(PodObject(kPodUid, "Succeeded")).value());
  Pass(seconds(58));
  EXPECT_EQ(Entry(), kOrphan);
  Pass(seconds(10));
  EXPECT_TRUE(Entry().starts_with("~ ")) << Entry();
}

TEST_F(ControllerOrphansTest, NothingIsFreedWhileTheApiServerDoesNotAnswerQuestionsAboutThePod) {
  Vanish();
  server_->SetFaults([](const k8sclient::Request& request) {
    return request.path.starts_with(kPods) ? ApiFault::kForbidden : ApiFault::kNone;
  });
  Pass(seconds(300));
  EXPECT_EQ(Entry(), kOrphan);
  server_->SetFaults(nullptr);
  Pass(seconds(60));
  EXPECT_TRUE(Entry().starts_with("~ ")) << Entry();
}

TEST_F(ControllerOrphansTest, AnEntryWithAnImpossiblePodNameHoldsUpNoOtherEntry) {
  SetEntry(kBlock, "2", "default/no%2Fname uid-2-2 0123456789ab-0000000000000002 i=eth0 t=1799999999000");
  SetEntry(kBlock, "4", "../web uid-2-3 0123456789ab-0000000000000003 i=eth0 t=1799999999000");
  // An API server takes the first path for a subresource of the pod "no", and answers 500 to the second.
  server_->SetFaults([](const k8sclient::Request& request) {
    if (request.path.ends_with("no%2Fname")) return ApiFault::kForbidden;
    return request.path.contains("%2E%2E") ? ApiFault::kUnavailable : ApiFault::kNone;
  });
  Pass(seconds(1));
  Delete(kPods, "web");
  mailbox_->Replace(std::map<PodKey, SeenPod>{});
  Pass(seconds(660));
  EXPECT_TRUE(Entry().starts_with("~ ")) << Entry();
  EXPECT_TRUE(EntryAt(kBlock, "2").starts_with("default/")) << EntryAt(kBlock, "2");
}

TEST_F(ControllerOrphansTest, AnEntryOfAnUnreadableBlockIsFreedOnceTheBlockCanBeRead) {
  Vanish();
  json entries;
  server_->Change(std::string(crds::kBlocksPath), kBlock, [&entries](json& object) {
    entries = std::exchange(object["allocations"], "nonsense");
  });
  Pass(seconds(60));
  server_->Change(
      std::string(crds::kBlocksPath), kBlock, [&entries](json& object) { object["allocations"] = entries; });
  Pass(seconds(2));
  EXPECT_TRUE(Entry().starts_with("~ ")) << Entry() << ": it was waited for meanwhile";
}

TEST_F(ControllerOrphansTest, AnEntryThatTheAgentHasRemovedMeanwhileIsNotFreed) {
  Vanish();
  Pass(seconds(39));
  // The watch is late, so the passes decide on the old block.
  SetEntry(kBlock, "3", nullptr);
  for (int i = 0; i < 10; ++i) {
    clock_.Advance(seconds(1));
    RunPassWithoutNews();
  }
  EXPECT_EQ(Entry(), "");
}

TEST_F(ControllerOrphansTest, TheNextLeaderGetsTheNewestVersionThatStillShowsUnfreedDeletions) {
  std::uint64_t handed_over = 0;
  controller_->on_version = [&handed_over](std::uint64_t version) { handed_over = version; };
  mailbox_->Put("default/other", OtherPod());
  mailbox_->AdvancePodsTo(1);
  Pass(seconds(1));
  Vanish();
  SeeOtherVanish();
  mailbox_->AdvancePodsTo(2);
  Pass(seconds(1));
  EXPECT_EQ(handed_over, 1U);
  Pass(seconds(30));
  EXPECT_EQ(Entry(), kOrphan);
  EXPECT_EQ(handed_over, 1U) << "its entry is not freed yet";
  Pass(seconds(30));
  EXPECT_TRUE(Entry().starts_with("~ ")) << Entry();
  EXPECT_EQ(handed_over, 2U) << "nothing is left to do about those that went";
}

// A pod whose entry a person removes.
class ControllerLostTest : public ControllerOrphansTest {
 protected:
  ControllerLostTest() {
    server_->Put(kPods, WithAddress());
    mailbox_->Put("default/web", ReadPod(WithAddress()).value());
    Pass(seconds(100));
    SetEntry(kBlock, "3", nullptr);
  }
  static json WithAddress(const char* address = "10.55.0.3") {
    json pod = PodObject(kPodUid);
    pod["status"]["podIPs"] = {{{"ip", address}}};
    pod["status"]["conditions"] = {{{"type", "PodReadyToStartContainers"}, {"status", "True"}}};
    return pod;
  }
  // Counts from now on the GETs of pods, and the most that come between two writes of blocks.
  void CountQuestions() {
    server_->SetFaults([this](const k8sclient::Request& request) {
      if (request.method == k8sclient::Method::kPatch) questions_ = 0;
      if (request.method == k8sclient::Method::kGet && request.path.starts_with(kPods)) ++questions_;
      questions_max_ = std::max(questions_max_, questions_);
      return ApiFault::kNone;
    });
  }

  int questions_ = 0;
  int questions_max_ = 0;
};

TEST_F(ControllerLostTest, TheControllerPutsTheEntryBackAndReportsIt) {
  Pass(seconds(59));
  EXPECT_EQ(Entry(), "");
  Pass(seconds(25));
  EXPECT_TRUE(Entry().starts_with(std::string("default/web ") + kPodUid + " 000000000000-1111111122223333 i=eth0 t="))
      << Entry();
  EXPECT_THAT(Events(), testing::Contains(std::string(kBlock) + " EntriesPutBack").Times(1));
  const std::string entry = Entry();
  Pass(seconds(300));
  EXPECT_EQ(Entry(), entry) << "written once";
  Delete(kPods, "web");
  SeeItVanish();
  Pass(seconds(60));
  EXPECT_TRUE(Entry().starts_with("~ ")) << "no DEL finds it, so it goes with its pod: " << Entry();
}

// Another pod's entry looks like an orphan, and the API server says that the pod lives: the controller then waits ten
// seconds before it tries to free the entry again.
TEST_F(ControllerLostTest, TheControllerPutsTheEntryBackThoughAnotherEntryMustNotBeFreed) {
  json other = PodObject("22222222-2222-3333-4444-555555555555");
  other["metadata"]["name"] = "other";
  server_->Put(kPods, other);
  SetEntry(kBlock, "5", "default/other 22222222-2222-3333-4444-555555555555 0123456789ab-00000000000000aa i=eth0 t=1");
  Pass(seconds(700));
  SetEntry(kBlock, "3", nullptr);
  Pass(seconds(150));
  EXPECT_TRUE(Entry().starts_with("default/web ")) << Entry();
  EXPECT_TRUE(EntryAt(kBlock, "5").starts_with("default/other ")) << "it lives";
}

TEST_F(ControllerLostTest, NoEntryIsPutBackIfThePodHasAnotherAddressNow) {
  server_->Put(kPods, WithAddress("10.55.0.9"));
  Pass(seconds(200));
  EXPECT_EQ(Entry(), "");
}

TEST_F(ControllerLostTest, NoEntryIsPutBackIfThePodIsGoneAndQuestionsGetRarer) {
  Delete(kPods, "web");
  CountQuestions();
  Pass(seconds(200));
  EXPECT_EQ(Entry(), "");
  EXPECT_GE(questions_max_, 1);
  EXPECT_LE(questions_max_, 20) << "though the watch still shows it";
}

// The controller's GET does not find the pod, but a pod counts as vanished only when the watch shows it.
TEST_F(ControllerLostTest, OnlyTheWatchMakesAPodCountAsVanished) {
  const std::string entry = kOrphan;
  SetEntry(kBlock, "5", entry.c_str());
  Delete(kPods, "web");
  Pass(seconds(200));
  EXPECT_EQ(EntryAt(kBlock, "5"), entry);
}

TEST_F(ControllerLostTest, NoEntryIsPutBackIfThePodsSandboxHasEnded) {
  json pod = WithAddress();
  pod["status"]["conditions"][0]["status"] = "False";
  server_->Put(kPods, pod);
  Pass(seconds(200));
  EXPECT_EQ(Entry(), "");
}

// The pod's old sandbox ended after that, and its DEL found nothing, because no sandbox has the entry's attachment.
TEST_F(ControllerLostTest, AnEntryThatWasPutBackIsFreedOnceThePodHasAnotherSandbox) {
  Pass(seconds(90));
  ASSERT_TRUE(Entry().contains(" 000000000000-")) << Entry();
  SetEntry(kBlock,
           "9",
           "default/web 11111111-2222-3333-4444-555555555555 0123456789ab-fedcba9876543210 i=eth0 t=1999999999000");
  server_->Put(kPods, WithAddress("10.55.0.9"));
  mailbox_->Put("default/web", ReadPod(WithAddress("10.55.0.9")).value());
  Pass(seconds(120));
  EXPECT_TRUE(Entry().starts_with("~ ")) << Entry();
  EXPECT_TRUE(EntryAt(kBlock, "9").starts_with("default/web "));
}

// An answer may take its time, and all questions for one block must be answered within the time limit of one request.
TEST_F(ControllerLostTest, AWholeBlockOfLostEntriesIsPutBackInSeveralWrites) {
  for (int i = 10; i < 60; ++i) {
    json pod = WithAddress(("10.55.0." + std::to_string(i)).c_str());
    pod["metadata"]["name"] = "web-" + std::to_string(i);
    pod["metadata"]["uid"] = "000000" + std::to_string(i) + "-2222-3333-4444-555555555555";
    server_->Put(kPods, pod);
    mailbox_->Put("default/web-" + std::to_string(i), ReadPod(pod).value());
  }
  CountQuestions();
  Pass(seconds(90));
  EXPECT_LE(questions_max_, 20);
  EXPECT_EQ(Object(crds::kBlocksPath, kBlock)["allocations"].size(), 51U)
      << "what the controller writes itself does not make it wait";
}

TEST_F(ControllerLostTest, AnAddressThatAnotherPodGotMeanwhileIsReportedOnceAndNotChanged) {
  SetEntry(kBlock, "3", kHeldEntry);
  Pass(seconds(40));
  EXPECT_EQ(Entry(), kHeldEntry);
  EXPECT_THAT(Events(), testing::Contains(std::string(kBlock) + " TwoHolders").Times(1));
  const auto status = ReadPool(Pool("web")).value().status;
  const crds::Condition* contested = crds::FindCondition(status.conditions, kContestedCondition);
  ASSERT_NE(contested, nullptr);
  EXPECT_EQ(contested->status, "True");
  EXPECT_THAT(contested->message, testing::HasSubstr("10.55.0.3: default/web on n1 has the address"));
  SetEntry(kBlock, "3", kOrphan);
  Pass(seconds(20));
  const auto after = ReadPool(Pool("web")).value().status;
  EXPECT_EQ(crds::FindCondition(after.conditions, kContestedCondition)->status, "False");
}

TEST_F(ControllerLostTest, TwoContestedAddressesOfOneBlockAreOneEvent) {
  json pod = WithAddress("10.55.0.4");
  pod["metadata"]["name"] = "other";
  pod["metadata"]["uid"] = "22222222-2222-3333-4444-555555555555";
  server_->Put(kPods, pod);
  mailbox_->Put("default/other", ReadPod(pod).value());
  SetEntry(kBlock, "3", kHeldEntry);
  SetEntry(kBlock, "4", kHeldEntry);
  Pass(seconds(40));
  std::vector<std::string> messages;
  for (const json& event : server_->Objects(std::string(kEventsPath))) {
    if (event["reason"] == "TwoHolders" && event["involvedObject"]["kind"] == "IPBlock") {
      messages.push_back(event["message"]);
    }
  }
  EXPECT_THAT(messages,
              testing::ElementsAre(testing::AllOf(testing::HasSubstr("10.55.0.3: default/web on n1"),
                                                  testing::HasSubstr("10.55.0.4: default/other on n1"))));
}

// A new leader begins with the condition that it finds.
TEST_F(ControllerLostTest, ANewLeaderKeepsTheConditionUntilItHasComparedPodsAndBlocks) {
  SetEntry(kBlock, "3", kHeldEntry);
  Pass(seconds(40));
  controller_ = std::make_unique<Controller>(*server_, server_clock_, *mailbox_, metrics_, settings_);
  mailbox_->Replace(std::map<PodKey, SeenPod>{{"default/web", ReadPod(WithAddress()).value()}});
  mailbox_->Replace(std::map<std::string, SeenNode>{{"n1", {.name = "n1", .is_ready = true}}});
  mailbox_->Replace(std::map<std::string, SeenLease>{{"n1", {.node = "n1", .renewed = "0"}}});
  for (int i = 0; i < 60; ++i) {
    Pass(seconds(1));
    const auto status = ReadPool(Pool("web")).value().status;
    ASSERT_EQ(crds::FindCondition(status.conditions, kContestedCondition)->status, "True") << i;
  }
}

TEST_F(ControllerOrphansTest, AnEntryFreedByAWriteWithALostAnswerIsReportedOnce) {
  Vanish();
  int patches = 0;
  server_->SetFaults([&patches](const k8sclient::Request& request) {
    const bool frees = request.method == k8sclient::Method::kPatch && request.path.ends_with(kBlock);
    return frees && ++patches == 1 ? ApiFault::kLostAfterCommit : ApiFault::kNone;
  });
  Pass(seconds(90));
  EXPECT_EQ(patches, 1);
  EXPECT_THAT(Events(), testing::Contains(std::string(kBlock) + " OrphansFreed").Times(1));
  EXPECT_THAT(metrics_.Text(), testing::HasSubstr("berth_controller_orphans_freed_total{why=\"pod-gone\"} 1"));
}

TEST_F(ControllerOrphansTest, AnEntryIsFreedDespiteLostAnswersAndLateWrites) {
  Vanish();
  int requests = 0;
  server_->SetFaults([&requests](const k8sclient::Request& request) {
    if (request.method != k8sclient::Method::kPatch) return ApiFault::kNone;
    return ++requests % 3 == 1 ? ApiFault::kLostAfterCommit
           : requests % 3 == 2 ? ApiFault::kLateCommit
                               : ApiFault::kNone;
  });
  Pass(seconds(90));
  server_->ReleaseLateWrites();
  EXPECT_TRUE(Entry().starts_with("~ ")) << Entry();
}

}  // namespace
}  // namespace berth::reconciler
