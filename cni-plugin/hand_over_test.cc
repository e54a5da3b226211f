// SPDX-License-Identifier: Apache-2.0
// berth-direct while an agent of its node lives: the call is the agent's. The API server of its kubeconfig is never
// asked: nobody listens there.
#include <fstream>
#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cni-plugin/deadline.h"
#include "cni-plugin/plugin_process.h"
#include "cni-plugin/scripted_agent.h"
#include "node/node_directory.h"

namespace berth::cni_plugin {
namespace {

using nlohmann::json;
using testing::SizeIs;

constexpr const char* kHandOverResult = R"({"cniVersion":"1.1.0","ips":[{"address":"10.55.0.2/24"}]})";
constexpr unsigned kTryAgain = 11;

class HandOver : public testing::Test {
 protected:
  HandOver() {
    std::ofstream(folder_ / "kubeconfig") << R"({"apiVersion":"v1","kind":"Config","current-context":"c",
      "contexts":[{"name":"c","context":{"cluster":"k","user":"u"}}],
      "clusters":[{"name":"k","cluster":{"server":"http://127.0.0.1:1"}}],"users":[{"name":"u","user":{}}]})";
  }

  [[nodiscard]] PluginProcess::Options Call(const std::string& verb, const std::string& more = "") const {
    std::string configuration = Configuration(socket_,
                                              R"(,"nodeName":"n1","kubeconfig":")" + (folder_ / "kubeconfig") +
                                                  R"(","stateDir":")" + (folder_ / "run") + "\"" + more);
    configuration.insert(1, R"("prevResult":{},"cni.dev/valid-attachments":[],)");
    return {.variables = CallVariables(verb), .input = configuration, .program = BERTH_DIRECT_PROGRAM};
  }
  [[nodiscard]] node::NodeDirectory Directory() const {
    return node::NodeDirectory::Open(folder_ / "run", "n1", "https://in.cluster").value();
  }

  // Until it waits for the socket of an agent that it knows to live: nothing else makes it pause.
  [[nodiscard]] static bool AwaitPause(const PluginProcess& process) {
    return Await([&process] {
      std::ifstream file("/proc/" + std::to_string(process.pid()) + "/wchan");
      std::string where;
      return static_cast<bool>(file >> where) && where.find("poll") != std::string::npos;
    });
  }

  TemporaryFolder folder_;
  std::string socket_ = folder_ / "agent.sock";
  // An agent's.
  std::optional<node::HeldFile> life_ = Directory().HoldAgent().value();
};

class HandOverOf : public HandOver, public testing::WithParamInterface<const char*> {};

TEST_P(HandOverOf, EveryVerbThatLooksAtBlocksReachesTheAgent) {
  ScriptedAgent agent(socket_, {Answers(200, kHandOverResult)});
  const Finished finished = PluginProcess(Call(GetParam())).Wait();
  EXPECT_EQ(finished.status, EXIT_SUCCESS) << finished.out;
  EXPECT_EQ(finished.out, std::string(kHandOverResult) + "\n");
  const auto requests = agent.Stop();
  ASSERT_THAT(requests, SizeIs(1));
  EXPECT_EQ(requests[0]["command"], GetParam());
}

INSTANTIATE_TEST_SUITE_P(Table, HandOverOf, testing::Values("ADD", "DEL", "CHECK", "GC"),
                         [](const auto& c) { return std::string(c.param); });

TEST_F(HandOver, TheAgentIsToldWhenTheCallBegan) {
  ScriptedAgent agent(socket_, {Answers(200, kHandOverResult)});
  PluginProcess::Options call = Call("ADD");
  const std::int64_t began = BootNanosNow() - 1'000'000'000;
  call.variables["BERTH_STARTED_BOOT_NANOS"] = std::to_string(began);
  EXPECT_EQ(PluginProcess(call).Wait().status, EXIT_SUCCESS);
  const auto requests = agent.Stop();
  ASSERT_THAT(requests, SizeIs(1));
  EXPECT_EQ(requests[0]["startedBootNanos"], began);
}

TEST_F(HandOver, AnAgentThatStartsIsWaitedFor) {
  PluginProcess process(Call("ADD"));
  ASSERT_TRUE(AwaitPause(process));
  const ScriptedAgent agent(socket_, {Answers(200, kHandOverResult)});
  EXPECT_EQ(process.Wait().status, EXIT_SUCCESS);
}

TEST_F(HandOver, ACallThatMetAnAgentWhichThenEndsIsServedDirectly) {
  PluginProcess process(Call("ADD"));
  ASSERT_TRUE(AwaitPause(process));
  life_.reset();
  const json error = ErrorOf(process.Wait());
  EXPECT_EQ(error["code"], kTryAgain);
  EXPECT_THAT(error["msg"], testing::HasSubstr("127.0.0.1:1")) << "the API server was asked";
}

TEST_F(HandOver, AnAgentThatDoesNotListenIsNamed) {
  const json error = ErrorOf(PluginProcess(Call("DEL", R"(,"timeoutSeconds":1)")).Wait());
  EXPECT_EQ(error["code"], kTryAgain);
  EXPECT_THAT(error["msg"], testing::HasSubstr("an agent serves node n1"));
}

}  // namespace
}  // namespace berth::cni_plugin
