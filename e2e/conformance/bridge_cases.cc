// SPDX-License-Identifier: Apache-2.0
// Cases 126 to 132: the real bridge and ptp plugins call the plugin, in a network namespace for each test.
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <poll.h>
#include <sstream>
#include <thread>

#include "e2e/conformance/conformance.h"
#include "e2e/conformance/node_proxy.h"

namespace berth::conformance {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

// NOLINTNEXTLINE(bugprone-command-processor): the commands are this file's
int Shell(const std::string& command) { return std::system(("{ " + command + "; } >/dev/null 2>&1").c_str()); }

class BehindPlugin : public Conformance {
 protected:
  void SetUp() override {
    const char* const binaries = std::getenv("CNI_BIN_DIR");
    ASSERT_NE(binaries, nullptr) << "run e2e/conformance.sh";
    path_ = Scratch() + "/bin";
    std::filesystem::create_directory(path_);
    for (const char* name : {"bridge", "ptp"}) {
      std::filesystem::create_symlink(std::string(binaries) + "/" + name, path_ + "/" + name);
    }
    std::filesystem::create_symlink(Settings::Get().plugin, path_ + "/berth");
    ASSERT_EQ(Shell("/usr/sbin/ip netns add " + netns()), 0) << "needs root";
    if (InAgentMode()) CountOn(Settings::Get().AgentSocket());
  }
  ~BehindPlugin() override {
    Shell("/usr/sbin/ip netns del " + netns());
    Shell("/usr/sbin/ip link del " + bridge());
  }

  [[nodiscard]] std::string netns() const { return "berth-" + tag(); }
  [[nodiscard]] std::string bridge() const { return "bt" + tag(); }

  // The base call of an interface plugin, which calls the plugin under test.
  [[nodiscard]] Call Through(const std::string& plugin, const std::string& verb, const std::string& pool) {
    Call call = Base(verb, {pool}).With("CNI_NETNS", "/run/netns/" + netns()).With("CNI_PATH", path_);
    call.binary = path_ + "/" + plugin;
    call.environment["PATH"] = "/usr/sbin:/usr/bin:/sbin:/bin";
    call.config["type"] = plugin;
    call.config["bridge"] = bridge();
    call.config["ipam"]["logFile"] = Scratch() + "/berth.log";
    return call;
  }

  // Agent mode: from now on, Calls counts the answers of the agent with this socket.
  void CountOn(const std::string& socket) {
    socket_ = socket;
    for (const char* verb : {"ADD", "DEL", "STATUS"}) before_[verb] = Answered(verb);
  }

  // How often the plugin under test was called with this verb, from the agent's metrics or the plugin's log.
  [[nodiscard]] int Calls(const std::string& verb) {
    if (InAgentMode()) return Answered(verb) - before_[verb];
    std::ifstream log(Scratch() + "/berth.log");
    int count = 0;
    for (std::string line; std::getline(log, line);) count += line.find("verb=" + verb) == std::string::npos ? 0 : 1;
    return count;
  }

  [[nodiscard]] std::string Inside(const std::string& command) {
    const std::string file = Scratch() + "/output";
    Shell("/usr/sbin/ip netns exec " + netns() + " " + command + " > " + file);
    std::stringstream text;
    text << std::ifstream(file).rdbuf();
    return text.str();
  }

 private:
  [[nodiscard]] int Answered(const std::string& verb) const {
    return static_cast<int>(e2e::MetricOf(socket_, "berth_agent_calls_total", "verb=\"" + verb + "\""));
  }

