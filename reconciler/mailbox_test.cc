// SPDX-License-Identifier: Apache-2.0
// Mailbox: the world gets what the watches showed last, in whatever order it arrives.
#include "reconciler/mailbox.h"

#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "reconciler/world_test_setup.h"

namespace berth::reconciler {
namespace {

SeenReservation Named(const std::string& name) { return {.name = name, .space = "default"}; }

std::vector<std::string> Names(const World& world) {
  std::vector<std::string> names;
  for (const auto& [name, reservation] : world.reservations) names.push_back(name);
  return names;
}

TEST(Mailbox, ReplaceRemovesTheObjectsThatTheListLacks) {
  Mailbox mailbox;
  World world;
  mailbox.Put("a", Named("a"));
  mailbox.FetchInto(world, {});
  mailbox.Replace(std::map<std::string, SeenReservation>{{"b", Named("b")}});
  mailbox.FetchInto(world, {});
  EXPECT_EQ(Names(world), std::vector<std::string>{"b"});
}

TEST(Mailbox, ChangesAfterAListApplyToTheList) {
  Mailbox mailbox;
  World world;
  mailbox.Put("lost", Named("lost"));
  mailbox.Replace(std::map<std::string, SeenReservation>{{"a", Named("a")}, {"b", Named("b")}});
  mailbox.Remove<SeenReservation>("a");
  mailbox.Put("c", Named("c"));
  mailbox.FetchInto(world, {});
  EXPECT_EQ(Names(world), (std::vector<std::string>{"b", "c"}));
}

TEST(Mailbox, KeepsTheLaterOfTwoChangesOfOneObject) {
  Mailbox mailbox;
  World world;
  mailbox.Put("a", Named("a"));
  mailbox.Remove<SeenReservation>("a");
  mailbox.FetchInto(world, {});
  EXPECT_TRUE(world.reservations.empty());
  mailbox.Remove<SeenReservation>("a");
  mailbox.Put("a", Named("a"));
  mailbox.FetchInto(world, {});
  EXPECT_EQ(Names(world), std::vector<std::string>{"a"});
}

TEST(Mailbox, IsLoadedWhenEveryKindWasListedEvenIfAllListsAreEmpty) {
  Mailbox mailbox;
  World world;
  mailbox.Replace(std::map<std::string, SeenReservation>());
  mailbox.Replace(std::map<std::string, SeenPool>());
  mailbox.Replace(std::map<std::string, crds::Space>());
  mailbox.FetchInto(world, {});
  EXPECT_FALSE(mailbox.IsLoaded());
  mailbox.Replace(std::map<std::string, SeenBlock>());
  EXPECT_TRUE(mailbox.IsLoaded());
  mailbox.FetchInto(world, {});
  EXPECT_TRUE(mailbox.IsLoaded()) << "fetching must not forget it";
}

TEST(Mailbox, TheBlockSetChangesOnlyWithItsMembers) {
  TestWorld t;
  t.Block("10.55.0.0/26", "web", {});
  const SeenBlock block = t.world.blocks().at("10.55.0.0-26");
  Mailbox mailbox;
  World world;
  mailbox.Replace(std::map<std::string, SeenBlock>{{block.name, block}});
  mailbox.FetchInto(world, {});
  const std::uint64_t version = world.block_set_version();
  mailbox.Put(block.name, block);
  mailbox.FetchInto(world, {});
  EXPECT_EQ(world.block_set_version(), version);
  mailbox.Replace(std::map<std::string, SeenBlock>{{block.name, block}});
  mailbox.FetchInto(world, {});
  EXPECT_EQ(world.block_set_version(), version);
  mailbox.Replace(std::map<std::string, SeenBlock>());
  mailbox.FetchInto(world, {});
  EXPECT_GT(world.block_set_version(), version);
  EXPECT_TRUE(world.blocks().empty());
}

TEST(Mailbox, ABlockThatWasDeletedAndCreatedAgainChangesTheBlockSet) {
  TestWorld t;
  t.Block("10.55.0.0/26", "web", {});
  const std::uint64_t version = t.world.block_set_version();
  SeenBlock other = t.world.blocks().at("10.55.0.0-26");
  other.uid = "another";
  t.world.PutBlock(other);
  EXPECT_GT(t.world.block_set_version(), version);
}

TEST(Mailbox, TheWatchDoesNotBringBackAnOlderVersionOfABlock) {
  TestWorld t;
  t.Block("10.55.0.0/26", "web", {{3, kHeldEntry}});
  const SeenBlock older = t.world.blocks().at("10.55.0.0-26");
  t.Block("10.55.0.0/26", "web", {});  // the answer to a write
  Mailbox mailbox;
  mailbox.Put(older.name, older);
  mailbox.FetchInto(t.world, {});
  EXPECT_EQ(t.world.blocks().at(older.name).entries.held, 0U);
}

TEST(Mailbox, AListBringsBackOlderVersionsBecauseABackupMayHaveBeenRestored) {
  TestWorld t;
  t.Block("10.55.0.0/26", "web", {{3, kHeldEntry}});
  const SeenBlock older = t.world.blocks().at("10.55.0.0-26");
  t.Block("10.55.0.0/26", "web", {});
  Mailbox mailbox;
  mailbox.Replace(std::map<std::string, SeenBlock>{{older.name, older}});
  mailbox.FetchInto(t.world, {});
  EXPECT_EQ(t.world.blocks().at(older.name).entries.held, 1U);
}

TEST(Mailbox, ALateDeletionDoesNotRemoveABlockThatWasCreatedAgain) {
  TestWorld t;
  t.Block("10.55.0.0/26", "web", {});
  const std::string name = "10.55.0.0-26";
  const std::uint64_t older = VersionOf(t.world.blocks().at(name));
  t.Block("10.55.0.0/26", "web", {});  // the answer to a request of the controller
  Mailbox mailbox;
  mailbox.Remove<SeenBlock>(name, older);
  mailbox.FetchInto(t.world, {});
  ASSERT_TRUE(t.world.blocks().contains(name));
  mailbox.Remove<SeenBlock>(name, VersionOf(t.world.blocks().at(name)) + 1);
  mailbox.FetchInto(t.world, {});
  EXPECT_FALSE(t.world.blocks().contains(name));
}

// The watch's view was on its way when the controller wrote.
TEST(Mailbox, IgnoresAVersionOfANodeOlderThanTheControllersWrite) {
  const SteadyTime start{};
  Mailbox mailbox;
  World world;
  const Nodes& nodes = world.nodes;
  const auto node = [](const char* version, std::map<std::string, ShownNumber> numbers) {
    return SeenNode{.name = "n1", .uid = "u", .resource_version = version, .numbers = std::move(numbers)};
  };
  const auto show = [&](SeenNode seen, std::chrono::seconds after) {
    mailbox.Put("n1", std::move(seen));
    mailbox.FetchInto(world, start + after);
  };
  show(node("5", {}), std::chrono::seconds(0));
  world.nodes.PutWritten(node("7", {{"ipv4", {8, 8}}}));
  EXPECT_TRUE(nodes.WasShown("n1", "ipv4"));
  show(node("6", {}), std::chrono::seconds(10));
  EXPECT_FALSE(nodes.AbsentSince("n1", "ipv4")) << "it was not there yet";
  world.nodes.PutWritten(node("9", {}));
  show(node("7", {{"ipv4", {8, 8}}}), std::chrono::seconds(21));
  EXPECT_FALSE(nodes.AbsentSince("n1", "ipv4")) << "the scheduler may still go by it";
  show(node("9", {}), std::chrono::seconds(25));
  EXPECT_EQ(nodes.AbsentSince("n1", "ipv4"), start + std::chrono::seconds(25));
  show(node("7", {{"ipv4", {8, 8}}}), std::chrono::hours(1));
  EXPECT_TRUE(nodes.Find("n1")->numbers.empty()) << "a watch may lag for long";
  // After a restored backup, versions are lower.
  mailbox.Replace(std::map<std::string, SeenNode>{{"n1", node("2", {{"ipv4", {4, 4}}})}});
  mailbox.FetchInto(world, start + std::chrono::seconds(26));
  EXPECT_EQ(nodes.Find("n1")->numbers.at("ipv4").capacity, 4);
}

TEST(Mailbox, WakesTheWaitingThread) {
  Mailbox mailbox;
  const std::jthread sender([&] { mailbox.Put("a", Named("a")); });
  EXPECT_TRUE(mailbox.WaitUntil(std::chrono::steady_clock::now() + std::chrono::minutes(1), {}));
  World world;
  mailbox.FetchInto(world, {});
  EXPECT_EQ(Names(world), std::vector<std::string>{"a"});
}

TEST(Mailbox, StopsWaitingWhenStopIsRequested) {
  Mailbox mailbox;
  std::stop_source stop;
  const std::jthread other([&] { stop.request_stop(); });
  EXPECT_FALSE(mailbox.WaitUntil(std::chrono::steady_clock::now() + std::chrono::minutes(1), stop.get_token()));
}

SeenPod PodNamed(const std::string& name, const std::string& uid) {
  return {.name_space = "default", .name = name, .uid = uid, .node = "n1", .grace = std::chrono::seconds(5)};
}

std::chrono::seconds GraceOf(const World& world, const PastPod& pod) {
  const VanishedPod* const vanished = world.pods.FindVanished(pod);
  return vanished == nullptr ? std::chrono::seconds(-1) : vanished->grace;
}
// The known state of the sandbox of the pod u-1, which vanished.
SandboxAtEnd SandboxOf(const World& world) { return world.pods.FindVanished({"default/web", "u-1"})->sandbox; }

TEST(Mailbox, APodThatCameAndWentBetweenTwoFetchesCountsAsVanished) {
  Mailbox mailbox;
  World world;
  mailbox.Replace(std::map<PodKey, SeenPod>{{"default/web", PodNamed("web", "u-1")}});
  mailbox.ObserveDeletion(PodNamed("web", "u-1"));
  mailbox.Put("default/web", PodNamed("web", "u-2"));
  mailbox.FetchInto(world, {});
  EXPECT_EQ(world.pods.Find("default/web")->uid, "u-2");
  EXPECT_EQ(GraceOf(world, {"default/web", "u-1"}), std::chrono::seconds(5));
  EXPECT_EQ(world.pods.FindVanished({"default/web", "u-2"}), nullptr);
}

// The kubelet may have reported the end of the sandbox just before the deletion.
TEST(Mailbox, TheLastStateOfAPodSaysWhetherItHadASandboxAtItsDeletion) {
  for (const bool had_sandbox : {false, true}) {
    Mailbox mailbox;
    World world;
    SeenPod pod = PodNamed("web", "u-1");
    pod.has_sandbox = pod.is_terminal = !had_sandbox;
    mailbox.Replace(std::map<PodKey, SeenPod>{{"default/web", pod}});
    mailbox.FetchInto(world, {});
    pod.has_sandbox = had_sandbox;
    mailbox.ObserveDeletion(pod);
    mailbox.FetchInto(world, {});
    EXPECT_EQ(SandboxOf(world), had_sandbox ? SandboxAtEnd::kRunning : SandboxAtEnd::kEnded);
  }
}

// Until the images are pulled, some kubelets report no sandbox; and a kubelet may make a sandbox anew. If the watch
// missed changes, the scheduler may have bound the pod meanwhile.
TEST(Mailbox, APodThatVanishesBeforeItsEndMayHaveASandboxThatWasNotReported) {
  for (const bool is_seen : {false, true}) {
    for (const bool is_bound : {false, true}) {
      Mailbox mailbox;
      World world;
      SeenPod pod = PodNamed("web", "u-1");
      if (!is_bound) pod.node.clear();
      mailbox.Replace(std::map<PodKey, SeenPod>{{"default/web", pod}});
      mailbox.FetchInto(world, {});
      if (is_seen) {
        mailbox.ObserveDeletion(pod);
      } else {
        mailbox.Replace(std::map<PodKey, SeenPod>{});
      }
      mailbox.FetchInto(world, {});
      const SandboxAtEnd of_seen = is_bound ? SandboxAtEnd::kRunning : SandboxAtEnd::kEnded;
      EXPECT_EQ(SandboxOf(world), is_seen ? of_seen : SandboxAtEnd::kUnseen) << is_bound;
    }
  }
}

TEST(Mailbox, TheEndOfTheSandboxIsUnknownForAPodThatAListLacks) {
  for (const auto& [is_fetched, had_sandbox] : {std::pair(false, true), {true, true}, {false, false}, {true, false}}) {
    Mailbox mailbox;
    World world;
    SeenPod pod = PodNamed("web", "u-1");
    pod.has_sandbox = had_sandbox;
    pod.is_terminal = !had_sandbox;
    mailbox.Replace(std::map<PodKey, SeenPod>{{"default/web", pod}});
    if (is_fetched) mailbox.FetchInto(world, {});
    mailbox.Replace(std::map<PodKey, SeenPod>{});
    mailbox.FetchInto(world, {});
    EXPECT_EQ(SandboxOf(world), had_sandbox ? SandboxAtEnd::kUnseen : SandboxAtEnd::kEnded);
  }
}

TEST(Mailbox, APodThatOnlyTheFirstOfTwoListsHadCountsAsVanished) {
  Mailbox mailbox;
  World world;
  mailbox.Replace(std::map<PodKey, SeenPod>{{"default/a", PodNamed("a", "u-1")}, {"default/b", PodNamed("b", "u-2")}});
  mailbox.Replace(std::map<PodKey, SeenPod>{{"default/b", PodNamed("b", "u-3")}});
  mailbox.FetchInto(world, {});
  EXPECT_EQ(GraceOf(world, {"default/a", "u-1"}), std::chrono::seconds(5));
  EXPECT_EQ(GraceOf(world, {"default/b", "u-2"}), std::chrono::seconds(5)) << "another has its name";
  EXPECT_EQ(world.pods.FindVanished({"default/b", "u-3"}), nullptr);
}

TEST(Mailbox, HoldersAreKnownOncePodsNodesAndLeasesWereListed) {
  Mailbox mailbox;
  World world;
  mailbox.Replace(std::map<PodKey, SeenPod>{});
  mailbox.Replace(std::map<std::string, SeenNode>{});
  mailbox.FetchInto(world, {});
  EXPECT_FALSE(world.knows_holders);
  mailbox.Replace(std::map<std::string, SeenLease>{});
  mailbox.FetchInto(world, {});
  EXPECT_TRUE(world.knows_holders);
}

TEST(Mailbox, TheSuccessorsVersionIsFromBeforeTheFirstRecentDeletion) {
  using std::chrono::seconds;
  Mailbox mailbox;
  World world;
  const auto at = [](int s) { return SteadyTime(seconds(s)); };
  mailbox.Replace<SeenPod>({{"default/a", PodNamed("a", "u-1")}, {"default/b", PodNamed("b", "u-2")}}, 100);
  mailbox.FetchInto(world, at(0));
  mailbox.ObserveDeletion(PodNamed("a", "u-1"), 110);
  mailbox.FetchInto(world, at(10));
  mailbox.ObserveDeletion(PodNamed("b", "u-2"), 120);
  mailbox.FetchInto(world, at(20));
  EXPECT_EQ(world.pods.VersionToBeginWith(at(5)), 100U);
  EXPECT_EQ(world.pods.VersionToBeginWith(at(15)), 110U);
  EXPECT_EQ(world.pods.VersionToBeginWith(at(25)), 120U);
}

// The next leader watches from there. Otherwise it would take each of these pods for one whose deletion nobody saw.
TEST(Mailbox, APodThatVanishedBeforeTheFirstFetchExistedAtTheFirstList) {
  Mailbox mailbox;
  World world;
  mailbox.Replace<SeenPod>({{"default/a", PodNamed("a", "u-1")}}, 100);
  mailbox.ObserveDeletion(PodNamed("a", "u-1"), 110);
  mailbox.FetchInto(world, {});
  EXPECT_EQ(world.pods.VersionOfVanished({"default/a", "u-1"}, {}), 100U);
  EXPECT_EQ(world.pods.version(), 110U);
}

TEST(Mailbox, ChangesOfPodsWakeTheThreadAfterAPause) {
  Mailbox mailbox;
  mailbox.Put("default/web", PodNamed("web", "u-1"));
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_TRUE(mailbox.WaitUntil(begin + std::chrono::minutes(1), {}));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, kLowPriorityPause);
}

TEST(Mailbox, ReturnsAtTheDeadline) {
  Mailbox mailbox;
  EXPECT_TRUE(mailbox.WaitUntil(std::chrono::steady_clock::now(), {}));
}

}  // namespace
}  // namespace berth::reconciler
