// SPDX-License-Identifier: Apache-2.0
// A DEL for which no agent comes goes into the queue on disk. `berth` respects the node's mode.
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cni-plugin/berth_test_setup.h"
#include "cni-plugin/deadline.h"
#include "cni-plugin/scripted_agent.h"
#include "cni/config.h"
#include "cni/forward.h"
#include "node/del_queue.h"
#include "node/lock_test_setup.h"
#include "node/node_mode.h"

namespace berth::cni_plugin {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr const char* kSoon = R"(,"timeoutSeconds":1)";
// For calls in which something has to happen before the time limit, also on a busy machine.
constexpr const char* kLater = R"(,"timeoutSeconds":5)";
constexpr unsigned kTryAgain = 11;

class QueuedDel : public testing::Test {
 protected:
  [[nodiscard]] cni_testing::PluginCall Call(const std::string& verb, const std::string& container = "c1",
                                             const char* time_limit = kSoon) const {
    cni_testing::PluginCall call = BerthCall(verb, Configuration(socket_, time_limit));
    call.environment["CNI_CONTAINERID"] = container;
    return call;
  }
  [[nodiscard]] PluginOutcome Run(const std::string& verb, const std::string& container = "c1") const {
    return RunPlugin(Call(verb, container));
  }
  [[nodiscard]] node::Folder State() const { return node::Folder::Open(StateOf(socket_)).value(); }
  [[nodiscard]] node::DelQueue Queue() const { return node::DelQueue::Lock(State(), /*deadline=*/0).value(); }
  [[nodiscard]] std::vector<std::string> Queued() const { return Queue().Calls().value(); }

