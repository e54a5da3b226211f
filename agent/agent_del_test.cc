// SPDX-License-Identifier: Apache-2.0
// Tests Agent on an API server in memory: how DEL and GC free addresses, at once, later, and after a restart.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <latch>
#include <mutex>
#include <string>
#include <sys/inotify.h>
#include <unistd.h>
#include <vector>

#include "agent/agent.h"
#include "agent/agent_test_setup.h"
#include "agent/disk_test_setup.h"
#include "node/del_queue.h"
#include "node/held_file.h"

namespace berth::agent {
namespace {

// Counts how often this process lists a folder, with inotify(7).
class FolderLists {
 public:
  explicit FolderLists(const std::string& folder) : events_(inotify_init1(IN_CLOEXEC | IN_NONBLOCK)) {
    EXPECT_GE(inotify_add_watch(events_.descriptor(), folder.c_str(), IN_OPEN | IN_CLOSE | IN_ONLYDIR), 0);
  }

  // Returns the number of lists since the last call of Take.
  int Take() {
    int lists = 0;
    // Without IN_CLOSE between them, the kernel would merge two IN_OPEN.
    alignas(inotify_event) std::array<char, 4096> buffer{};
    for (ssize_t got = 0; (got = read(events_.descriptor(), buffer.data(), buffer.size())) > 0;) {
      for (ssize_t at = 0; at < got;) {
        const auto* const event = reinterpret_cast<const inotify_event*>(buffer.data() + at);
        at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
        const bool is_of_folder = (event->mask & IN_ISDIR) != 0 && event->len == 0;
        if (is_of_folder && (event->mask & IN_OPEN) != 0) ++lists;
      }
    }
    return lists;
  }

