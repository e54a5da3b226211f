// SPDX-License-Identifier: Apache-2.0
// `berth` when the agent is missing, closes the connection, is late or sends nonsense: which calls it repeats, which
// ADDs it takes back, and that the call ends in time with one error object.
#include <filesystem>
#include <fstream>
#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cni-plugin/agent_socket.h"
#include "cni-plugin/berth_test_setup.h"
#include "cni-plugin/scripted_agent.h"

namespace berth::cni_plugin {
namespace {

using nlohmann::json;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kFailureResult = R"({"cniVersion":"1.1.0","ips":[{"address":"10.55.0.2/24"}]})";
constexpr const char* kOneSecond = R"(,"timeoutSeconds":1)";
// A time limit for calls that an agent never answers. Within it berth must start, connect and send its request.
constexpr const char* kThreeSeconds = R"(,"timeoutSeconds":3)";

std::vector<std::string> Verbs(const std::vector<json>& requests) {
  std::vector<std::string> verbs;
  for (const json& request : requests) verbs.push_back(request["command"]);
  return verbs;
}

class Berth : public testing::Test {
 protected:
  TemporaryFolder folder_;
  std::string socket_ = folder_ / "agent.sock";

  // Leaves a socket file on which no process listens, like an agent that was killed.
  void LeaveSocket() const { const Descriptor gone = Listen(socket_); }
};

class AbsentAgent : public Berth {};

TEST_F(AbsentAgent, IsReportedWhenTheTimeLimitHasPassed) {
  std::string configuration = Configuration(socket_, kOneSecond);
  configuration.insert(1, R"("prevResult":{},)");
  for (const char* verb : {"ADD", "CHECK", "GC"}) {
    const PluginOutcome finished = RunBerth(verb, configuration);
    const json error = ErrorOf(finished);
    EXPECT_EQ(error["code"], 11) << verb;
    EXPECT_EQ(error["msg"], "no berth-agent answers on " + socket_ + "; is its pod running on this node?");
    EXPECT_GE(finished.took, seconds(1)) << "it may have come";
    EXPECT_LT(finished.took, seconds(10)) << "berth waits 10 s if the time limit allows";
  }
}

TEST_F(AbsentAgent, IsWaitedForByEveryVerbThatChangesOrChecks) {
  std::string configuration = Configuration(socket_);
  configuration.insert(1, R"("prevResult":{},)");
  for (const char* verb : {"ADD", "DEL", "CHECK", "GC"}) {
    std::filesystem::remove(socket_);
    PluginProcess process(BerthCall(verb, configuration));
    ASSERT_TRUE(AwaitWaiting(process)) << verb;
    ScriptedAgent agent(socket_, {Answers(200, kFailureResult)});
    EXPECT_EQ(process.Wait().exit_code, EXIT_SUCCESS) << verb;
    EXPECT_THAT(Verbs(agent.Stop()), ElementsAre(verb));
  }
}

TEST_F(AbsentAgent, IsWaitedForIfTheSocketsFolderIsMissing) {
  const std::string deep = folder_ / "run/berth/agent.sock";
  PluginProcess process(BerthCall("ADD", Configuration(deep)));
  ASSERT_TRUE(AwaitWaiting(process));
  std::filesystem::create_directories(folder_ / "run/berth");
  const ScriptedAgent agent(deep, {Answers(200, kFailureResult)});
  EXPECT_EQ(process.Wait().exit_code, EXIT_SUCCESS);
}

TEST_F(AbsentAgent, IsFoundWhenItRenamesItsSocketIntoPlace) {
  PluginProcess process(BerthCall("ADD", Configuration(socket_)));
  ASSERT_TRUE(AwaitWaiting(process));
  const ScriptedAgent agent(socket_ + ".new", {Answers(200, kFailureResult)});
  std::filesystem::rename(socket_ + ".new", socket_);
  EXPECT_EQ(process.Wait().exit_code, EXIT_SUCCESS);
}

TEST_F(AbsentAgent, IsWaitedForIfADeadAgentLeftItsSocket) {
  LeaveSocket();
  PluginProcess process(BerthCall("ADD", Configuration(socket_)));
  ASSERT_TRUE(AwaitWaiting(process));
  std::filesystem::remove(socket_);
  const ScriptedAgent agent(socket_, {Answers(200, kFailureResult)});
  EXPECT_EQ(process.Wait().exit_code, EXIT_SUCCESS);
}

TEST_F(AbsentAgent, FailsTheStatusAtOnceIfNoneHasLoadedSinceBoot) {
  PluginOutcome finished;
  // A STATUS may take 5 s. On a busy machine the start of a process may take as long.
  EXPECT_TRUE(Await([&] {
    finished = RunBerth("STATUS", Configuration(socket_));
    return finished.took < seconds(5);
  }));
  const json error = ErrorOf(finished);
  EXPECT_EQ(error["code"], 50);
  EXPECT_THAT(error["msg"], HasSubstr("no berth-agent answers on " + socket_));
}

TEST_F(AbsentAgent, ThatIsRestartingDoesNotFailTheStatus) {
  std::ofstream(socket_ + ".loaded") << "";
  EXPECT_EQ(RunBerth("STATUS", Configuration(socket_)).exit_code, EXIT_SUCCESS);
}

TEST_F(AbsentAgent, IsNotWaitedForIfAFileIsInThePlaceOfTheSocketsFolder) {
  std::ofstream(folder_ / "file") << "";
  const PluginOutcome finished = RunBerth("DEL", Configuration(folder_ / "file/agent.sock"));
  EXPECT_EQ(ErrorOf(finished)["code"], 5);
  EXPECT_LT(finished.took, seconds(10)) << "berth waits 10 s for an absent agent";
}

class OverloadedAgent : public Berth {};

TEST_F(OverloadedAgent, IsWaitedForWhileItsConnectionQueueIsFull) {
  Descriptor listener = Listen(socket_, 0);
  PluginProcess first(BerthCall("ADD", Configuration(socket_)));
  PluginProcess second(BerthCall("ADD", Configuration(socket_)));
  PluginProcess third(BerthCall("ADD", Configuration(socket_)));
  const ScriptedAgent agent(std::move(listener), std::vector(3, Answers(200, kFailureResult)));
  EXPECT_EQ(first.Wait().exit_code, EXIT_SUCCESS);
  EXPECT_EQ(second.Wait().exit_code, EXIT_SUCCESS);
  EXPECT_EQ(third.Wait().exit_code, EXIT_SUCCESS);
}

TEST_F(OverloadedAgent, MakesTheCallFailInTimeIfItAcceptsNoMoreCalls) {
  const Descriptor listener = Listen(socket_, 0);
  const auto waiting = Connect(socket_, Deadline::In(seconds(60)));
  ASSERT_TRUE(waiting.has_value());
  const PluginOutcome finished = RunBerth("ADD", Configuration(socket_, kOneSecond));
  EXPECT_EQ(ErrorOf(finished)["code"], 11);
  EXPECT_THAT(ErrorOf(finished)["msg"], HasSubstr("accepts no more calls"));
  EXPECT_LT(finished.took, seconds(10)) << "berth waits 10 s if the time limit allows";
}

// Anything that an agent may do instead of a valid answer.
struct Misbehaviour {
  const char* name;
  Reaction reaction;
};
class InvalidAnswer : public testing::TestWithParam<Misbehaviour> {
 protected:
  TemporaryFolder folder_;
  std::string socket_ = folder_ / "agent.sock";
};

TEST_P(InvalidAnswer, MakesBerthSendADelThatStartsRightAfterTheAdd) {
  const Reaction& reaction = GetParam().reaction;
  ScriptedAgent agent(socket_, {reaction, Answers(200, "")});
  const json error = ErrorOf(RunBerth("ADD", Configuration(socket_, reaction.holds ? kThreeSeconds : "")));
  EXPECT_EQ(error["code"], 11) << error;
  const auto requests = agent.Stop();
  ASSERT_THAT(Verbs(requests), ElementsAre("ADD", "DEL"));
  EXPECT_EQ(requests[1]["containerID"], "c1");
  EXPECT_EQ(requests[1]["ifname"], "eth0");
  EXPECT_EQ(requests[1]["config"]["name"], "n1");
  EXPECT_EQ(requests[1]["startedBootNanos"], requests[0]["startedBootNanos"].get<std::int64_t>() + 1);
}

INSTANTIATE_TEST_SUITE_P(
    Table, InvalidAnswer,
    testing::Values(Misbehaviour{"Closes", Closes()},
                    Misbehaviour{"ClosesMidAnswer", Sends("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"ips\":")},
                    Misbehaviour{"NeverAnswers", NeverAnswers()}, Misbehaviour{"IsNoHttp", Sends("+PONG\r\n\r\n")},
                    Misbehaviour{"SendsEndlessHead", Sends("HTTP/1.1 200 OK\r\n" + std::string(1U << 20U, 'x'))},
                    Misbehaviour{"SendsTooMuch", Answers(200, std::string((1U << 20U) + 1, 'x'))},
                    Misbehaviour{"AnswersAddWithNothing", Answers(200, "")},
                    Misbehaviour{"AnswersAddWithText", Answers(200, "fine")},
                    Misbehaviour{"AnswersAddWithAList", Answers(200, "[]")},
                    Misbehaviour{"FailsWithoutAnError", Answers(500, "")},
                    Misbehaviour{"FailsWithAPage", Answers(503, "<html>upstream</html>")},
                    Misbehaviour{"FailsWithACodeThatIsText", Answers(500, R"({"code":"11","msg":"x"})")}),
    [](const auto& c) { return std::string(c.param.name); });

class BrokenConnection : public Berth {};

TEST_F(BrokenConnection, MakesBerthSendTheDelASecondTime) {
  ScriptedAgent agent(socket_, {Closes(), Answers(200, "")});
  EXPECT_EQ(RunBerth("DEL", Configuration(socket_)).exit_code, EXIT_SUCCESS);
  EXPECT_THAT(Verbs(agent.Stop()), ElementsAre("DEL", "DEL"));
}

TEST_F(BrokenConnection, MakesBerthSendTheDelNoThirdTime) {
  ScriptedAgent agent(socket_, {Closes(), Closes(), Answers(200, "")});
  EXPECT_EQ(ErrorOf(RunBerth("DEL", Configuration(socket_)))["code"], 11);
  EXPECT_THAT(Verbs(agent.Stop()), ElementsAre("DEL", "DEL"));
}

TEST_F(BrokenConnection, MakesBerthWaitForTheNextAgent) {
  auto broken = std::make_unique<ScriptedAgent>(socket_, std::vector{NeverAnswers()});
  PluginProcess process(BerthCall("DEL", Configuration(socket_)));
  ASSERT_TRUE(Await([&broken] { return !broken->Requests().empty(); }));
  std::filesystem::remove(socket_);
  broken.reset();
  ASSERT_TRUE(AwaitWaiting(process));
  const ScriptedAgent agent(socket_, {Answers(200, "")});
  EXPECT_EQ(process.Wait().exit_code, EXIT_SUCCESS);
}

TEST_F(BrokenConnection, MakesTheAddFailIfTheAgentNeverReadsIt) {
  const ScriptedAgent agent(socket_, std::vector(3, ClosesUnread()));
  EXPECT_EQ(ErrorOf(RunBerth("ADD", Configuration(socket_)))["code"], 11);
}

TEST_F(BrokenConnection, MakesTheStatusFailWithCode50) {
  const ScriptedAgent agent(socket_, {Closes(), Closes()});
  EXPECT_EQ(ErrorOf(RunBerth("STATUS", Configuration(socket_)))["code"], 50);
}

class SilentAgent : public Berth {};

TEST_F(SilentAgent, MakesADelFailInTimeWithoutASecondDel) {
  ScriptedAgent agent(socket_, {NeverAnswers(), NeverAnswers()});
  const PluginOutcome finished = RunBerth("DEL", Configuration(socket_, kThreeSeconds));
  EXPECT_EQ(ErrorOf(finished)["code"], 11);
  EXPECT_GE(finished.took, seconds(3));
  EXPECT_THAT(Verbs(agent.Stop()), ElementsAre("DEL"));
}

TEST_F(SilentAgent, MakesAnAddFailInTimeEvenIfItsDelIsNotAnswered) {
  ScriptedAgent agent(socket_, {NeverAnswers(), NeverAnswers()});
  const PluginOutcome finished = RunBerth("ADD", Configuration(socket_, kThreeSeconds));
  EXPECT_EQ(ErrorOf(finished)["code"], 11);
  EXPECT_THAT(finished.err, HasSubstr("give back the address that this ADD may have got"));
  EXPECT_THAT(Verbs(agent.Stop()), ElementsAre("ADD", "DEL"));
}

TEST_F(SilentAgent, MakesAStatusFailSoonerThanOtherCalls) {
  const ScriptedAgent agent(socket_, {NeverAnswers()});
  const PluginOutcome finished = RunBerth("STATUS", Configuration(socket_, R"(,"timeoutSeconds":60)"));
  EXPECT_EQ(ErrorOf(finished)["code"], 50);
  EXPECT_LT(finished.took, seconds(30));
}

}  // namespace
}  // namespace berth::cni_plugin
