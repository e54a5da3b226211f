// SPDX-License-Identifier: Apache-2.0
// Cases 81 to 86 and 100: streams, signals, and an API server or a disk that does not do its part.
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "e2e/conformance/api_away.h"
#include "e2e/conformance/conformance.h"
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

// Room for a process on a busy machine to start and end.
constexpr milliseconds kSlack{1500};

TEST_F(Conformance, Case081_StdoutIsOneJsonValueAlsoWhenItLogsEverything) {
  Call call = Base("ADD");
  call.config["ipam"]["logLevel"] = "debug";
  const PluginOutcome outcome = Run(call);
  EXPECT_TRUE(json::accept(outcome.out)) << outcome.out;
  EXPECT_NE(outcome.err, "");
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
  call.out = e2e::Stdout::kReaderGone;
  EXPECT_GT(Run(call).exit_code, 0);
  EXPECT_THAT(Allocated(), IsEmpty());
}

// What the pair had before stays: another process was told about it.
TEST_F(Conformance, Case082_ARepeatedAnswerThatNobodyReadsLeavesWhatThePairHas) {
  Ok(Base("ADD"));
  Call call = Base("ADD");
  call.out = e2e::Stdout::kReaderGone;
  EXPECT_GT(Run(call).exit_code, 0);
  EXPECT_THAT(Allocated(), ElementsAre("10.1.2.2"));
}

class Proxied : public Conformance {
 protected:
  void SetUp() override {
    if (InAgentMode()) GTEST_SKIP() << "the agent's requests do not pass through the test's proxy";
    node_.emplace(Scratch());
  }
  [[nodiscard]] NodeProxy& node() { return *node_; }

 private:
  std::optional<NodeProxy> node_;
};

TEST_F(Proxied, Case083_AfterASignalDuringAddDelLeavesNothing) {
  for (const int signal : {SIGTERM, SIGKILL}) {
    node().FaultAtWrite(0, Fault::kHold);
    PluginProcess add(Prepare(node().Through(Base("ADD"))));
    std::jthread waiting([&] { static_cast<void>(add.Wait()); });
    ASSERT_TRUE(node().proxy().AwaitHeld(seconds(10)));
    add.Signal(signal);
    waiting.join();
    OkSilently(node().Through(Base("DEL")));
    node().proxy().Release();  // the dead ADD's write arrives last of all
    EXPECT_THAT(Allocated(), IsEmpty()) << "signal " << signal;
    EXPECT_THAT(Addresses(Ok(node().Through(Base("ADD")))), SizeIs(1));
    OkSilently(node().Through(Base("DEL")));
    EXPECT_THAT(Allocated(), IsEmpty());
  }
}

TEST_F(Conformance, Case084_AnApiServerThatRefusesIsCode11) {
  if (InAgentMode()) GTEST_SKIP() << "the agent serves from memory; its own tests stop the API server";
  const RefusingServer server;
  const Call call = WithKubeconfig(Base("ADD"), WriteKubeconfig(Scratch(), server.Url()));
  const json error = Error(call, {11}, "127.0.0.1");
  EXPECT_THAT(error.value("msg", ""), testing::Not(HasSubstr("refused by")));
}

TEST_F(Conformance, Case084_AnApiServerThatNeverAnswersIsCode11WithinTheTimeBudget) {
  if (InAgentMode()) GTEST_SKIP() << "the agent serves from memory; its own tests stop the API server";
  const SilentServer server;
  Call call = WithKubeconfig(Base("ADD"), WriteKubeconfig(Scratch(), server.Url()));
  for (const int limit : {1, 3}) {
    call.config["ipam"]["timeoutSeconds"] = limit;
    const PluginOutcome outcome = Run(call);
    ExpectError(outcome, {11}, "");
    EXPECT_LT(outcome.took, seconds(limit) + kSlack);
  }
  EXPECT_THAT(Allocated(), IsEmpty());
}

// The first write of a new pool creates a block, that of the second container changes it.
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
    EXPECT_THAT(Allocated(), IsEmpty());
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
  EXPECT_THAT(Allocated(), IsEmpty());
}

TEST_F(Conformance, Case086_AStateFolderThatCannotBeUsedIsAnInputError) {
  if (InAgentMode()) GTEST_SKIP() << "the agent's folder is not the call's";
  Call call = Base("ADD");
  std::ofstream(Scratch() + "/file") << "not a folder";
  for (const std::string& folder : {Scratch() + "/file/state", std::string("/proc/berth")}) {
    call.config["ipam"]["stateDir"] = folder;
    Error(call, {5}, folder);
  }
}

TEST_F(Conformance, Case100_DelWithoutApiServerFailsSoThatItIsRepeated) {
  Ok(Base("ADD"));
  const RefusingServer server;
  const Call call = WithKubeconfig(Base("DEL"), WriteKubeconfig(Scratch(), server.Url()));
  if (InAgentMode()) {
    OkSilently(call);  // journalled
    return;
  }
  Error(call, {11}, "127.0.0.1");
  OkSilently(Base("DEL"));
  EXPECT_THAT(Allocated(), IsEmpty());
}

}  // namespace
}  // namespace berth::conformance
