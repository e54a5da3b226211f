// SPDX-License-Identifier: Apache-2.0
// Tests the node's mode (docs/adr/0007): which agent may start, how an agent leaves the node to berth-direct and comes
// back, and the DELs that came while no agent listened.
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <set>

#include <gmock/gmock.h>

#include "agent/agent.h"
#include "agent/agent_test_setup.h"
#include "cni/attachment.h"
#include "ipam/engine.h"
#include "node/del_queue.h"
#include "node/direct_store.h"
#include "node/node_mode.h"

namespace berth::agent {
namespace {

using k8sclient::CallOptions;
using k8sclient::Method;
using k8sclient::Request;
using testing::HasSubstr;

class TestRuntime final : public ipam::Runtime {
 public:
  std::int64_t UnixMillis() override {
    const auto now = k8sclient::RealClock().WallNow().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
  }
  ipam::Uint128 Random(ipam::Uint128 bound) override { return 7 % bound; }
  bool Wait(std::chrono::milliseconds) override { return true; }
  Expected<void> MayGoOn() override { return {}; }
};

ipam::Attachment AttachmentOf(const std::string& container) { return cni::MakeAttachment("net", container, "eth0"); }

// One call of berth-direct, which uses another name of the API server than the agent.
class Direct {
 public:
  Direct(k8sclient::Api& api, const std::string& run_dir, const std::string& container)
      : attachment_(AttachmentOf(container)),
        directory_(node::NodeDirectory::Open(run_dir, "n1", "https://model.example:6443").value()),
        store_(api, directory_, runtime_,
               {.node = "n1", .call = CallOptions::Within(std::chrono::seconds(20)), .attachment = attachment_}),
        engine_(store_, runtime_) {}

