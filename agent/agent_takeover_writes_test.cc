// SPDX-License-Identifier: Apache-2.0
// Tests writes that an agent has sent, or is about to send, when another agent takes over its node: writes of Shared
// blocks, which no fence stops, and a block whose pool the agent does not know.
#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "agent/agent.h"
#include "agent/agent_test_setup.h"
#include "cni/attachment.h"
#include "node/lock_test_setup.h"

namespace berth::agent {
namespace {

using k8sclient::Method;
using k8sclient::Request;

// Passes requests to another Api, and holds one request or its answer. Thread-safe.
class SlowApi final : public k8sclient::Api {
 public:
  explicit SlowApi(k8sclient::Api& inner) : inner_(inner) {}
  using Matches = std::function<bool(const Request&)>;

  void HoldRequest(Matches matches) { Set(holds_request_, std::move(matches)); }
  void HoldAnswer(Matches matches) { Set(holds_answer_, std::move(matches)); }
  // Calls `call` before the first matching request is sent.
  void Before(Matches matches, std::function<void()> call) {
    Set(comes_after_, std::move(matches));
    Set(call_, std::move(call));
  }

  void AwaitHeld() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return is_held_; });
  }
  void Release() {
    const std::scoped_lock lock(mutex_);
    is_released_ = true;
    changed_.notify_all();
  }

  Expected<k8sclient::Response> Call(const Request& request, const k8sclient::CallOptions& options) override {
    if (Take(comes_after_, request)) call_();
    if (Take(holds_request_, request)) Hold();
    auto response = inner_.Call(request, options);
    if (Take(holds_answer_, request)) Hold();
    return response;
  }
  Expected<k8sclient::Response> Watch(const Request& request, const k8sclient::WatchOptions& options,
                                      const k8sclient::WatchSink& sink) override {
    return inner_.Watch(request, options, sink);
  }

 private:
  template <typename Function>
  void Set(Function& place, Function function) {
    const std::scoped_lock lock(mutex_);
    place = std::move(function);
  }
  // Whether the request matches; true only once.
  bool Take(Matches& matches, const Request& request) {
    const std::scoped_lock lock(mutex_);
    if (!matches || !matches(request)) return false;
    matches = nullptr;
    return true;
  }
  void Hold() {
    std::unique_lock lock(mutex_);
    is_held_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return is_released_; });
  }

  k8sclient::Api& inner_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Matches holds_request_;
  Matches holds_answer_;
  Matches comes_after_;
  std::function<void()> call_;
  bool is_held_ = false;
  bool is_released_ = false;
};

class TakeoverWritesTest : public AgentTest {
 protected:
  void StartOlder() {
    older_ = MakeAgentOf(slow_, {});
    older_->Start();
    Await([this] { return older_->IsReady(); }, "the older agent is ready");
  }
  // Returns when the newer agent is ready, or waits for the older one.
  void StartNewer() {
    StartAgent();
    Await([this] { return agent_->IsReady() || node::IsLockWaitedFor(run_dir() + "/nodes/n1/creator.lock"); },
          "the newer agent is ready, or waits for the older one");
  }
  [[nodiscard]] bool IsHeld(const std::string& container) const {
    const std::string attachment = cni::MakeAttachment("net", container, "eth0");
    for (const nlohmann::json& block : api_.Objects(kBlocks)) {
      if (block["allocations"].dump().find(attachment) != std::string::npos) return true;
    }
    return false;
  }
  static bool IsOfBlocks(const Request& request) { return request.path.starts_with(kBlocks); }

  SlowApi slow_{api_};
  std::unique_ptr<Agent> older_;
};

TEST_F(TakeoverWritesTest, ASharedAddressWhoseWriteIsAnsweredLateStaysTaken) {
  StartOlder();
  ASSERT_TRUE(older_->Handle(Body("ADD", "c0", "shared")).ok);
  slow_.HoldAnswer([](const Request& request) { return request.method == Method::kPatch && IsOfBlocks(request); });
  Reply reply;
  std::jthread adder([&] { reply = older_->Handle(Body("ADD", "c1", "shared")); });
  slow_.AwaitHeld();
  StartNewer();
  slow_.Release();
  adder.join();
  Await([this] { return agent_->IsReady(); }, "the newer agent is ready");
  ASSERT_TRUE(reply.ok) << reply.body;
  EXPECT_TRUE(IsHeld("c1"));
}

// The older agent's write met a conflict, and the older agent has not read the block again.
TEST_F(TakeoverWritesTest, ASharedWriteIsNotDecidedAgainAfterTheNewerAgentAnsweredTheDel) {
  StartOlder();
  ASSERT_TRUE(older_->Handle(Body("ADD", "c0", "shared")).ok);
  const std::string block = api_.Objects(kBlocks)[0]["metadata"]["name"];
  const std::string path = kBlocks + "/" + block;
  slow_.Before(
      [](const Request& request) { return request.method == Method::kPatch && IsOfBlocks(request); },
      [&] { ASSERT_TRUE(api_.Call({.method = Method::kPatch, .path = path, .body = R"({"next":9})"}, {})->ok()); });
  slow_.HoldRequest([&](const Request& request) { return request.method == Method::kGet && request.path == path; });
  Reply reply;
  std::jthread adder([&] { reply = older_->Handle(Body("ADD", "c1", "shared")); });
  slow_.AwaitHeld();
  StartNewer();
  Await([this] { return agent_->IsReady(); }, "the newer agent is ready");
  ASSERT_TRUE(Del("c1").ok);
  slow_.Release();
  adder.join();
  EXPECT_FALSE(reply.ok);
  EXPECT_FALSE(IsHeld("c1"));
  EXPECT_TRUE(IsHeld("c0"));
}