 private:
  node::HeldFile events_;
};

TEST_F(AgentTest, ADelRemovesTheEntry) {
  StartAgent();
  ASSERT_TRUE(Add("c1").ok);
  ASSERT_TRUE(Del("c1").ok);
  Await([this] { return Held().empty(); }, "the DEL is written");
}

TEST_F(AgentTest, DelIsAnsweredBeforeItIsWritten) {
  StartAgent();
  ASSERT_TRUE(Add("c1").ok);
  std::latch may_write(1);
  api_.SetFaults([&may_write](const k8sclient::Request& request) {
    if (request.method == k8sclient::Method::kPatch) may_write.wait();
    return ApiFault::kNone;
  });
  EXPECT_TRUE(Del("c1").ok);
  EXPECT_EQ(Held().size(), 1U);
  may_write.count_down();
  Await([this] { return Held().empty(); }, "the DEL is written");
}

TEST_F(AgentTest, ADelThatWasAnsweredAndNotWrittenSurvivesTheAgent) {
  StartAgent();
  ASSERT_TRUE(Add("c1").ok);
  ASSERT_TRUE(Del("c1").ok);
  agent_.reset();
  StartAgent();
  Await([this] { return Held().empty(); }, "the DEL is written");
}

TEST_F(AgentTest, AnAddAndADelListTheFolderOfIntentsOnceEach) {
  StartAgent();
  ASSERT_TRUE(Add("c0").ok);
  FolderLists lists(run_dir() + "/nodes/n1/intents");
  for (const std::string pool : {"p1", "shared"}) {
    SCOPED_TRACE("pool " + pool);
    ASSERT_TRUE(Add("c1", pool).ok);
    EXPECT_EQ(lists.Take(), 1) << "an ADD";
    ASSERT_TRUE(Del("c1").ok);
    EXPECT_EQ(lists.Take(), 1) << "a DEL";
    ASSERT_TRUE(Del("unknown").ok);
    EXPECT_EQ(lists.Take(), 1) << "a DEL of an attachment that holds nothing";
  }
}

TEST_F(AgentTest, ThePatchOfAnAddCarriesEarlierDels) {
  StartAgent();
  ASSERT_TRUE(Add("c0").ok);
  const int before = api_.CountOf(k8sclient::Method::kPatch);
  constexpr int kRounds = 20;
  for (int i = 0; i < kRounds; ++i) {
    ASSERT_TRUE(Del("c" + std::to_string(i)).ok);
    ASSERT_TRUE(Add("c" + std::to_string(i + 1)).ok);
    ASSERT_EQ(Held().size(), 1U);
  }
  // Not every DEL shares a patch: if this thread is slow, the DEL gets a patch of its own.
  EXPECT_LT(api_.CountOf(k8sclient::Method::kPatch) - before, 2 * kRounds);
}

TEST_F(AgentTest, AnAddMayTakeAnAddressThatAnEarlierDelFreed) {
  PutPool("tiny", "10.77.0.0/30", "Node");
  StartAgent();
  ASSERT_TRUE(Add("c1", "tiny").ok);
  ASSERT_TRUE(Add("c2", "tiny").ok);
  ASSERT_FALSE(Add("c3", "tiny").ok);
  ASSERT_TRUE(Del("c1").ok);
  EXPECT_TRUE(Add("c3", "tiny").ok);
}

TEST_F(AgentTest, CheckAfterADelSaysThatNothingIsHeld) {
  StartAgent();
  const std::string added = Add("c1").body;
  auto body = nlohmann::json::parse(Body("CHECK", "c1"));
  body["config"]["prevResult"] = nlohmann::json::parse(added);
  ASSERT_TRUE(agent_->Handle(body.dump()).ok);
  ASSERT_TRUE(Del("c1").ok);
  EXPECT_EQ(nlohmann::json::parse(agent_->Handle(body.dump()).body)["code"], 103) << "it holds nothing";
}

TEST_F(AgentTest, CheckAfterADelThatHasStillToBeWrittenSaysThatNothingIsHeld) {
  StartAgent();
  const std::string added = Add("c1").body;
  auto body = nlohmann::json::parse(Body("CHECK", "c1"));
  body["config"]["prevResult"] = nlohmann::json::parse(added);
  api_.SetFaults([](const k8sclient::Request&) { return ApiFault::kUnavailable; });
  ASSERT_TRUE(Del("c1").ok);
  EXPECT_TRUE(agent_->Handle(body.dump()).body.contains("\"code\":103")) << "the API server is away";
  api_.SetFaults(nullptr);
  Await([this] { return Held().empty(); }, "the DEL is written");
  EXPECT_TRUE(agent_->Handle(body.dump()).body.contains("\"code\":103"));
}

TEST_F(AgentTest, DelOfAnUnknownContainerSucceeds) {
  StartAgent();
  EXPECT_TRUE(Del("c1").ok);
}

TEST_F(AgentTest, DelsOfUnknownContainersListSharedBlocksAtMostTwice) {
  StartAgent();
  std::atomic<int> lists = 0;
  api_.SetFaults([&lists](const k8sclient::Request& request) {
    if (IsListOfSharedBlocks(request)) ++lists;
    return ApiFault::kNone;
  });
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(Del("c" + std::to_string(i)).ok);
  EXPECT_LE(lists.load(), 2);
}

TEST_F(AgentTest, AnAddressOfASharedBlockIsFoundAfterDelsOfUnknownContainers) {
  StartAgent();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(Del("unknown" + std::to_string(i)).ok);
  ASSERT_TRUE(Add("c1", "shared").ok);
  ASSERT_TRUE(Del("c1").ok);
  EXPECT_TRUE(Held().empty());
}

TEST_F(AgentTest, AnAddOlderThanADelIsRefused) {
  StartAgent();
  const std::int64_t before = node::BootTimeNow();
  ASSERT_TRUE(Del("c1").ok);
  EXPECT_FALSE(agent_->Handle(Body("ADD", "c1", "p1", before)).ok);
  EXPECT_TRUE(Held().empty());
}

TEST_F(AgentTest, AnAddNewerThanADelIsServed) {
  StartAgent();
  ASSERT_TRUE(Del("c1").ok);
  EXPECT_TRUE(Add("c1").ok);
}

TEST_F(AgentTest, TheMarkOfADelSurvivesARestart) {
  StartAgent();
  const std::int64_t before = node::BootTimeNow();
  ASSERT_TRUE(Del("c1").ok);
  agent_.reset();
  StartAgent();
  EXPECT_FALSE(agent_->Handle(Body("ADD", "c1", "p1", before)).ok);
}

// The agent's knowledge of Shared blocks must not be older than a write whose answer it never saw.
TEST_F(AgentTest, ADelFreesTheAddressOfASharedBlockWhosePostLostItsAnswer) {
  StartAgent();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(Del("unknown" + std::to_string(i)).ok);
  std::atomic<bool> is_lost = false;
  api_.SetFaults([&is_lost](const k8sclient::Request& request) {
    const bool is_first = request.method == k8sclient::Method::kPost && !is_lost.exchange(true);
    return is_first ? ApiFault::kLostAfterCommit : ApiFault::kNone;
  });
  ASSERT_TRUE(Add("c1", "shared").ok);
  ASSERT_TRUE(is_lost);
  ASSERT_TRUE(Del("c1").ok);
  EXPECT_TRUE(Held().empty());
}

TEST_F(AgentTest, ADelFreesTheAddressOfASharedBlockWhosePatchLostItsAnswer) {
  StartAgent();
  ASSERT_TRUE(Add("c1", "shared").ok);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(Del("unknown" + std::to_string(i)).ok);
  FailPatches({ApiFault::kLostAfterCommit});
  ASSERT_TRUE(Add("c2", "shared").ok);
  ASSERT_TRUE(Del("c2").ok);
  EXPECT_EQ(Held().size(), 1U);
}

TEST_F(AgentTest, ADelInDoubtThatIsRefusedKeepsNoOtherDelWaiting) {
  StartAgent();
  for (const std::string pod : {"c1", "c2", "c3", "c4"}) ASSERT_TRUE(Add(pod, pod == "c1" ? "shared" : "p1").ok);
  std::atomic<int> patches = 0;
  api_.SetFaults([&patches](const k8sclient::Request& request) {
    if (request.method != k8sclient::Method::kPatch || !request.path.contains("10.66.0.0")) return ApiFault::kNone;
    return ++patches == 1 ? ApiFault::kLateCommit : ApiFault::kInvalid;
  });
  for (const char* const pod : {"c1", "c2", "c3", "c4"}) EXPECT_TRUE(Del(pod).ok);
  Await([this] { return Held().size() == 1; }, "the other DELs are written");
  api_.SetFaults(nullptr);
}

// If the API server's cache lags, an answer from it may be older than the entry.
TEST_F(AgentTest, AFailedDelOfASharedBlockUsesNoOlderList) {
  StartAgent();
  ASSERT_TRUE(Add("first", "shared").ok);
  std::mutex mutex;
  std::uint64_t oldest = UINT64_MAX;
  int gets = 0;
  int patches = 0;
  api_.SetFaults([&](const k8sclient::Request& request) {
    const std::scoped_lock lock(mutex);
    if (IsListOfSharedBlocks(request)) {
      for (const auto& [name, value] : request.query) {
        if (name == "resourceVersion") oldest = std::min<std::uint64_t>(oldest, std::stoull(value));
      }
    }
    if (request.path.starts_with(kBlocks + "/") && request.method == k8sclient::Method::kGet) {
      return gets++ == 0 ? ApiFault::kUnavailable : ApiFault::kNone;
    }
    if (request.method != k8sclient::Method::kPatch) return ApiFault::kNone;
    ++patches;
    if (patches > 2) return ApiFault::kNone;
    return patches == 1 ? ApiFault::kLostAfterCommit : ApiFault::kUnavailable;
  });
  ASSERT_FALSE(Add("c2", "shared").ok);
  ASSERT_EQ(Held().size(), 2U);
  const std::uint64_t version = std::stoull(api_.Objects(kBlocks)[0]["metadata"]["resourceVersion"].get<std::string>());
  {
    const std::scoped_lock lock(mutex);
    oldest = UINT64_MAX;
  }
  ASSERT_TRUE(Del("c2").ok);
  Await([this] { return Held().size() == 1; }, "the DEL is written");
  api_.SetFaults(nullptr);
  agent_.reset();  // ends the thread that replays the journal, which may still use the function of the faults
  EXPECT_GE(oldest, version);
}

TEST_F(AgentTest, DelIsAnsweredWhileTheApiServerIsAwayAndWrittenLater) {
  StartAgent();
  ASSERT_TRUE(Add("c1").ok);
  api_.SetFaults([](const k8sclient::Request&) { return ApiFault::kUnavailable; });
  EXPECT_TRUE(Del("c1").ok);
  EXPECT_EQ(Held().size(), 1U);
  api_.SetFaults(nullptr);
  Await([this] { return Held().empty(); }, "the journalled DEL is written");
}

// If each failed request woke the maintenance loop, the agent would send a patch every 20 ms.
TEST_F(AgentTest, TriesAJournalledDelAgainAfterASecondIfItsPatchFailsAtOnce) {
  StartAgent();
  ASSERT_TRUE(Add("c1").ok);
  std::mutex mutex;
  std::vector<std::chrono::steady_clock::time_point> patches;
  api_.SetFaults([&](const k8sclient::Request& request) {
    if (request.method != k8sclient::Method::kPatch) return ApiFault::kNone;
    const std::scoped_lock lock(mutex);
    patches.push_back(std::chrono::steady_clock::now());
    return ApiFault::kUnavailable;
  });
  ASSERT_TRUE(Del("c1").ok);
  const auto count = [&] {
    const std::scoped_lock lock(mutex);
    return patches.size();
  };
  Await(
      [&] {
        PutPool("other", "10.77.0.0/24", "Node");  // each change of a pool wakes the loop
        return count() >= 4;
      },
      "the agent has tried again three times");
  api_.SetFaults(nullptr);
  agent_.reset();  // ends the thread that may still use the function of the faults
  // The first repetition comes with the pass that is due anyway.
  EXPECT_GE(patches[3] - patches[1], std::chrono::seconds(1));
}

TEST_F(AgentTest, DoesNotJournalADelOfAnAttachmentWithoutAddress) {
  StartAgent();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(Del("unknown" + std::to_string(i)).ok);
  api_.SetFaults([](const k8sclient::Request&) { return ApiFault::kUnavailable; });
  ASSERT_FALSE(Add("c1").ok);
  ASSERT_TRUE(Del("c1").ok);
  EXPECT_TRUE(nlohmann::json::parse(agent_->DebugBlocks())["journal"].empty());
}

TEST_F(AgentTest, ALongJournalIsWrittenWithFewRequests) {
  StartAgent();
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(Add("c" + std::to_string(i)).ok);
  api_.SetFaults([](const k8sclient::Request&) { return ApiFault::kUnavailable; });
  // Half of the containers have an address.
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(Del("c" + std::to_string(i)).ok);
  const int patches = api_.CountOf(k8sclient::Method::kPatch);
  std::atomic<int> lists = 0;
  api_.SetFaults([&lists](const k8sclient::Request& request) {
    if (IsListOfSharedBlocks(request)) ++lists;
    return ApiFault::kNone;
  });
  Await([this] { return Held().empty(); }, "the journal is written");
  EXPECT_LE(api_.CountOf(k8sclient::Method::kPatch) - patches, 25) << "one for each of the 50 that held an address";
  EXPECT_LE(lists.load(), 2);
}

TEST_F(AgentTest, AJournalledDelSurvivesARestart) {
  StartAgent();
  ASSERT_TRUE(Add("c1").ok);
  api_.SetFaults([](const k8sclient::Request&) { return ApiFault::kUnavailable; });
  ASSERT_TRUE(Del("c1").ok);
  agent_.reset();
  api_.SetFaults(nullptr);
  StartAgent();
  Await([this] { return Held().empty(); }, "the journalled DEL is written");
}

// The caller may have the answer, and may have ended, before the agent's thread has returned from sending it.
TEST_F(AgentTest, AGcFreesAnAddressThatWasAnsweredBeforeTheList) {
  StartAgent();
  const Reply still_delivering = Add("c1");
  ASSERT_TRUE(still_delivering.ok);
  // The list was made later than the ADD, whatever the resolution of the clock.
  auto body = nlohmann::json::parse(Body("GC", "", "p1", node::BootTimeNow() + 1'000'000'000));
  body["config"]["cni.dev/valid-attachments"] = nlohmann::json::array();
  ASSERT_TRUE(agent_->Handle(body.dump()).ok);
  EXPECT_EQ(Held().size(), 0U);
}

TEST_F(AgentTest, ABlockThatCannotBeWrittenLeavesGarbageCollectionTimeForTheOthers) {
  PutPool("p2", "10.77.0.0/24", "Node");
  StartAgent();
  ASSERT_TRUE(Add("c1", "p1").ok);
  ASSERT_TRUE(Add("c2", "p2").ok);
  api_.SetFaults([](const k8sclient::Request& request) {
    const bool is_lost =
        request.method == k8sclient::Method::kPatch && request.path.find("/10.55.") != std::string::npos;
    return is_lost ? ApiFault::kLateCommit : ApiFault::kNone;
  });
  auto body = nlohmann::json::parse(Body("GC", "", "p1", node::BootTimeNow() + 1'000'000'000, /*timeout_s=*/8));
  body["config"]["cni.dev/valid-attachments"] = nlohmann::json::array();
  EXPECT_FALSE(agent_->Handle(body.dump()).ok);
  const auto held = Held();
  ASSERT_EQ(held.size(), 1U);
  EXPECT_TRUE(held.begin()->starts_with("10.55.")) << *held.begin();
}

TEST_F(AgentTest, ADelIsWrittenBeforeItsAnswerIfTheJournalTakesNoLine) {
  StartAgent();
  ASSERT_TRUE(Add("c1").ok);
  TestDisk::is_full = true;
  const Reply reply = Del("c1");
  EXPECT_TRUE(reply.ok) << reply.body;
  EXPECT_TRUE(Held().empty());
  ASSERT_TRUE(Add("c2").ok);
  api_.SetFaults([](const k8sclient::Request&) { return ApiFault::kUnavailable; });
  EXPECT_FALSE(agent_->Handle(Body("DEL", "c2", "p1", node::BootTimeNow(), 1)).ok) << "nothing records this DEL";
  TestDisk::is_full = false;
}

// For example, a full tmpfs at /run.
TEST_F(AgentTest, ADelSucceedsWhileTheRunFolderIsFull) {
  StartAgent();
  ASSERT_TRUE(Add("c1").ok);
  ASSERT_TRUE(Add("c2", "shared").ok);
  ASSERT_TRUE(Add("queued").ok);
  TestDisk::is_run_full = true;
  const Reply of_node_block = Del("c1");
  EXPECT_TRUE(of_node_block.ok) << of_node_block.body;
  const Reply of_shared_block = Del("c2");
  EXPECT_TRUE(of_shared_block.ok) << of_shared_block.body;
  {
    const auto queue = node::DelQueue::Lock(node::Folder::Open(state_dir()).value(), /*deadline=*/0);
    ASSERT_TRUE(queue->Add(Body("DEL", "queued")));
  }
  Await([this] { return Held().size() == 1; }, "all but the DEL of a Shared block, which needs an intent, are written");
  TestDisk::is_run_full = false;
  Await([this] { return Held().empty(); }, "the DEL of the Shared block is written");
}

TEST_F(AgentTest, AnUndeliveredAddressIsGivenBack) {
  StartAgent();
  const Reply reply = Add("c1");
  ASSERT_TRUE(reply.take_back);
  reply.take_back();
  EXPECT_TRUE(Held().empty());
}

// The agent needs the journal only if it cannot write the block.
TEST_F(AgentTest, AnUndeliveredAddressIsGivenBackWhileTheJournalCannotBeWritten) {
  StartAgent();
  const Reply reply = Add("c1");
  ASSERT_TRUE(reply.take_back);
  TestDisk::syncs_fail = true;
  reply.take_back();
  TestDisk::syncs_fail = false;
  EXPECT_TRUE(Held().empty());
}

// A container uses the IPv4 address since the first ADD.
TEST_F(AgentTest, AnUndeliveredAnswerFreesNoAddressThatAnEarlierAddWasTold) {
  PutPool("p6", "fd00:55::/120", "Node", 122);
  StartAgent();
  ASSERT_TRUE(Add("c1").ok);
  const auto told = Held();
  auto body = nlohmann::json::parse(Body("ADD", "c1"));
  body["config"]["ipam"]["pools"] = {"p1", "p6"};
  const Reply repeated = agent_->Handle(body.dump());
  ASSERT_TRUE(repeated.ok) << repeated.body;
  ASSERT_EQ(Held().size(), 2U);
  if (repeated.take_back) repeated.take_back();
  EXPECT_TRUE(Held().contains(*told.begin()));
}

TEST_F(AgentTest, ARefusedJournalledDelDoesNotDelayOtherDels) {
  PutPool("p2", "10.77.0.0/24", "Node");
  StartAgent();
  ASSERT_TRUE(Add("refused", "p2").ok);
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(Add("c" + std::to_string(i)).ok);
  api_.SetFaults([](const k8sclient::Request&) { return ApiFault::kUnavailable; });
  ASSERT_TRUE(Del("refused").ok);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(Del("c" + std::to_string(i)).ok);
  api_.SetFaults([](const k8sclient::Request& request) {
    const bool is_refused =
        request.method == k8sclient::Method::kPatch && request.path.find("/10.77.") != std::string::npos;
    return is_refused ? ApiFault::kInvalid : ApiFault::kNone;
  });
  Await([this] { return Held().size() == 2; }, "the others are written");
  ASSERT_TRUE(Del("c3").ok);
  Await([this] { return Held().size() == 1; }, "a DEL after that is written");
}

// For example, a repeated DEL waited in the runtime's shim while the runtime started a new container with the same ID.
TEST_F(AgentTest, ADelThatStartedBeforeAnAddDoesNotFreeItsAddress) {
  StartAgent();
  const std::int64_t before = node::BootTimeNow();
  ASSERT_TRUE(Add("c1").ok);
  ASSERT_TRUE(agent_->Handle(Body("DEL", "c1", "p1", before)).ok);
  EXPECT_EQ(Held().size(), 1U);
  ASSERT_TRUE(Del("c1").ok);
  Await([this] { return Held().empty(); }, "a DEL that was started later is written");
}

TEST_F(AgentTest, AnOlderDelDoesNotMakeTheMarkOlder) {
  StartAgent();
  const std::int64_t first = node::BootTimeNow();
  const std::int64_t between = node::BootTimeNow();
  ASSERT_TRUE(Del("c1").ok);
  ASSERT_TRUE(agent_->Handle(Body("DEL", "c1", "p1", first)).ok);
  EXPECT_FALSE(agent_->Handle(Body("ADD", "c1", "p1", between)).ok);
}

TEST_F(AgentTest, NoOtherCallAnswersAnAddressBeforeItsDelivery) {
  StartAgent();
  auto undelivered = std::make_unique<Reply>(Add("c1"));
  ASSERT_TRUE(undelivered->ok);
  std::atomic<bool> is_answered = false;
  std::jthread second([&] {
    EXPECT_TRUE(Add("c1").ok);
    is_answered = true;
  });
  undelivered->take_back();
  EXPECT_FALSE(is_answered);
  undelivered.reset();
  second.join();
  EXPECT_EQ(Held().size(), 1U);
}

TEST_F(AgentTest, TheTimeLimitOfAnAddCountsFromTheStartOfItsProcess) {
  StartAgent();
  ASSERT_TRUE(Add("c0").ok);
  const std::int64_t long_ago = node::BootTimeNow() - 60'000'000'000;
  EXPECT_FALSE(agent_->Handle(Body("ADD", "c1", "p1", long_ago, /*timeout_s=*/5)).ok);
  EXPECT_EQ(Held().size(), 1U);
}

}  // namespace
}  // namespace berth::agent