  Expected<void> Add() {
    const auto lock = directory_.Lock(/*deadline=*/0);
    if (!lock) return std::unexpected(lock.error());
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
  Expected<void> Del() {
    const auto lock = directory_.Lock(/*deadline=*/0);
    if (!lock) return std::unexpected(lock.error());
    return engine_.Del(attachment_);
  }

 private:
  ipam::Attachment attachment_;
  node::NodeDirectory directory_;
  TestRuntime runtime_;
  node::DirectStore store_;
  ipam::Engine engine_;
};

class NodeModeTest : public AgentTest {
 protected:
  [[nodiscard]] node::Folder State() const { return node::Folder::Open(state_dir()).value(); }
  [[nodiscard]] bool Is(node::NodeMode mode) const { return node::RequireMode(State(), mode).has_value(); }
  [[nodiscard]] Direct Call(const std::string& container) { return {api_, run_dir(), container}; }
  // Like `berth` while no agent listens.
  void QueueDel(const std::string& container, node::BootNanos started = node::BootTimeNow()) const {
    const auto queue = node::DelQueue::Lock(State(), /*deadline=*/0);
    ASSERT_TRUE(queue.has_value());
    ASSERT_TRUE(queue->Add(Body("DEL", container, "p1", started)));
  }
  // Reads the queue without its lock, because the agent may hold the lock.
  [[nodiscard]] bool IsQueueEmpty() const { return !State().Read("queue").has_value(); }
  [[nodiscard]] bool IsHeld(const std::string& container) const {
    for (const nlohmann::json& block : api_.Objects(kBlocks)) {
      if (block["allocations"].dump().find(AttachmentOf(container)) != std::string::npos) return true;
    }
    return false;
  }
  void AwaitReady() const {
    Await([this] { return agent_->IsReady(); }, "the agent is ready");
  }
  // Like a killed agent: everything that is only in its memory is lost.
  void KillAgent() {
    agent_.reset();
    api_.SetFaults(nullptr);
  }
  void FailAll() {
    api_.SetFaults([](const Request&) { return ApiFault::kUnavailable; });
  }
  Expected<void> Retire(std::chrono::milliseconds limit = std::chrono::seconds(10)) {
    return MakeAgent()->Retire(limit);
  }
};

class QueuedDelTest : public NodeModeTest {};

TEST_F(QueuedDelTest, IsWrittenBeforeTheNextAgentIsReady) {
  StartAgent();
  ASSERT_TRUE(Add("c1").ok);
  ASSERT_TRUE(Add("c2").ok);
  KillAgent();
  QueueDel("c1");
  StartAgent();
  AwaitReady();
  EXPECT_FALSE(IsHeld("c1"));
  EXPECT_TRUE(IsHeld("c2"));
  EXPECT_TRUE(IsQueueEmpty());
}

TEST_F(QueuedDelTest, FreesAnAddressOfASharedBlock) {
  StartAgent();
  ASSERT_TRUE(Add("c1", "shared").ok);
  KillAgent();
  QueueDel("c1");
  StartAgent();
  AwaitReady();
  EXPECT_FALSE(IsHeld("c1"));
}

TEST_F(QueuedDelTest, IsNotLostByAnAgentThatCannotLoad) {
  StartAgent();
  ASSERT_TRUE(Add("c1").ok);
  KillAgent();
  QueueDel("c1");
  FailAll();
  StartAgent();
  Await([this] { return IsQueueEmpty(); }, "the agent has taken it over");
  KillAgent();
  StartAgent();
  AwaitReady();
  EXPECT_FALSE(IsHeld("c1"));
}

// The runtime gave up on this ADD, and the ADD reaches the agent only now.
TEST_F(QueuedDelTest, RefusesAnAddThatStartedEarlier) {
  const std::int64_t before = node::BootTimeNow();
  QueueDel("c1");
  StartAgent();
  EXPECT_FALSE(agent_->Handle(Body("ADD", "c1", "p1", before)).ok);
  EXPECT_TRUE(Held().empty());
}

TEST_F(QueuedDelTest, KeepsTheAddressOfAnAddThatStartedLater) {
  StartAgent();
  ASSERT_TRUE(Add("c1").ok);
  KillAgent();
  QueueDel("c1");
  StartAgent();
  ASSERT_TRUE(Add("c1").ok);
  AwaitReady();
  KillAgent();
  StartAgent();
  AwaitReady();
  EXPECT_TRUE(IsHeld("c1"));
}

TEST_F(QueuedDelTest, FreesTheAddressOfAnAddWhosePatchMayLandLater) {
  StartAgent();
  ASSERT_TRUE(Add("c0").ok);
  api_.SetFaults([](const Request& request) {
    if (request.method == Method::kPatch) return ApiFault::kLateCommit;
    return request.method == Method::kGet ? ApiFault::kUnavailable : ApiFault::kNone;
  });
  ASSERT_FALSE(agent_->Handle(Body("ADD", "c1", "p1", node::BootTimeNow(), 3)).ok);
  KillAgent();
  QueueDel("c1");
  StartAgent();
  AwaitReady();
  api_.ReleaseLateWrites();
  EXPECT_FALSE(IsHeld("c1"));
  EXPECT_TRUE(IsHeld("c0"));
}

TEST_F(QueuedDelTest, FreesAHandedOutAddress) {
  agent_ = MakeAgentOf(api_, {.standby = 4});
  agent_->Start();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(Add("c" + std::to_string(i)).ok);
  Await([this] { return Held().size() == 3; }, "all is written");
  api_.SetFaults([](const Request& request) {
    return request.method == Method::kPatch ? ApiFault::kUnavailable : ApiFault::kNone;
  });
  ASSERT_TRUE(Add("handed-out").ok);
  KillAgent();
  QueueDel("handed-out");
  StartAgent();
  AwaitReady();
  EXPECT_FALSE(IsHeld("handed-out"));
  EXPECT_EQ(Held().size(), 3U);
}

// A queued DEL was cut off, because its process or its machine crashed.
TEST_F(QueuedDelTest, DoesNotStopOtherDelsIfItIsCutOff) {
  StartAgent();
  ASSERT_TRUE(Add("c1").ok);
  KillAgent();
  ASSERT_TRUE(State().Write("queue", "\n" + Body("DEL", "c0").substr(0, 100)));
  QueueDel("c1");
  StartAgent();
  AwaitReady();
  EXPECT_FALSE(IsHeld("c1"));
  EXPECT_TRUE(IsQueueEmpty());
}

TEST_F(NodeModeTest, NoAgentStartsInDirectMode) {
  ASSERT_TRUE(node::WriteMode(State(), node::NodeMode::kDirect));
  const auto made = Agent::Make(
      api_, k8sclient::RealClock(), {.node = "n1", .state_dir = state_dir(), .run_dir = run_dir(), .server = "s"}, [] {
      });
  ASSERT_FALSE(made.has_value());
  EXPECT_THAT(made.error().message, HasSubstr(state_dir() + "/mode says direct"));
  EXPECT_THAT(made.error().details, HasSubstr("remove the file"));
}

// The agent was started a moment before the node went to direct mode.
TEST_F(NodeModeTest, AnAgentThatFindsDirectModeAfterItsStartWritesNothing) {
  agent_ = MakeAgent();
  ASSERT_TRUE(Retire());
  agent_->Start();
  EXPECT_THAT(agent_->Handle(Body("ADD", "c1", "p1", node::BootTimeNow(), 3)).body, HasSubstr("/mode says direct"));
  EXPECT_TRUE(Held().empty());
}

// `berth-agent install --direct` holds the queue's lock while it looks for `nodes` and sets the mode.
TEST_F(NodeModeTest, ANewNodeGoesToTheAgentOrToDirectModeAndNotToBoth) {
  std::optional queue(node::DelQueue::Lock(State(), /*deadline=*/0));
  ASSERT_TRUE(queue->has_value());
  StartAgent();
  EXPECT_THAT(agent_->Handle(Body("ADD", "c1", "p1", node::BootTimeNow(), 3)).body, HasSubstr("queue.lock"));
  EXPECT_FALSE(std::filesystem::exists(state_dir() + "/nodes"));
  ASSERT_TRUE(node::WriteMode(State(), node::NodeMode::kDirect));
  queue.reset();
  const auto error = [this] { return agent_->Handle(Body("ADD", "c1", "p1", node::BootTimeNow(), 1)).body; };
  Await([&] { return error().find("/mode says direct") != std::string::npos; }, "the agent has read the mode");
  const auto directory = node::NodeDirectory::Open(run_dir(), "n1", "s");
  Await([&] { return directory->Lock(/*deadline=*/0).has_value(); }, "a call of berth-direct can take the node's lock");
}

TEST_F(NodeModeTest, AnAgentThatStartsLetsADirectCallEnd) {
  auto lock = node::NodeDirectory::Open(run_dir(), "n1", "s")->Lock(/*deadline=*/0);
  ASSERT_TRUE(lock.has_value());
  StartAgent();
  EXPECT_THAT(agent_->Handle(Body("ADD", "c1", "p1", node::BootTimeNow(), 3)).body,
              HasSubstr("a call of berth-direct has not ended"));
  EXPECT_EQ(api_.CountOf(Method::kPost), 0);
  lock->Close();
  AwaitReady();
}

TEST_F(NodeModeTest, WhileAnAgentLivesADirectCallWritesNothing) {
  StartAgent();
  ASSERT_TRUE(Add("c1").ok);
  EXPECT_FALSE(Call("c1").Del().has_value());
  EXPECT_TRUE(IsHeld("c1"));
}

TEST_F(NodeModeTest, ARetiredAgentHasWrittenHandedOutAddresses) {
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
  ASSERT_TRUE(Retire());
  EXPECT_TRUE(IsHeld("handed-out"));
  for (const nlohmann::json& block : api_.Objects(kBlocks)) {
    EXPECT_TRUE(block.value("standby", nlohmann::json::array()).empty()) << block;
  }
  ASSERT_TRUE(Call("direct").Add());
  EXPECT_EQ(Held().size(), 5U);
}

TEST_F(NodeModeTest, ARetiredAgentHasWrittenDels) {
  StartAgent();
  for (const char* container : {"journalled", "queued", "kept"}) ASSERT_TRUE(Add(container).ok);
  FailAll();
  ASSERT_TRUE(Del("journalled").ok);
  KillAgent();
  QueueDel("queued");
  ASSERT_TRUE(Retire());
  EXPECT_TRUE(Is(node::NodeMode::kDirect));
  EXPECT_TRUE(IsHeld("kept"));
  EXPECT_EQ(Held().size(), 1U);
}

// In direct mode nobody looks for network namespaces. The controller would wait for that, and keep the block in use.
TEST_F(NodeModeTest, ARetiredAgentLeavesNoNetworkNamespaceForAnAgentToLookFor) {
  StartAgent();
  for (const char* container : {"running", "freed", "freed-in-use"}) ASSERT_TRUE(Add(container).ok);
  KillAgent();
  const std::string netns_dir = run_dir() + "/netns";
  std::filesystem::create_directories(netns_dir);
  std::ofstream(netns_dir + "/cni-in-use") << "";
  const std::int64_t later = TestRuntime().UnixMillis() + std::int64_t{3'600'000};
  std::multiset<std::string> wanted;
  const std::string block = api_.Objects(kBlocks)[0]["metadata"]["name"];
  ASSERT_TRUE(api_.Change(kBlocks, block, [&](nlohmann::json& object) {
    for (nlohmann::json& entry : object["allocations"]) {
      const auto held = entry.get<std::string>();
      const auto is_of = [&](const char* container) { return held.find(AttachmentOf(container)) != std::string::npos; };
      const auto cooling = [&](const char* container) {
        return "~ t=" + std::to_string(later) + " f=" + AttachmentOf(container);
      };
      wanted.insert(is_of("freed") ? cooling("freed") : held);
      if (is_of("running")) entry = held + " ns=cni-1";
      if (is_of("freed")) entry = cooling("freed") + " " + held + " ns=cni-2";
      if (is_of("freed-in-use")) entry = cooling("freed-in-use") + " " + held + " ns=cni-in-use";
    }
  }));
  const auto agent = Agent::Make(
      api_,
      k8sclient::RealClock(),
      {.node = "n1", .state_dir = state_dir(), .run_dir = run_dir(), .netns_dir = netns_dir, .server = "https://model"},
      [] {});
  ASSERT_TRUE((*agent)->Retire(std::chrono::seconds(10)));
  std::multiset<std::string> left;
  for (const nlohmann::json& object : api_.Objects(kBlocks)) {
    for (const nlohmann::json& entry : object["allocations"]) left.insert(entry.get<std::string>());
  }
  EXPECT_EQ(left, wanted);
  const std::string metrics = (*agent)->MetricsText();
  EXPECT_NE(metrics.find("\nberth_agent_freed_entries_in_use_total 1\n"), std::string::npos) << metrics;
}

TEST_F(NodeModeTest, NothingThatAnAgentSentLandsAfterItRetired) {
  StartAgent();
  ASSERT_TRUE(Add("c0").ok);
  api_.SetFaults([](const Request& request) {
    if (request.method == Method::kPatch) return ApiFault::kLateCommit;
    return request.method == Method::kGet ? ApiFault::kUnavailable : ApiFault::kNone;
  });
  ASSERT_FALSE(agent_->Handle(Body("ADD", "c1", "p1", node::BootTimeNow(), 3)).ok);
  KillAgent();
  ASSERT_TRUE(Retire());
  ASSERT_TRUE(Call("c1").Del());
  api_.ReleaseLateWrites();
  EXPECT_FALSE(IsHeld("c1"));
  EXPECT_TRUE(IsHeld("c0"));
}

TEST_F(NodeModeTest, AnAgentThatServesEndsWhenItsNodeRetires) {
  StartAgent();
  ASSERT_TRUE(Add("c1").ok);
  ASSERT_TRUE(Retire());
  Await([this] { return replaced_.load() == 1; }, "the agent that served ends");
  EXPECT_FALSE(Add("c2").ok);
}

TEST_F(NodeModeTest, AnAgentThatCannotWriteDoesNotRetire) {
  StartAgent();
  ASSERT_TRUE(Add("c1").ok);
  FailAll();
  ASSERT_TRUE(Del("c1").ok);
  agent_.reset();
  EXPECT_FALSE(Retire(std::chrono::milliseconds(1)).has_value());
  EXPECT_TRUE(Is(node::NodeMode::kAgent));
}

// A policy may refuse only this change.
TEST_F(NodeModeTest, AnAgentWithADelThatIsRefusedDoesNotRetire) {
  StartAgent();
  ASSERT_TRUE(Add("c1").ok);
  KillAgent();
  QueueDel("c1");
  api_.SetFaults([](const Request& request) {
    const bool releases = request.method == Method::kPatch && request.body.find(":null") != std::string::npos;
    return releases ? ApiFault::kForbidden : ApiFault::kNone;
  });
  const auto retired = Retire(std::chrono::milliseconds(1));
  ASSERT_FALSE(retired.has_value());
  EXPECT_THAT(retired.error().message, HasSubstr("1 DELs and 0 ADDs"));
  EXPECT_TRUE(Is(node::NodeMode::kAgent));
}

TEST_F(NodeModeTest, AnAgentThatComesBackKnowsWhatDirectModeDid) {
  StartAgent();
  ASSERT_TRUE(Add("c1").ok);
  ASSERT_TRUE(Add("c2").ok);
  ASSERT_TRUE(Retire());
  agent_.reset();
  ASSERT_TRUE(Call("c1").Del());
  ASSERT_TRUE(Call("c3").Add());
  ASSERT_TRUE(State().Remove("mode"));
  StartAgent();
  AwaitReady();
  ASSERT_TRUE(Del("c3").ok);
  Await([this] { return !IsHeld("c3"); }, "the agent knows what direct mode gave");
  EXPECT_FALSE(IsHeld("c1"));
  EXPECT_TRUE(IsHeld("c2"));
}

TEST_F(NodeModeTest, TheJournalSurvivesAnotherNameOfTheApiServer) {
  StartAgent();
  ASSERT_TRUE(Add("c1").ok);
  FailAll();
  ASSERT_TRUE(Del("c1").ok);
  KillAgent();
  agent_ = MakeAgent(/*watches_blocks=*/true, "https://10.96.0.1:443");
  agent_->Start();
  AwaitReady();
  EXPECT_FALSE(IsHeld("c1"));
}

}  // namespace
}  // namespace berth::agent
