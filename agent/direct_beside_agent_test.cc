// SPDX-License-Identifier: Apache-2.0
// berth-direct beside a node agent (docs/adr/0007): before one, while one lives, and after one was killed.
#include <chrono>
#include <fstream>
#include <memory>
#include <set>
#include <sys/stat.h>

#include "agent/agent.h"
#include "agent/agent_test_setup.h"
#include "cni/attachment.h"
#include "ipam/engine.h"
#include "node/direct_store.h"

namespace berth::agent {
namespace {

using k8sclient::CallOptions;
using k8sclient::Method;
using k8sclient::Request;

class TestRuntime final : public ipam::Runtime {
 public:
  std::int64_t UnixMillis() override {
    const auto now = k8sclient::RealClock().WallNow().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
  }
  ipam::Uint128 Random(ipam::Uint128 bound) override { return 7 % bound; }
  bool Wait(std::chrono::milliseconds) override { return true; }
  ipam::Expected<void> MayGoOn() override { return {}; }
};

// One call of berth-direct, which reaches the API server by another name than the agent.
class Direct {
 public:
  Direct(k8sclient::Api& api, const std::string& run_dir, const std::string& container)
      : attachment_(cni::MakeAttachment("net", container, "eth0")),
        directory_(node::NodeDirectory::Open(run_dir, "n1", "https://model.example:6443").value()),
        store_(api, directory_, runtime_,
               {.node = "n1",
                .call = CallOptions::Within(std::chrono::seconds(20)),
                .lock_deadline = node::BootTimeNow() + 10'000'000'000,
                .attachment = attachment_}),
        engine_(store_, runtime_) {}

  ipam::Expected<void> Add() {
    running_ = directory_.HoldRunning(attachment_).value();
    const auto added = engine_.Add({.attachment = attachment_,
                                    .interface = "eth0",
                                    .pod_namespace = "ns",
                                    .pod = "pod",
                                    .uid = "u",
                                    .pools = {"p1"},
                                    .requested = {}});
    if (!added) return std::unexpected(added.error());
    return {};
  }
  ipam::Expected<void> Del() { return engine_.Del(attachment_); }
  [[nodiscard]] bool met_agent() const { return store_.met_agent(); }