  TemporaryFolder folder_;
  std::string socket_ = folder_ / "agent.sock";
};

TEST_F(QueuedDel, SucceedsAndIsInTheQueueWithItsStartTime) {
  const std::int64_t before = BootNanosNow();
  const PluginOutcome finished = Run("DEL");
  EXPECT_EQ(finished.exit_code, EXIT_SUCCESS) << finished.out;
  EXPECT_EQ(finished.out, "");
  EXPECT_THAT(finished.err, HasSubstr("the DEL waits"));
  EXPECT_GE(finished.took, std::chrono::milliseconds(1000)) << "an agent may have come";
  const auto queued = Queued();
  ASSERT_THAT(queued, SizeIs(1));
  const auto call = cni::ParseForwardedCall(queued.front());
  ASSERT_TRUE(call.has_value());
  EXPECT_EQ(call->environment.verb, cni::Verb::kDel);
  EXPECT_EQ(call->environment.container_id, "c1");
  EXPECT_EQ(cni::ParseConfig(call->config, cni::Verb::kDel)->name, "n1");
  EXPECT_GE(call->started_nanos, before);
  EXPECT_LE(call->started_nanos, BootNanosNow());
}

TEST_F(QueuedDel, IsQueuedAlsoAfterABrokenConnection) {
  auto broken = std::make_unique<ScriptedAgent>(socket_, std::vector{NeverAnswers()});
  PluginProcess process(Call("DEL", "c1", kLater));
  ASSERT_TRUE(Await([&broken] { return !broken->Requests().empty(); }));
  std::filesystem::remove(socket_);
  broken.reset();
  EXPECT_EQ(process.Wait().exit_code, EXIT_SUCCESS);
  EXPECT_THAT(Queued(), SizeIs(1));
}

TEST_F(QueuedDel, IsNotLostIfEightProcessesQueueADelAtOnce) {
  std::vector<std::unique_ptr<PluginProcess>> processes;
  for (int i = 0; i < 8; ++i) {
    processes.push_back(std::make_unique<PluginProcess>(Call("DEL", "c" + std::to_string(i), kLater)));
  }
  for (const auto& process : processes) EXPECT_EQ(process->Wait().exit_code, EXIT_SUCCESS);
  EXPECT_THAT(Queued(), SizeIs(8));
}

// This agent has already read the queue, and will not read it again.
TEST_F(QueuedDel, GoesToAnAgentThatCameWhileItWaitedForTheQueue) {
  std::optional<node::DelQueue> held = Queue();
  PluginProcess process(Call("DEL", "c1", kLater));
  ASSERT_TRUE(Await([this] { return node::IsLockWaitedFor(StateOf(socket_) + "/queue.lock"); }));
  ScriptedAgent agent(socket_, {Answers(200, "")});
  held.reset();
  EXPECT_EQ(process.Wait().exit_code, EXIT_SUCCESS);
  EXPECT_THAT(agent.Stop(), SizeIs(1));
  EXPECT_THAT(Queued(), IsEmpty());
}

TEST_F(QueuedDel, FailsWithTryAgainIfTheQueueIsFull) {
  const std::string full = std::string(node::kQueueBytesMax - 100, 'x') + "\n";
  ASSERT_TRUE(State().Write("queue", full));
  const json error = ErrorOf(Run("DEL"));
  EXPECT_EQ(error["code"], kTryAgain);
  EXPECT_THAT(error["msg"], HasSubstr(StateOf(socket_) + "/queue is full"));
  EXPECT_EQ(State().Read("queue"), full);
}

TEST_F(QueuedDel, FailsWithTryAgainIfItIsTooLargeForTheQueue) {
  cni_testing::PluginCall call = Call("DEL");
  call.input.replace(call.input.find(R"("n1")"), 4, "\"" + std::string(9'000, 'n') + "\"");
  const json error = ErrorOf(RunPlugin(call));
  EXPECT_EQ(error["code"], kTryAgain);
  EXPECT_THAT(error["msg"], HasSubstr("too large for the queue"));
  EXPECT_EQ(Run("DEL").exit_code, EXIT_SUCCESS);
  EXPECT_THAT(Queued(), SizeIs(1));
}

// No ADD of such a network succeeds.
TEST_F(QueuedDel, IsNotNeededIfTheCallIsTooLargeForAnyAgent) {
  cni_testing::PluginCall call = Call("DEL");
  call.input.replace(call.input.find(R"("n1")"), 4, "\"" + std::string(900'000, 'n') + "\"");
  const PluginOutcome outcome = RunPlugin(call);
  EXPECT_EQ(outcome.exit_code, EXIT_SUCCESS) << outcome.out;
  EXPECT_THAT(outcome.err, HasSubstr("larger than 64 KiB"));
  EXPECT_THAT(Queued(), IsEmpty());
}

TEST_F(QueuedDel, CanBeReadAlsoAfterAnIncompleteLine) {
  ASSERT_TRUE(State().Write("queue", R"({"command":"DEL","containerID":"c0)"));
  EXPECT_EQ(Run("DEL").exit_code, EXIT_SUCCESS);
  ASSERT_THAT(Queued(), SizeIs(2));
  EXPECT_FALSE(cni::ParseForwardedCall(Queued()[0]).has_value());
  EXPECT_TRUE(cni::ParseForwardedCall(Queued()[1]).has_value());
}

TEST_F(QueuedDel, FailsWithTryAgainIfTheQueueCannotBeWritten) {
  std::filesystem::create_directories(StateOf(socket_));
  std::filesystem::create_directory(StateOf(socket_) + "/queue");
  EXPECT_EQ(ErrorOf(Run("DEL"))["code"], 5);
}

// `berth` must not append to the target of a link.
TEST_F(QueuedDel, IsNotWrittenThroughASymbolicLink) {
  const std::string target = folder_ / "target";
  std::ofstream(target) << "kept";
  std::filesystem::create_directories(StateOf(socket_));
  std::filesystem::create_symlink(target, StateOf(socket_) + "/queue");
  EXPECT_EQ(ErrorOf(Run("DEL"))["code"], 5);
  EXPECT_EQ(std::filesystem::file_size(target), 4U);
}

class WithoutAnAgent : public QueuedDel, public testing::WithParamInterface<const char*> {};

// A tenant's configuration may name the state folder.
TEST_P(WithoutAnAgent, OnlyADelCreatesTheStateFolder) {
  std::ofstream(socket_ + ".loaded") << "";
  cni_testing::PluginCall call = Call(GetParam());
  call.input.insert(1, R"("prevResult":{},)");
  static_cast<void>(RunPlugin(call));
  EXPECT_FALSE(std::filesystem::exists(StateOf(socket_)));
}

INSTANTIATE_TEST_SUITE_P(Table, WithoutAnAgent, testing::Values("ADD", "CHECK", "GC", "STATUS"),
                         [](const auto& c) { return std::string(c.param); });

class WhereTheModeIsDirect : public QueuedDel, public testing::WithParamInterface<const char*> {};

// In this mode no program would ever read the queue.
TEST_P(WhereTheModeIsDirect, BerthFailsAndSaysThatTheModeIsDirect) {
  ASSERT_TRUE(node::WriteMode(State(), node::NodeMode::kDirect));
  std::ofstream(socket_ + ".loaded") << "";
  cni_testing::PluginCall call = Call(GetParam());
  call.input.insert(1, R"("prevResult":{},)");
  const json error = ErrorOf(RunPlugin(call));
  EXPECT_EQ(error["code"], std::string(GetParam()) == "STATUS" ? 50U : kTryAgain);
  EXPECT_THAT(error["msg"], HasSubstr(StateOf(socket_) + "/mode says direct"));
  EXPECT_THAT(error["details"], HasSubstr("install berth-direct in the place of berth"));
  EXPECT_THAT(Queued(), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Table, WhereTheModeIsDirect, testing::Values("ADD", "DEL", "CHECK", "GC", "STATUS"),
                         [](const auto& c) { return std::string(c.param); });

}  // namespace
}  // namespace berth::cni_plugin