  std::string path_;
  std::string socket_;
  std::map<std::string, int> before_;
};

TEST_F(BehindPlugin, Case126_BridgeGivesThePodOurAddress) {
  const std::string pool = MakePool();
  for (const char* version : {"1.0.0", "1.1.0"}) {
    const json config = {{"cniVersion", version}};
    const json result = Ok(Through("bridge", "ADD", pool).Config(config));
    EXPECT_EQ(result["interfaces"][2].value("name", ""), "eth0") << result;
    EXPECT_EQ(result["ips"][0].value("interface", -1), 2);
    EXPECT_EQ(Inside("/usr/sbin/ip -4 -o addr show dev eth0").find(result["ips"][0]["address"].get<std::string>()) ==
                  std::string::npos,
              false);
    OkSilently(Through("bridge", "CHECK", pool).Config(config).PrevResult(result));
    OkSilently(Through("bridge", "DEL", pool).Config(config).PrevResult(result));
    EXPECT_THAT(Allocated(), IsEmpty());
  }
}

TEST_F(BehindPlugin, Case126_BridgeGivesThePodBothFamilies) {
  const std::string v4 = MakePool();
  const std::string v6 = MakePool6();
  Call call = Through("bridge", "ADD", v4);
  call.config["ipam"]["pools"] = {v4, v6};
  EXPECT_THAT(Addresses(Ok(call)), ElementsAre("10.1.2.2/29", "2001:db8:1:2::2/125"));
  OkSilently(Through("bridge", "DEL", v4));
  EXPECT_THAT(Allocated(), IsEmpty());
}

TEST_F(BehindPlugin, Case127_OurErrorIsTheBridgesError) {
  const std::string absent = "absent-" + tag();
  const json ours = ExpectError(Run(Base("ADD", {absent})), {7}, absent);
  const json theirs = ExpectError(Run(Through("bridge", "ADD", absent)), {7}, absent);
  EXPECT_EQ(theirs.value("msg", ""), ours.value("msg", ""));
  EXPECT_EQ(theirs.value("details", ""), ours.value("details", ""));
}

TEST_F(BehindPlugin, Case128_AnUnusableRouteMakesBridgeGiveTheAddressBack) {
  const std::string pool = MakePool({{"routes", {{{"dst", "192.0.2.0/24"}, {"gw", "198.51.100.1"}}}}});
  EXPECT_NE(Run(Through("bridge", "ADD", pool)).exit_code, 0);
  EXPECT_EQ(Calls("DEL"), 1);
  EXPECT_THAT(Allocated(), IsEmpty());
}

TEST_F(BehindPlugin, Case129_BridgeCallsOurDelWithoutNetns) {
  const std::string pool = MakePool();
  Ok(Through("bridge", "ADD", pool));
  OkSilently(Through("bridge", "DEL", pool).Without("CNI_NETNS"));
  EXPECT_THAT(Allocated(), IsEmpty());
  Ok(Through("bridge", "ADD", pool).With("CNI_IFNAME", "eth1"));
  OkSilently(Through("bridge", "DEL", pool).With("CNI_IFNAME", "eth1").With("CNI_NETNS", "/run/netns/gone-" + tag()));
  EXPECT_THAT(Allocated(), IsEmpty());
}

TEST_F(BehindPlugin, Case130_PtpWorksWithAGatewayAndGivesBackWithoutOne) {
  const std::string with = MakePool();
  Ok(Through("ptp", "ADD", with));
  OkSilently(Through("ptp", "DEL", with));
  EXPECT_THAT(Allocated(), IsEmpty());
  const std::string without = MakePool({{"subnet", "10.1.3.0/29"}, {"gateway", nullptr}});
  EXPECT_NE(Run(Through("ptp", "ADD", without)).exit_code, 0);
  EXPECT_EQ(Calls("DEL"), 2);
  EXPECT_THAT(Allocated(), IsEmpty());
}

TEST_F(BehindPlugin, Case131_TwoNetworksOfOneContainerAreTwoRecords) {
  const std::string pool = MakePool();
  const json second = {{"name", "second-" + tag()}};
  Ok(Through("bridge", "ADD", pool));
  Ok(Through("bridge", "ADD", pool).With("CNI_IFNAME", "net1").Config(second));
  EXPECT_THAT(Allocated(), SizeIs(2));
  OkSilently(Through("bridge", "DEL", pool));
  EXPECT_THAT(Allocated(), SizeIs(1));
  OkSilently(Through("bridge", "DEL", pool).With("CNI_IFNAME", "net1").Config(second));
  EXPECT_THAT(Allocated(), IsEmpty());
}

// A runtime whose time limit has passed kills only the interface plugin. The interface plugin's child lives on, and no
// program reads its answer.
TEST_F(BehindPlugin, AnAddWhoseCallerWasKilledLeavesNothing) {
  const std::string pool = MakePool();
  NodeProxy node(Scratch());
  if (InAgentMode()) CountOn(node.socket());
  // The first ADD creates the block, and the second ADD patches it.
  for (const char* interface : {"eth0", "eth1"}) {
    SCOPED_TRACE(interface);
    const int calls = Calls("ADD");
    node.FaultAtWrite(0, e2e::Fault::kPause);
    PluginProcess caller(Prepare(node.Through(Through("bridge", "ADD", pool)).With("CNI_IFNAME", interface)));
    std::jthread waiting([&] { static_cast<void>(caller.Wait()); });
    ASSERT_TRUE(node.proxy().AwaitHeld(std::chrono::seconds(60)));
    caller.Signal(SIGKILL);
    waiting.join();
    node.proxy().Resume();
    // The plugin logs the call before it frees the address.
    EXPECT_TRUE(Eventually([&] { return Calls("ADD") > calls; })) << "the orphan came to no end";
    EXPECT_TRUE(Eventually([&] { return Allocated().empty(); })) << "it gave nothing back";
  }
}

// The contract's case is about Debian's bridge, whose newest version is 1.0.0. The bridge of this test knows 1.1.0. So
// berth does not know a version either that this bridge does not know, and the bridge itself answers.
TEST_F(BehindPlugin, Case132_AVersionThatBridgeDoesNotKnowNeverReachesUs) {
  const std::string pool = MakePool();
  ExpectError(Run(Through("bridge", "ADD", pool).Config({{"cniVersion", "1.2.0"}})), {1}, "1.2.0");
  EXPECT_EQ(Calls("ADD"), 0);
}

TEST_F(BehindPlugin, Case132_StatusOf110ReachesUsThroughBridge) {
  const std::string pool = MakePool();
  OkSilently(Through("bridge", "STATUS", pool));
  EXPECT_EQ(Calls("STATUS"), 1);
}

}  // namespace
}  // namespace berth::conformance