 private:
  ipam::Attachment attachment_;
  node::NodeDirectory directory_;
  TestRuntime runtime_;
  node::DirectStore store_;
  ipam::Engine engine_;
  node::HeldFile running_;
};

class DirectBesideAgentTest : public AgentTest {
 protected:
  [[nodiscard]] Direct Call(const std::string& container) { return {api_, run_dir(), container}; }
  [[nodiscard]] bool IsHeld(const std::string& container) const {
    const std::string attachment = cni::MakeAttachment("net", container, "eth0");
    for (const nlohmann::json& block : api_.Objects(kBlocks)) {
      if (block["allocations"].dump().find(attachment) != std::string::npos) return true;
    }
    return false;
  }
  [[nodiscard]] int Writes() const { return api_.CountOf(Method::kPost) + api_.CountOf(Method::kPatch); }
  // As if killed: nothing of what it knew in memory is on disk.
  void KillAgent() {
    agent_.reset();
    api_.SetFaults(nullptr);
  }
  // An agent whose ADD of the container has sent a patch that lands when late writes are released.
  void KillAgentThatSentAnAddOf(const std::string& container) {
    StartAgent();
    ASSERT_TRUE(Add("c0").ok);
    api_.SetFaults([](const Request& request) {
      if (request.method == Method::kPatch) return ApiFault::kLateCommit;
      return request.method == Method::kGet ? ApiFault::kUnavailable : ApiFault::kNone;
    });
    ASSERT_FALSE(agent_->Handle(Body("ADD", container, "p1", node::BootTimeNow(), 1)).ok);
    KillAgent();
  }
  // Whether somebody waits for the lock of the node.
  [[nodiscard]] bool IsLockWaitedFor() const {
    struct stat facts = {};
    if (stat((run_dir() + "/nodes/n1/lock").c_str(), &facts) != 0) return false;
    const std::string inode = ":" + std::to_string(facts.st_ino) + " ";
    std::ifstream locks("/proc/locks");
    for (std::string line; std::getline(locks, line);) {
      if (line.find("->") != std::string::npos && line.find(inode) != std::string::npos) return true;
    }
    return false;
  }
};

TEST_F(DirectBesideAgentTest, AnAgentThatStartsLetsARunningAddEnd) {
  std::atomic<bool> is_sent = false;
  std::atomic<bool> may_land = false;
  std::atomic<bool> agent_has_looked = false;
  api_.SetFaults([&](const Request& request) {
    if (request.method == Method::kPost && !is_sent.exchange(true)) {
      while (!may_land) std::this_thread::yield();
    } else if (is_sent && request.path == kBlocks) {
      agent_has_looked = true;
    }
    return ApiFault::kNone;
  });
  std::jthread adder([this] { EXPECT_TRUE(Call("c1").Add().has_value()); });
  Await([&] { return is_sent.load(); }, "the ADD has sent its block");
  StartAgent();
  // An agent that does not wait looks at once.
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
  while (!agent_has_looked && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  EXPECT_FALSE(agent_has_looked);
  may_land = true;
  adder.join();
  Await([this] { return agent_->IsReady(); }, "the agent is ready");
  EXPECT_TRUE(IsHeld("c1"));
  ASSERT_TRUE(Del("c1").ok);
  Await([this] { return !IsHeld("c1"); }, "the agent knows what direct mode claimed");
}

TEST_F(DirectBesideAgentTest, WhileAnAgentLivesADirectCallWritesNothing) {
  StartAgent();
  ASSERT_TRUE(Add("c1").ok);
  const int before = Writes();
  Direct del = Call("c1");
  EXPECT_EQ(del.Del().error().code, ipam::ErrorCode::kUnavailable);
  EXPECT_TRUE(del.met_agent());
  EXPECT_FALSE(Call("c2").Add().has_value());
  EXPECT_EQ(Writes(), before);
  EXPECT_TRUE(IsHeld("c1"));
}

TEST_F(DirectBesideAgentTest, ADirectCallThatWaitsForItsTurnGivesWayToAnAgentThatCameMeanwhile) {
  const auto directory = node::NodeDirectory::Open(run_dir(), "n1", "s").value();
  node::HeldFile turn = directory.TryLock().value();
  ASSERT_TRUE(turn.is_open());
  Direct call = Call("c1");
  ipam::Expected<void> added;
  std::jthread adder([&] { added = call.Add(); });
  Await([this] { return IsLockWaitedFor(); }, "the ADD waits");
  StartAgent();
  turn.Close();
  adder.join();
  EXPECT_FALSE(added.has_value());
  EXPECT_TRUE(call.met_agent());
  Await([this] { return agent_->IsReady(); }, "the agent is ready");
  EXPECT_FALSE(IsHeld("c1"));
}

TEST_F(DirectBesideAgentTest, AnAgentThatNeverLoadsKeepsDirectCallsAwayToo) {
  api_.SetFaults([](const Request&) { return ApiFault::kUnavailable; });
  StartAgent();
  Direct call = Call("c1");
  EXPECT_FALSE(call.Del().has_value());
  EXPECT_TRUE(call.met_agent());
}

TEST_F(DirectBesideAgentTest, OnceTheAgentIsGoneDirectCallsAreServed) {
  StartAgent();
  ASSERT_TRUE(Add("c1").ok);
  KillAgent();
  Direct call = Call("c1");
  EXPECT_TRUE(call.Del().has_value());
  EXPECT_FALSE(call.met_agent());
  EXPECT_FALSE(IsHeld("c1"));
}

TEST_F(DirectBesideAgentTest, TheFirstDirectCallFencesWhatAKilledAgentSent) {
  KillAgentThatSentAnAddOf("c1");
  ASSERT_TRUE(Call("c1").Del().has_value());
  api_.ReleaseLateWrites();
  EXPECT_FALSE(IsHeld("c1"));
  EXPECT_TRUE(IsHeld("c0"));
}

TEST_F(DirectBesideAgentTest, ADirectCallThatCannotFenceFailsAndTheNextOneDoes) {
  KillAgentThatSentAnAddOf("c1");
  FailPatches({ApiFault::kUnavailable});
  EXPECT_FALSE(Call("c1").Del().has_value());
  ASSERT_TRUE(Call("c1").Del().has_value());
  api_.ReleaseLateWrites();
  EXPECT_FALSE(IsHeld("c1"));
}

TEST_F(DirectBesideAgentTest, OnlyTheFirstDirectCallAfterEachAgentFences) {
  for (const char* round : {"first", "second"}) {
    StartAgent();
    ASSERT_TRUE(Add("c0").ok);
    KillAgent();
    int before = Writes();
    ASSERT_TRUE(Call("c1").Add().has_value());
    EXPECT_EQ(Writes() - before, 2) << round;
    before = Writes();
    ASSERT_TRUE(Call("c1").Del().has_value());
    EXPECT_EQ(Writes() - before, 1) << round;
  }
}

TEST_F(DirectBesideAgentTest, TheJournalSurvivesAnotherNameOfTheApiServer) {
  StartAgent();
  ASSERT_TRUE(Add("c1").ok);
  api_.SetFaults([](const Request&) { return ApiFault::kUnavailable; });
  ASSERT_TRUE(Del("c1").ok);
  KillAgent();
  agent_ = MakeAgent(/*watches_blocks=*/true, "https://10.96.0.1:443");
  agent_->Start();
  Await([this] { return !IsHeld("c1"); }, "the DEL is written");
}

TEST_F(DirectBesideAgentTest, AJournalledDelSparesADirectAddThatCameAfterIt) {
  StartAgent();
  ASSERT_TRUE(Add("c1").ok);
  api_.SetFaults([](const Request&) { return ApiFault::kUnavailable; });
  ASSERT_TRUE(Del("c1").ok);
  KillAgent();
  ASSERT_TRUE(Call("c1").Add().has_value());
  StartAgent();
  Await([this] { return agent_->IsReady(); }, "the agent is ready");
  EXPECT_TRUE(IsHeld("c1"));
}

TEST_F(DirectBesideAgentTest, AJournalledDelOfADirectAddIsWritten) {
  ASSERT_TRUE(Call("c1").Add().has_value());
  StartAgent();
  Await([this] { return agent_->IsReady(); }, "the agent is ready");
  api_.SetFaults([](const Request&) { return ApiFault::kUnavailable; });
  ASSERT_TRUE(Del("c1").ok);
  KillAgent();
  StartAgent();
  Await([this] { return !IsHeld("c1"); }, "the DEL is written");
}

TEST_F(DirectBesideAgentTest, AfterAnAgentWhatItHandedOutIsWritten) {
  agent_ = MakeAgentOf(api_, {.standby = 4});
  agent_->Start();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(Add("c" + std::to_string(i)).ok);
  Await([this] { return Held().size() == 3; }, "all is written");
  api_.SetFaults([](const Request& request) {
    return request.method == Method::kPatch ? ApiFault::kUnavailable : ApiFault::kNone;
  });
  ASSERT_TRUE(Add("handed-out").ok);
  KillAgent();
  ASSERT_FALSE(IsHeld("handed-out"));
  ASSERT_TRUE(Call("direct").Add());
  EXPECT_TRUE(IsHeld("handed-out"));
  EXPECT_EQ(Held().size(), 5U);
  ASSERT_TRUE(Call("handed-out").Del());
  EXPECT_FALSE(IsHeld("handed-out"));
}

}  // namespace
}  // namespace berth::agent
