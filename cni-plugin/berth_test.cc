// SPDX-License-Identifier: Apache-2.0
// `berth`: which calls it answers itself, what it sends to an agent, and what it prints.
#include <array>
#include <csignal>
#include <elf.h>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/places.h"
#include "cni-plugin/berth_test_setup.h"
#include "cni-plugin/deadline.h"
#include "cni-plugin/scripted_agent.h"

namespace berth::cni_plugin {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kResult = R"({"cniVersion":"1.1.0","ips":[{"address":"10.55.0.2/24"}]})";

// No agent runs.
class BerthAlone : public testing::Test {
 protected:
  TemporaryFolder folder_;
  std::string socket_ = folder_ / "agent.sock";
};

TEST_F(BerthAlone, AnswersVersionWithoutReadingStdin) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
  const Descriptor reader(ends[0]);
  const Descriptor writer(ends[1]);
  cni_testing::PluginCall call = BerthCall("VERSION", "");
  call.in = Stdin::kDescriptor;
  call.descriptor = ends[0];
  const PluginOutcome finished = RunPlugin(std::move(call));
  EXPECT_EQ(finished.exit_code, EXIT_SUCCESS);
  EXPECT_EQ(json::parse(finished.out)["cniVersion"], "1.1.0");
  EXPECT_EQ(json::parse(finished.out)["supportedVersions"].size(), 7);
}

TEST_F(BerthAlone, TellsAPersonWhatTheProgramDoes) {
  cni_testing::PluginCall call = BerthCall("", "");
  call.environment.clear();
  const PluginOutcome finished = RunPlugin(std::move(call));
  EXPECT_EQ(finished.exit_code, EXIT_SUCCESS);
  EXPECT_EQ(finished.out, "");
  EXPECT_THAT(finished.err, HasSubstr("berth: gives a pod an address"));
}

TEST_F(BerthAlone, RefusesBadVariables) {
  cni_testing::PluginCall call = BerthCall("ADD", Configuration(socket_));
  call.environment.erase("CNI_IFNAME");
  const json error = ErrorOf(RunPlugin(std::move(call)));
  EXPECT_EQ(error["code"], 4);
  EXPECT_THAT(error["msg"], HasSubstr("CNI_IFNAME"));
}

TEST_F(BerthAlone, RefusesBadConfigurations) {
  EXPECT_EQ(ErrorOf(RunBerth("ADD", "{"))["code"], 6);
  EXPECT_EQ(ErrorOf(RunBerth("ADD", R"({"cniVersion":"1.1.0","name":"n1"})"))["code"], 7);
  EXPECT_EQ(ErrorOf(RunBerth("DEL", R"({"cniVersion":"9.9.9","name":"n1"})"))["code"], 1);
}

TEST_F(BerthAlone, RefusesItsOwnNetworkNamespace) {
  cni_testing::PluginCall call = BerthCall("ADD", Configuration(socket_));
  call.environment["CNI_NETNS"] = "/proc/self/ns/net";
  const json error = ErrorOf(RunPlugin(std::move(call)));
  EXPECT_EQ(error["code"], 8);
}

TEST_F(BerthAlone, RefusesASocketPathThatIsTooLong) {
  const json error = ErrorOf(RunBerth("DEL", Configuration("/" + std::string(108, 's'))));
  EXPECT_EQ(error["code"], 7);
  EXPECT_THAT(error["msg"], HasSubstr("107 bytes"));
}

TEST_F(BerthAlone, SendsNoAddIfResolvConfIsMissing) {
  ScriptedAgent agent(socket_, {Answers(200, kResult)});
  const json error = ErrorOf(RunBerth("ADD", Configuration(socket_, R"(,"resolvConf":"/nowhere/resolv.conf")")));
  EXPECT_EQ(error["code"], 5);
  EXPECT_THAT(error["msg"], HasSubstr("ipam.resolvConf"));
  EXPECT_THAT(agent.Stop(), IsEmpty());
}

#ifdef BERTH_IS_STATIC
TEST_F(BerthAlone, PrintsAnErrorWhenItIsOutOfMemory) {
  const std::string program = socket_ + ".sh";
  std::ofstream(program) << "#!/bin/sh\nulimit -v 20000\nexec " << BuildDir() << "/bin/berth\n";
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  cni_testing::PluginCall call = BerthCall("DEL", std::string(std::size_t{32} << 20U, ' '));
  call.binary = program;
  const json error = ErrorOf(RunPlugin(std::move(call)));
  EXPECT_EQ(error["msg"], "std::bad_alloc") << "the exception found no handler";
}

