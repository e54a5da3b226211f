// SPDX-License-Identifier: Apache-2.0
// Cases 81 to 86 and 100: streams, signals, and failures of the API server or the disk.
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "e2e/alone.h"
#include "e2e/conformance/api_away.h"
#include "e2e/conformance/conformance.h"
#include "e2e/conformance/node_agent.h"
#include "e2e/conformance/node_proxy.h"

namespace berth::conformance {
namespace {

using e2e::Fault;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// Extra time for the start and end of a process.
constexpr milliseconds kSlack{1500};

TEST_F(Conformance, Case081_StdoutIsOneJsonValueAlsoWhenItLogsEverything) {
  Call call = Base("ADD");
  call.config["ipam"]["logLevel"] = "debug";
  const PluginOutcome outcome = Run(call);
  EXPECT_TRUE(json::accept(outcome.out)) << outcome.out;
  // In agent mode the plugin writes nothing to stderr, because the agent logs.
  EXPECT_EQ(outcome.err.empty(), InAgentMode()) << outcome.err;
}

TEST_F(Conformance, Case081_LogsGoToTheFileWhereOneIsNamed) {
  Call call = Base("ADD");
  call.config["ipam"]["logFile"] = Scratch() + "/berth.log";
  EXPECT_EQ(Run(call).err, "");
  if (!InAgentMode()) {
    EXPECT_GT(std::filesystem::file_size(Scratch() + "/berth.log"), 0U);
  }
}

TEST_F(Conformance, Case082_AResultThatNobodyReadsIsGivenBack) {
  Call call = Base("ADD");
  call.out = cni_testing::Stdout::kReaderGone;
  EXPECT_GT(Run(call).exit_code, 0);
  EXPECT_THAT(Allocated(), IsEmpty());
}

// The attachment keeps its address, because an earlier ADD has returned it.
TEST_F(Conformance, Case082_ARepeatedAnswerThatNobodyReadsLeavesWhatThePairHas) {
  Ok(Base("ADD"));
  Call call = Base("ADD");
  call.out = cni_testing::Stdout::kReaderGone;
  EXPECT_GT(Run(call).exit_code, 0);
  EXPECT_THAT(Allocated(), ElementsAre("10.1.2.2"));
}

class Proxied : public Conformance {
 protected:
  void SetUp() override { node_.emplace(Scratch()); }
  [[nodiscard]] NodeProxy& node() { return *node_; }
  // A call through the proxy with a time limit of 4 s, because in agent mode a DEL waits for the ADD's end.
  [[nodiscard]] Call Brief(const std::string& verb, const std::string& id = "c1") {
    Call call = node_->Through(Base(verb).With("CNI_CONTAINERID", id));
    call.config["ipam"]["timeoutSeconds"] = 4;
    return call;
  }

