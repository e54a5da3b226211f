// SPDX-License-Identifier: Apache-2.0
// The programs: berth without an agent, changes of a node's mode, the end of an agent, its socket, its costs, and its
// errors about invalid options.
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>

#include <gmock/gmock.h>

#include "e2e/agent/node_fixture.h"
#include "e2e/alone.h"
#include "e2e/fault_proxy.h"
#include "k8sclient/verbs.h"

namespace berth::e2e {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr unsigned kNotReady = 50;

class ProgramTest : public NodeTest {
 protected:
  // Starts an agent that reaches the API server through the proxy, and waits until it is ready.
  [[nodiscard]] std::unique_ptr<AgentProcess> ReadyAgentBehind(const FaultProxy& proxy) const {
    const std::string kubeconfig = scratch() + "/proxy.kubeconfig";
    std::ofstream(kubeconfig) << ProxyKubeconfig(proxy.Url(), "agent");
    auto agent = StartAgent("agent", kubeconfig);
    EXPECT_TRUE(agent->AwaitReady());
    return agent;
  }
  // A call of berth-direct, with berth's configuration.
  [[nodiscard]] PluginCall DirectCallOf(const std::string& verb, const std::string& id,
                                        const std::string& kubeconfig = "") const {
    PluginCall call =
        CallOf(verb,
               id,
               SocketPath(),
               {{"kubeconfig", kubeconfig.empty() ? AgentKubeconfig() : kubeconfig}, {"nodeName", "node-" + tag()}});
    call.binary = std::filesystem::path(call.binary).parent_path() / "berth-direct";
    return call;
  }
  // The exit status of berth-agent --retire.
  [[nodiscard]] int Retire() const { return StartAgent("agent", "", {"--retire"})->AwaitEnd(seconds(60)).value_or(-1); }
  [[nodiscard]] std::string Mode() const { return scratch() + "/state/mode"; }
  [[nodiscard]] std::string Log() const {
    std::stringstream text;
    text << std::ifstream(scratch() + "/agent.log").rdbuf();
    return text.str();
  }
  [[nodiscard]] bool IsReady() const {
    const auto answer = GetOverSocket(SocketPath(), "/readyz");
    return answer && answer->status == 200;
  }
};

// The agent's notes are files beside its socket; no option sets their place.
TEST_F(ProgramTest, WhatAnAgentAnsweredAndDidNotWriteIsKeptByTheNextOneAtItsSocket) {
  FaultProxy proxy(UpstreamOf(AgentKubeconfig()));
  auto first = ReadyAgentBehind(proxy);
  for (const char* const id : {"c1", "c2"}) ASSERT_NE(AddressOf(RunPlugin(CallOf("ADD", id, SocketPath()))), "");
  ASSERT_TRUE(Eventually([this] { return Allocated().size() == 2; }));
  proxy.Reset([](const SeenRequest& request) { return request.method == "PATCH" ? Fault::kCutBefore : Fault::kNone; });
  const std::string answered = AddressOf(RunPlugin(CallOf("ADD", "c3", SocketPath())));
  ASSERT_NE(answered, "");
  first->Kill();
  ASSERT_THAT(Allocated(), SizeIs(2));

  const auto next = ReadyAgent();
  EXPECT_NE(AddressOf(RunPlugin(CallOf("ADD", "c4", SocketPath()))), answered);
  EXPECT_TRUE(Eventually([this] { return Allocated().size() == 4; })) << "three answered before, and one now";
}

TEST_F(ProgramTest, ADelWithoutAnAgentSucceedsAndIsWrittenBeforeTheNextOneIsReady) {
  {
    const auto agent = ReadyAgent();
    ASSERT_NE(AddressOf(RunPlugin(CallOf("ADD", "c1", SocketPath()))), "");
    ASSERT_NE(AddressOf(RunPlugin(CallOf("ADD", "c2", SocketPath()))), "");
    EXPECT_TRUE(Eventually([this] { return Allocated().size() == 2; }));
    agent->Kill();
  }
  const PluginOutcome outcome = RunPlugin(CallOf("DEL", "c1", SocketPath(), {{"timeoutSeconds", 1}}));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out;
  EXPECT_THAT(outcome.err, HasSubstr("the DEL waits"));
  EXPECT_THAT(Allocated(), SizeIs(2));
  const auto agent = ReadyAgent();
  EXPECT_THAT(Allocated(), SizeIs(1));
}

TEST_F(ProgramTest, WhereAnAgentServesADirectCallIsRefused) {
  EXPECT_EQ(CodeOf(RunPlugin(DirectCallOf("ADD", "c1"))), kTryAgain) << "no mode is the agent's";
  const auto agent = ReadyAgent();
  const PluginOutcome refused = RunPlugin(DirectCallOf("ADD", "c1"));
  EXPECT_EQ(CodeOf(refused), kTryAgain);
  EXPECT_THAT(refused.out, HasSubstr(Mode()));
  EXPECT_THAT(Allocated(), IsEmpty());
}

TEST_F(ProgramTest, ANodeGoesFromItsAgentToDirectModeAndBack) {
  std::string first;
  {
    const auto agent = ReadyAgent();
    first = AddressOf(RunPlugin(CallOf("ADD", "c1", SocketPath())));
    ASSERT_NE(first, "");
    EXPECT_EQ(Retire(), 0) << Log();
    EXPECT_EQ(agent->AwaitEnd(seconds(60)).value_or(-1), 1) << "the one that served ends";
  }
  EXPECT_EQ(StartAgent()->AwaitEnd(seconds(60)).value_or(-1), 1) << "no agent starts";
  EXPECT_THAT(Log(), HasSubstr(Mode() + " says direct"));
  EXPECT_THAT(RunPlugin(CallOf("DEL", "c1", SocketPath(), {{"timeoutSeconds", 1}})).out, HasSubstr("says direct"));
  EXPECT_EQ(AddressOf(RunPlugin(DirectCallOf("ADD", "c1"))), first);
  EXPECT_NE(AddressOf(RunPlugin(DirectCallOf("ADD", "c2"))), "");
  EXPECT_EQ(RunPlugin(DirectCallOf("DEL", "c1")).exit_code, 0);

  std::filesystem::remove(Mode());
  const auto agent = ReadyAgent();
  EXPECT_THAT(Allocated(), SizeIs(1));
  EXPECT_EQ(RunPlugin(CallOf("DEL", "c2", SocketPath())).exit_code, 0);
  EXPECT_TRUE(Eventually([this] { return Allocated().empty(); }));
}

TEST_F(ProgramTest, AnAgentThatStartsWaitsForADirectAddThatRuns) {
  std::filesystem::create_directories(scratch() + "/state");
  std::ofstream(Mode()) << "direct\n";
  FaultProxy proxy(UpstreamOf(AgentKubeconfig()));
  const std::string kubeconfig = scratch() + "/proxy.kubeconfig";
  std::ofstream(kubeconfig) << ProxyKubeconfig(proxy.Url(), "node");
  proxy.Reset([](const SeenRequest& request) { return request.method == "POST" ? Fault::kPause : Fault::kNone; });
  PluginProcess add(DirectCallOf("ADD", "c1", kubeconfig));
  PluginOutcome outcome;
  std::jthread waiting([&] { outcome = add.Wait(); });
  ASSERT_TRUE(proxy.AwaitHeld(seconds(60)));
  std::filesystem::remove(Mode());
  const auto agent = StartAgent();
  EXPECT_TRUE(Eventually([this] { return Log().find("a call of berth-direct has not ended") != std::string::npos; }));
  EXPECT_FALSE(IsReady());
  proxy.Reset([](const SeenRequest&) { return Fault::kNone; });
  proxy.Resume();
  waiting.join();
  EXPECT_NE(AddressOf(outcome), "") << outcome.out;
  ASSERT_TRUE(agent->AwaitReady());
  EXPECT_EQ(RunPlugin(CallOf("DEL", "c1", SocketPath())).exit_code, 0);
  EXPECT_TRUE(Eventually([this] { return Allocated().empty(); })) << "the agent knows what direct mode claimed";
}

TEST_F(ProgramTest, ARetiredAgentHasWrittenAndFencedWhatAKilledOneLeft) {
  FaultProxy proxy(UpstreamOf(AgentKubeconfig()));
  const auto agent = ReadyAgentBehind(proxy);
  // The agent has claimed the block in advance; its first write to the block puts addresses on standby.
  for (const char* const container : {"c0", "c00"}) {
    ASSERT_NE(AddressOf(RunPlugin(CallOf("ADD", container, SocketPath()))), "");
  }
  ASSERT_TRUE(Eventually([this] { return Allocated().size() == 2; })) << "what was handed out is written";
  proxy.Reset([](const SeenRequest& request) { return request.method == "PATCH" ? Fault::kHold : Fault::kNone; });
  const PluginOutcome handed_out = RunPlugin(CallOf("ADD", "c1", SocketPath()));
  ASSERT_NE(AddressOf(handed_out), "") << handed_out.out;
  ASSERT_TRUE(proxy.AwaitHeld(seconds(60)));
  agent->Kill();
  EXPECT_THAT(Allocated(), SizeIs(2));
  EXPECT_EQ(Retire(), 0) << Log();
  EXPECT_THAT(proxy.Release(), testing::Each(409));
  EXPECT_THAT(Allocated(), SizeIs(3));
  EXPECT_EQ(AddressOf(RunPlugin(DirectCallOf("ADD", "c1"))), AddressOf(handed_out));
  EXPECT_NE(AddressOf(RunPlugin(DirectCallOf("ADD", "c2"))), AddressOf(handed_out));
}

TEST_F(ProgramTest, ACallWaitsForAnAgentThatRestarts) {
  PluginProcess add(CallOf("ADD", "c1", SocketPath()));
  PluginOutcome outcome;
  std::jthread waiting([&] { outcome = add.Wait(); });
  // Waits until the plugin is in poll: it has read its input and waits for the agent.
  ASSERT_TRUE(Eventually([&] {
    std::ifstream call("/proc/" + std::to_string(add.pid()) + "/wchan");
    std::string where;
    return static_cast<bool>(call >> where) && where.find("poll") != std::string::npos;
  }));
  const auto agent = StartAgent();
  waiting.join();
  EXPECT_NE(AddressOf(outcome), "") << outcome.out << outcome.err;
}

TEST_F(ProgramTest, ACallWaitsTenSecondsForAnAgentThatDoesNotCome) {
  const PluginOutcome outcome = RunPlugin(CallOf("ADD", "c1", SocketPath()));
  EXPECT_EQ(CodeOf(outcome), kTryAgain);
  EXPECT_GE(outcome.took, milliseconds(9'900));
  EXPECT_LT(outcome.took, Promised(seconds(14)));
  EXPECT_THAT(outcome.out, HasSubstr(SocketPath()));
}

TEST_F(ProgramTest, StatusFailsOnlyWhereNoAgentHasLoadedYet) {
  EXPECT_EQ(CodeOf(RunPlugin(CallOf("STATUS", "", SocketPath()))), kNotReady);
  const auto agent = ReadyAgent();
  EXPECT_EQ(RunPlugin(CallOf("STATUS", "", SocketPath())).exit_code, 0);
  agent->Kill();
  EXPECT_EQ(RunPlugin(CallOf("STATUS", "", SocketPath())).exit_code, 0);
}

TEST_F(ProgramTest, SigtermFinishesTheCallsThatRun) {
  FaultProxy proxy(UpstreamOf(AgentKubeconfig()));
  const auto agent = ReadyAgentBehind(proxy);
  // The agent has a block with free addresses, so a held PATCH can only come from the next ADD.
  ASSERT_NE(AddressOf(RunPlugin(CallOf("ADD", "c0", SocketPath()))), "");
  proxy.Reset([](const SeenRequest& request) { return request.method == "PATCH" ? Fault::kPause : Fault::kNone; });
  PluginProcess add(CallOf("ADD", "c1", SocketPath()));
  PluginOutcome outcome;
  std::jthread waiting([&] { outcome = add.Wait(); });
  ASSERT_TRUE(proxy.AwaitHeld(seconds(60)));
  agent->Signal(SIGTERM);
  EXPECT_TRUE(Eventually([&] { return !GetOverSocket(SocketPath(), "/healthz"); })) << "later calls wait for the next";
  proxy.Reset([](const SeenRequest&) { return Fault::kNone; });
  proxy.Resume();
  waiting.join();
  EXPECT_NE(AddressOf(outcome), "") << outcome.out;
  EXPECT_EQ(agent->AwaitEnd(seconds(60)).value_or(-1), 0);
}

TEST_F(ProgramTest, TheSocketAnswersPeopleAndIsForRootAlone) {
  const auto agent = ReadyAgent();
  ASSERT_NE(AddressOf(RunPlugin(CallOf("ADD", "c1", SocketPath()))), "");
  struct stat made = {};
  ASSERT_EQ(stat(SocketPath().c_str(), &made), 0);
  EXPECT_EQ(made.st_mode & 07777U, 0600U);
  EXPECT_EQ(GetOverSocket(SocketPath(), "/healthz")->status, 200);
  EXPECT_EQ(GetOverSocket(SocketPath(), "/readyz")->status, 200);
  EXPECT_EQ(GetOverSocket(SocketPath(), "/nonsense")->status, 404);
  EXPECT_EQ(MetricOf(SocketPath(), "berth_agent_calls_total", "verb=\"ADD\""), 1);
  EXPECT_THAT(GetOverSocket(SocketPath(), "/metrics")->body, HasSubstr("berth_agent_call_seconds_bucket"));
  const json debug = json::parse(GetOverSocket(SocketPath(), "/debug/blocks")->body);
  EXPECT_EQ(debug.value("node", ""), "node-" + tag());
  ASSERT_THAT(debug["blocks"], testing::Not(IsEmpty()));
  EXPECT_THAT(debug["journal"], IsEmpty());
}

// The agent's role has no rights in pods' namespaces, so this test's agent runs as the administrator.
TEST_F(ProgramTest, AnnotationsComeFromThePodWhereThatIsConfigured) {
  const std::string chosen = "q-" + tag();
  cluster().CreateReadyPool(chosen, {{"space", "s-" + tag()}, {"subnet", "10.66.0.0/24"}, {"allowAnnotation", true}});
  const std::string pods = "/api/v1/namespaces/default/pods";
  const std::string name = "web-" + tag();
  const json pod = {{"apiVersion", "v1"},
                    {"kind", "Pod"},
                    {"metadata", {{"name", name}, {"annotations", {{"ipam.berth.dev/pools", chosen}}}}},
                    {"spec", {{"containers", {{{"name", "x"}, {"image", "example.org/x"}}}}}}};
  const auto options = [] { return k8sclient::CallOptions::Within(seconds(10)); };
  // Kubernetes creates the namespace's service account a moment after the cluster's start.
  ASSERT_TRUE(Eventually([&] { return k8sclient::Create(cluster().api(), pods, pod, options()).has_value(); }));
  const auto agent = StartAgent("agent", Setting("BERTH_TEST_KUBECONFIG"), {"--read-pods"});
  ASSERT_TRUE(agent->AwaitReady());
  PluginCall add = CallOf("ADD", "c1", SocketPath());
  add.environment["CNI_ARGS"] = "IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=" + name;
  EXPECT_THAT(AddressOf(RunPlugin(add)), testing::StartsWith("10.66.0."));
  EXPECT_THAT(AddressOf(RunPlugin(CallOf("ADD", "c2", SocketPath()))), testing::StartsWith("10.55."));
  add.environment["CNI_ARGS"] += ";K8S_POD_UID=11111111-2222-3333-4444-555555555555";
  add.environment["CNI_CONTAINERID"] = "c3";
  EXPECT_EQ(CodeOf(RunPlugin(add)), kTryAgain) << "another pod of that name";
  EXPECT_TRUE(k8sclient::Delete(cluster().api(), pods + "/" + name, {}, options()).has_value());
  cluster().RemoveBlocks(chosen);
  cluster().DeletePool(chosen);
}

TEST_F(ProgramTest, SayTheirVersion) {
  const std::filesystem::path folder = std::filesystem::path(Setting("BERTH_AGENT")).parent_path();
  for (const char* name : {"berth", "berth-direct", "berth-agent", "berth-controller"}) {
    const std::string command = (folder / name).string() + " --version >" + scratch() + "/version";
    EXPECT_EQ(std::system(command.c_str()), 0);  // NOLINT(bugprone-command-processor,concurrency-mt-unsafe)
    std::string line;
    std::getline(std::ifstream(scratch() + "/version"), line);
    EXPECT_THAT(line, testing::MatchesRegex(std::string(name) + " [0-9]+\\.[0-9]+\\.[0-9]+ \\(commit [^ ]+\\)"));
  }
}

struct WrongOptions {
  const char* name;
  const char* options;
  const char* says;
};

class WrongOptionsTest : public testing::TestWithParam<WrongOptions> {};

TEST_P(WrongOptionsTest, AreAnErrorThatNamesThem) {
  const std::string command = "NODE_NAME= " + Setting("BERTH_AGENT") + " --state " + Setting("BERTH_TEST_SCRATCH") +
                              "/wrong " + GetParam().options + " 2>&1";
  // NOLINTNEXTLINE(bugprone-command-processor): a command of the test's own
  std::FILE* const pipe = ::popen(command.c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  std::string said;
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) said += static_cast<char>(c);
  const int status = ::pclose(pipe);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) != 0) << said;
  EXPECT_THAT(said, HasSubstr(GetParam().says));
}

#define KUBECONFIG " --kubeconfig $BERTH_TEST_KUBECONFIG "
constexpr WrongOptions kWrongOptions[] = {
    {"UnknownOption", "--colour", "--colour"},
    {"UnknownLogLevel", "--log-level loud", "loud"},
    {"InstallToNowhere", "install --cni-bin-dir /absent/bin", "/absent/bin"},
    {"InstallWhereTheModeIsDirect",
     "install --cni-bin-dir $BERTH_TEST_SCRATCH --state $(cd $BERTH_TEST_SCRATCH && echo direct >mode && pwd)",
     "says direct"},
    {"InstallHalfAConfiguration", "install --cni-bin-dir /tmp --conflist-to /tmp/x.conflist", "--conflist-from"},
    {"ProbeOfNobody", "probe --socket /absent/sock", "/absent/sock"},
    {"MissingKubeconfig", "--node n1 --kubeconfig /absent/kubeconfig", "/absent/kubeconfig"},
    {"NoNode", KUBECONFIG, "--node"},
    {"NoPort", KUBECONFIG "--node n1 --http-address localhost --socket $BERTH_TEST_SCRATCH/w.sock", "has no port"},
    {"SocketTooLong", KUBECONFIG "--node n1 --socket $BERTH_TEST_SCRATCH/$(printf %0120d 0)", "107"},
    {"AnotherFolderForNotesThanTheSockets", KUBECONFIG "--node n1 --run-dir /tmp", "--run-dir"},
    {"NeitherKubeconfigNorPod", "--node n1", "KUBERNETES_SERVICE_HOST"},
};
INSTANTIATE_TEST_SUITE_P(Table, WrongOptionsTest, testing::ValuesIn(kWrongOptions),
                         [](const auto& c) { return std::string(c.param.name); });

// The processor time of all threads of the process so far, in nanoseconds.
std::int64_t ProcessorNanos(pid_t pid) {
  std::int64_t sum = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/task")) {
    std::int64_t nanos = 0;
    std::ifstream(task.path() / "schedstat") >> nanos;
    sum += nanos;
  }
  return sum;
}