// The block was created, but the answer was lost, and the older agent reads the block.
TEST_F(TakeoverWritesTest, ABlockWhosePostLostItsAnswerBelongsToOneAgentAtATime) {
  StartOlder();
  Await([this] { return older_->IsReady(); }, "the older agent is ready");
  const auto posts = std::make_shared<std::atomic<int>>(0);
  api_.SetFaults([posts](const Request& request) {
    const bool is_first = request.method == Method::kPost && IsOfBlocks(request) && ++*posts == 1;
    return is_first ? ApiFault::kLostAfterCommit : ApiFault::kNone;
  });
  slow_.HoldRequest([posts](const Request& request) {
    return request.method == Method::kPatch && IsOfBlocks(request) && *posts > 0;
  });
  Reply reply;
  std::jthread adder([&] { reply = older_->Handle(Body("ADD", "c1")); });
  slow_.AwaitHeld();
  StartNewer();
  slow_.Release();
  adder.join();
  Await([this] { return agent_->IsReady(); }, "the newer agent is ready");
  EXPECT_EQ(reply.ok, IsHeld("c1")) << reply.body;
}

// The newer agent has read the note of the address, and its fence is on its way: it will write the entry again.
TEST_F(TakeoverWritesTest, ADelThatASuccessorUndoesIsNotAnswered) {
  older_ = MakeAgentOf(watched_, {.standby = 4});
  older_->Start();
  Await([this] { return older_->IsReady(); }, "the older agent is ready");
  // The first write puts addresses on standby.
  ASSERT_TRUE(older_->Handle(Body("ADD", "c0")).ok);
  // The next write lands, but its answer is lost, and reads fail: a DEL waits until the write is settled.
  const auto is_readable = std::make_shared<std::atomic<bool>>(false);
  const auto is_lost = std::make_shared<std::atomic<bool>>(false);
  api_.SetFaults([=](const Request& request) {
    if (!IsOfBlocks(request)) return ApiFault::kNone;
    if (request.method == Method::kPatch && !is_lost->exchange(true)) return ApiFault::kLostAfterCommit;
    return request.method == Method::kGet && !*is_readable ? ApiFault::kUnavailable : ApiFault::kNone;
  });
  ASSERT_TRUE(older_->Handle(Body("ADD", "c1")).ok);
  Await([this] { return IsHeld("c1"); }, "the entry is written");
  *is_readable = true;
  slow_.HoldRequest([](const Request& request) { return request.method == Method::kPatch && IsOfBlocks(request); });
  agent_ = MakeAgentOf(slow_, {.standby = 4});
  agent_->Start();
  slow_.AwaitHeld();
  const Reply reply = older_->Handle(Body("DEL", "c1"));
  slow_.Release();
  Await([this] { return agent_->IsReady(); }, "the newer agent is ready");
  ASSERT_FALSE(reply.ok);
  ASSERT_TRUE(Del("c1").ok);
  Await([this] { return !IsHeld("c1"); }, "the DEL is written");
}

// The newer agent has read the earlier DEL of this container in the journal, and frees what the container has.
TEST_F(TakeoverWritesTest, AnAddWhoseAddressTheSuccessorFreesIsNotAnswered) {
  api_.Change(std::string(crds::kPoolsPath), "p1", [](nlohmann::json& pool) { pool["spec"]["allowRequests"] = true; });
  StartOlder();
  ASSERT_TRUE(older_->Handle(Body("ADD", "c0")).ok);
  ASSERT_TRUE(older_->Handle(Body("ADD", "c1")).ok);
  slow_.HoldRequest([](const Request& request) { return request.method == Method::kPatch && IsOfBlocks(request); });
  ASSERT_TRUE(older_->Handle(Body("DEL", "c1")).ok);
  slow_.AwaitHeld();
  auto body = nlohmann::json::parse(Body("ADD", "c1"));
  body["config"]["runtimeConfig"]["ips"] = {"10.55.0.40"};
  Reply reply;
  std::jthread adder([&] { reply = older_->Handle(body.dump()); });
  SlowApi slow_for_newer(api_);
  slow_for_newer.HoldRequest([](const Request& request) {
    return request.method == Method::kGet && IsOfBlocks(request) && request.path == kBlocks;
  });
  agent_ = MakeAgentOf(slow_for_newer, {});
  agent_->Start();
  slow_for_newer.AwaitHeld();
  slow_.Release();
  adder.join();
  slow_for_newer.Release();
  Await([this] { return agent_->IsReady(); }, "the newer agent is ready");
  agent_->Drain(std::chrono::seconds(20));
  EXPECT_EQ(reply.ok, IsHeld("c1")) << reply.body;
  older_.reset();
  agent_.reset();
}

// The POST of a block succeeds, and then the agent can neither read pools nor change blocks.
TEST_F(TakeoverWritesTest, AnAddThatCannotReadThePoolOfItsNewBlockLeavesNoAddress) {
  StartAgent();
  Await([this] { return agent_->IsReady(); }, "the agent is ready");
  const auto is_created = std::make_shared<std::atomic<bool>>(false);
  api_.SetFaults([is_created](const Request& request) {
    if (request.method == Method::kPost && IsOfBlocks(request)) *is_created = true;
    return *is_created && request.method != Method::kPost ? ApiFault::kUnavailable : ApiFault::kNone;
  });
  ASSERT_FALSE(agent_->Handle(Body("ADD", "c1", "p1", node::BootTimeNow(), 60)).ok);
  EXPECT_EQ(api_.Objects(std::string(crds::kBlocksPath)).size(), 1U);
  EXPECT_FALSE(IsHeld("c1"));
  api_.SetFaults(nullptr);
  EXPECT_TRUE(Add("c1").ok);
}

}  // namespace
}  // namespace berth::agent