TEST_F(BerthAlone, NeedsNoLibraryOfTheHost) {
  std::ifstream file(BuildDir() + "/bin/berth", std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  ASSERT_GT(bytes.size(), sizeof(Elf64_Ehdr));
  Elf64_Ehdr header{};
  bytes.copy(reinterpret_cast<char*>(&header), sizeof(header));
  std::size_t loaded_bytes = 0;
  for (std::size_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment{};
    bytes.copy(reinterpret_cast<char*>(&segment), sizeof(segment), header.e_phoff + i * sizeof(segment));
    EXPECT_NE(segment.p_type, Elf64_Word{PT_INTERP}) << "a dynamic linker is needed";
    EXPECT_NE(segment.p_type, Elf64_Word{PT_DYNAMIC}) << "libraries are needed";
    if (segment.p_type == PT_LOAD) loaded_bytes += segment.p_filesz;
  }
  EXPECT_GT(loaded_bytes, 0U);
  EXPECT_LT(loaded_bytes, 3U << 20U) << "what is left of the file when it is stripped";
}
#endif

class BerthWithAgent : public BerthAlone {};

TEST_F(BerthWithAgent, PrintsTheResultOfAdd) {
  ScriptedAgent agent(socket_, {Answers(200, kResult)});
  const PluginOutcome finished = RunBerth("ADD", Configuration(socket_));
  EXPECT_EQ(finished.exit_code, EXIT_SUCCESS);
  EXPECT_EQ(finished.out, std::string(kResult) + "\n");
  EXPECT_EQ(finished.err, "");
  EXPECT_EQ(agent.Stop().size(), 1) << "one request and nothing taken back";
}

TEST_F(BerthWithAgent, SendsTheCallAndItsStartTime) {
  ScriptedAgent agent(socket_, {Answers(200, kResult)});
  const std::int64_t before = BootNanosNow();
  RunBerth("ADD", Configuration(socket_));
  const std::int64_t after = BootNanosNow();
  const json request = agent.Stop().at(0);
  const std::int64_t started = request["startedBootNanos"];
  EXPECT_GT(started, before);
  EXPECT_LT(started, after);
  EXPECT_EQ(request["command"], "ADD");
  EXPECT_EQ(request["containerID"], "c1");
  EXPECT_EQ(request["ifname"], "eth0");
  EXPECT_EQ(request["netns"], "/some/where");
  EXPECT_EQ(request["args"], "IgnoreUnknown=1;K8S_POD_NAME=p");
  EXPECT_EQ(request["config"]["ipam"]["pools"], json({"p1"}));
  EXPECT_FALSE(request["config"].contains("type"));
}

TEST_F(BerthWithAgent, SendsTheDnsOfTheHostsResolvConf) {
  std::ofstream(folder_ / "resolv.conf") << "nameserver 10.0.0.53\nsearch a b\n";
  ScriptedAgent agent(socket_, {Answers(200, kResult)});
  RunBerth("ADD", Configuration(socket_, R"(,"resolvConf":")" + (folder_ / "resolv.conf") + "\""));
  const json dns = agent.Stop().at(0)["config"]["ipam"]["dns"];
  EXPECT_EQ(dns["nameservers"], json({"10.0.0.53"}));
  EXPECT_EQ(dns["search"], json({"a", "b"}));
}

TEST_F(BerthWithAgent, SendsAGcsListOfSeveralMegabytes) {
  std::string list;
  for (int i = 0; i < 20'000; ++i) {
    list += (i == 0 ? "" : ",") + std::string(R"({"containerID":"c)") + std::to_string(i) + R"(","ifname":"eth0"})";
  }
  std::string configuration = Configuration(socket_);
  configuration.insert(1, R"("cni.dev/valid-attachments":[)" + list + "],");
  ScriptedAgent agent(socket_, {Answers(200, "")});
  EXPECT_EQ(RunBerth("GC", configuration).exit_code, EXIT_SUCCESS);
  EXPECT_EQ(agent.Stop().at(0)["config"]["cni.dev/valid-attachments"].size(), 20'000);
}

TEST_F(BerthWithAgent, PrintsNothingForVerbsWithoutResult) {
  ScriptedAgent agent(socket_, std::vector(4, Answers(200, "")));
  std::string configuration = Configuration(socket_);
  configuration.insert(1, R"("prevResult":{},)");
  for (const char* verb : {"DEL", "CHECK", "GC", "STATUS"}) {
    const PluginOutcome finished = RunBerth(verb, configuration);
    EXPECT_EQ(finished.exit_code, EXIT_SUCCESS) << verb;
    EXPECT_EQ(finished.out, "") << verb;
  }
  std::vector<std::string> verbs;
  for (const json& request : agent.Stop()) verbs.push_back(request["command"]);
  EXPECT_THAT(verbs, ElementsAre("DEL", "CHECK", "GC", "STATUS"));
}

TEST_F(BerthWithAgent, PrintsTheAgentsErrorUnchanged) {
  const std::string error = R"({"cniVersion":"1.1.0","code":100,"msg":"pool p1 is exhausted","details":"add ranges"})";
  ScriptedAgent agent(socket_, {Answers(500, error)});
  const PluginOutcome finished = RunBerth("ADD", Configuration(socket_));
  EXPECT_EQ(finished.exit_code, EXIT_FAILURE);
  EXPECT_EQ(finished.out, error + "\n");
  EXPECT_EQ(agent.Stop().size(), 1) << "a failed ADD holds nothing: there is nothing to take back";
}

TEST_F(BerthWithAgent, PrintsTheLargestAllowedAnswer) {
  const std::string result = R"({"ips":[],"padding":")" + std::string((1U << 20U) - 23, 'x') + "\"}";
  ASSERT_EQ(result.size(), 1U << 20U);
  const ScriptedAgent agent(socket_, {Answers(200, result)});
  EXPECT_EQ(RunBerth("ADD", Configuration(socket_)).out, result + "\n");
}

// If a process is stopped and continued, the kernel ends some waits early with EINTR.
TEST_F(BerthWithAgent, WaitsForTheAnswerAlsoAfterSigstopAndSigcont) {
  ScriptedAgent agent(socket_, {NeverAnswers(), Answers(200, "")});
  PluginProcess process(BerthCall("DEL", Configuration(socket_, R"(,"timeoutSeconds":4)")));
  ASSERT_TRUE(Await([&agent] { return !agent.Requests().empty(); }));
  kill(process.pid(), SIGSTOP);
  int status = 0;
  waitpid(process.pid(), &status, WUNTRACED);
  kill(process.pid(), SIGCONT);
  EXPECT_THAT(ErrorOf(process.Wait())["msg"], HasSubstr("has not answered in time"));
}

}  // namespace
}  // namespace berth::cni_plugin