int ResidentKib(pid_t pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string word; status >> word;) {
    int kib = 0;
    if (word == "VmRSS:" && status >> kib) return kib;
  }
  return 0;
}

TEST_F(ProgramTest, AnAgentWith256AddressesIsSmallAndQuiet) {
  constexpr int kAddresses = 256;
  constexpr int kRuntimes = 8;
  constexpr int kResidentKibMax = 30 * 1024;
  constexpr seconds kIdle{20};
  constexpr double kShareMax = 0.002;
  const auto agent = ReadyAgent();
  std::vector<std::jthread> callers;
  for (int caller = 0; caller < kRuntimes; ++caller) {
    callers.emplace_back([this, caller] {
      for (int i = caller; i < kAddresses; i += kRuntimes) {
        EXPECT_NE(AddressOf(RunPlugin(CallOf("ADD", "c" + std::to_string(i), SocketPath()))), "");
      }
    });
  }
  callers.clear();
  // The agent writes the entries of addresses on standby after it has answered.
  ASSERT_TRUE(Eventually([this] { return Allocated().size() == kAddresses; }));
  const std::int64_t before = ProcessorNanos(agent->pid());
  std::this_thread::sleep_for(kIdle);  // measures the work of an idle agent during this time
  const double share = static_cast<double>(ProcessorNanos(agent->pid()) - before) /
                       static_cast<double>(std::chrono::nanoseconds(kIdle).count());
  const int resident_kib = ResidentKib(agent->pid());
  std::printf("agent with %d addresses: %.1f MiB resident, %.3f %% of a core over %d s without calls\n",
              kAddresses,
              resident_kib / 1024.0,
              share * 100,
              static_cast<int>(kIdle.count()));
  EXPECT_GT(resident_kib, 0);
  EXPECT_LT(resident_kib, kResidentKibMax);
  EXPECT_LT(share, kShareMax);
}

}  // namespace
}  // namespace berth::e2e