 private:
  std::optional<NodeProxy> node_;
};

TEST_F(Proxied, Case083_AfterASignalDuringAddDelLeavesNothing) {
  for (const int signal : {SIGTERM, SIGKILL}) {
    node().FaultAtWrite(0, Fault::kHold);
    SCOPED_TRACE("signal " + std::to_string(signal));
    PluginProcess add(Prepare(Brief("ADD")));
    std::jthread waiting([&] { static_cast<void>(add.Wait()); });
    ASSERT_TRUE(node().proxy().AwaitHeld(seconds(60)));
    add.Signal(signal);
    waiting.join();
    OkSilently(Brief("DEL"));
    node().proxy().Release();  // the dead ADD's write arrives last
    ExpectAllocatedAtLast({});
    EXPECT_THAT(Addresses(Ok(Brief("ADD"))), SizeIs(1));
    OkSilently(Brief("DEL"));
    ExpectAllocatedAtLast({});
  }
}

TEST_F(Conformance, Case084_AnApiServerThatRefusesIsCode11) {
  const RefusingServer server;
  const std::string kubeconfig = WriteKubeconfig(Scratch(), server.Url());
  Call call = WithKubeconfig(Base("ADD"), kubeconfig);
  std::unique_ptr<e2e::AgentProcess> agent;
  if (InAgentMode()) {
    // An agent that has never loaded its blocks. The next case tests an agent that has loaded its blocks.
    agent = StartAgent("refused-" + tag(), kubeconfig, Scratch());
    call = WithSocket(call, agent->settings().socket);
    call.config["ipam"]["timeoutSeconds"] = 2;
  }
  const json error = Error(call, {11}, "127.0.0.1");
  EXPECT_THAT(error.value("msg", ""), testing::Not(HasSubstr("refused by")));
}

TEST_F(Conformance, Case084_AnApiServerThatNeverAnswersIsCode11WithinTheTimeBudget) {
  const SilentServer server;
  Call call = WithKubeconfig(Base("ADD"), WriteKubeconfig(Scratch(), server.Url()));
  std::optional<NodeProxy> node;
  if (InAgentMode()) {
    node.emplace(Scratch());
    call = node->Through(Base("ADD"));
    node->FaultAlways(Fault::kHold);
  }
  for (const int limit : {1, 3}) {
    call.config["ipam"]["timeoutSeconds"] = limit;
    const PluginOutcome outcome = Run(call);
    ExpectError(outcome, {11}, "");
    EXPECT_LT(outcome.took, e2e::Promised(seconds(limit) + kSlack));
  }
  if (node) {
    node->NoFaults();
    OkSilently(node->Through(Base("DEL")));
    node->proxy().Release();
  }
  ExpectAllocatedAtLast({});
}

// The first write to a new pool creates a block; the second container's write patches the block.
TEST_F(Proxied, Case085_ALostAnswerNeitherLeaksNorDoubles) {
  for (const Fault fault : {Fault::kCutBefore, Fault::kCutAfter}) {
    for (const char* id : {"c1", "c2"}) {
      node().FaultAtWrite(0, fault);
      const Call add = node().Through(Base("ADD").With("CNI_CONTAINERID", id));
      const PluginOutcome outcome = Run(add);
      EXPECT_EQ(Addresses(Ok(add)).size(), 1U) << "the retried ADD, after: " << outcome.out;
      EXPECT_THAT(Allocated(), SizeIs(id == std::string("c1") ? 1 : 2));
    }
    for (const char* id : {"c1", "c2"}) OkSilently(node().Through(Base("DEL").With("CNI_CONTAINERID", id)));
    ExpectAllocatedAtLast({});
    cluster().RemoveBlocks(pools()[0]);
  }
}

TEST_F(Proxied, Case085_ACommitAfterTheRetryNeitherLeaksNorDoubles) {
  for (const char* id : {"c1", "c2"}) {
    node().FaultAtWrite(0, Fault::kLate);
    const Call add = node().Through(Base("ADD").With("CNI_CONTAINERID", id));
    const PluginOutcome outcome = Run(add);
    Ok(add);
    node().proxy().Release();
    EXPECT_THAT(Allocated(), SizeIs(id == std::string("c1") ? 1 : 2)) << outcome.out;
  }
  for (const char* id : {"c1", "c2"}) OkSilently(node().Through(Base("DEL").With("CNI_CONTAINERID", id)));
  ExpectAllocatedAtLast({});
}

TEST_F(Conformance, Case086_AStateFolderThatCannotBeUsedIsAnInputError) {
  Call call = Base("ADD");
  std::ofstream(Scratch() + "/file") << "not a folder";
  call.config["ipam"]["stateDir"] = Scratch() + "/file/state";
  if (InAgentMode()) return static_cast<void>(Ok(call));  // in agent mode no program uses this folder
  Error(call, {5}, Scratch() + "/file/state");
}

TEST_F(Conformance, Case086_WithoutAStateFolderTheNodeIsItsAgentsAndNoFolderIsMade) {
  if (InAgentMode()) GTEST_SKIP() << "the node has an agent";
  Call call = Base("ADD");
  const std::string folder = Scratch() + "/missing";
  call.config["ipam"]["stateDir"] = folder;
  Error(call, {11}, folder + "/mode does not say direct");
  EXPECT_FALSE(std::filesystem::exists(folder));
}

TEST_F(Conformance, Case086_ARunFolderThatCannotBeUsedIsAnInputError) {
  if (InAgentMode()) GTEST_SKIP() << "the agent makes the folder";
  Call call = Base("ADD");
  std::ofstream(Scratch() + "/file") << "not a folder";
  for (const std::string& folder : {Scratch() + "/file/run", std::string("/proc/berth")}) {
    call.config["ipam"]["agentSocket"] = folder + "/agent.sock";
    Error(call, {5}, folder);
  }
}

TEST_F(Conformance, Case100_DelWithoutApiServerFailsSoThatItIsRepeated) {
  if (InAgentMode()) GTEST_SKIP() << "the next test covers agent mode";
  Ok(Base("ADD"));
  const RefusingServer server;
  const Call call = WithKubeconfig(Base("DEL"), WriteKubeconfig(Scratch(), server.Url()));
  Error(call, {11}, "127.0.0.1");
  OkSilently(Base("DEL"));
  EXPECT_THAT(Allocated(), IsEmpty());
}

// The DEL that the agent has answered is done, even if the agent is killed meanwhile.
TEST_F(Proxied, Case100_DelWithoutApiServerSucceedsInAgentModeAndIsDoneLater) {
  if (!InAgentMode()) GTEST_SKIP() << "the previous test covers direct mode";
  for (const Fault fault : {Fault::kCutBefore, Fault::kHold}) {
    Ok(Brief("ADD"));
    Ok(Brief("ADD", "c2"));
    node().FaultAlways(fault);
    OkSilently(Brief("DEL"));
    const PluginOutcome second = Run(Brief("DEL", "c2"));
    EXPECT_EQ(second.exit_code, 0) << second.out;
    EXPECT_LT(second.took, e2e::Promised(kSlack)) << "it is known by now that nobody answers";
    node().NoFaults();
    node().ReplaceAgent();
    ExpectAllocatedAtLast({});
    node().proxy().Release();
    ExpectAllocatedAtLast({});
  }
}

}  // namespace
}  // namespace berth::conformance
