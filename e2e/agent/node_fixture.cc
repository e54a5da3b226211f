// SPDX-License-Identifier: Apache-2.0
// NodeTest: each test gets one pool of 1,022 addresses.
#include "e2e/agent/node_fixture.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <poll.h>
#include <random>
#include <stdexcept>

namespace berth::e2e {

using nlohmann::json;
using std::chrono::steady_clock;

std::string Setting(const char* name) {
  const char* const value = std::getenv(name);
  if (value == nullptr || *value == '\0') throw std::runtime_error(std::string(name) + " is not set: run e2e/agent.sh");
  return value;
}

bool Eventually(const std::function<bool()>& condition, std::chrono::milliseconds limit) {
  constexpr int kPauseMillis = 10;
  for (const auto deadline = steady_clock::now() + limit; steady_clock::now() < deadline;) {
    if (condition()) return true;
    ::poll(nullptr, 0, kPauseMillis);
  }
  return condition();
}

NodeTest::NodeTest() {
  std::random_device random;
  for (int i = 0; i < 6; ++i) tag_ += "0123456789abcdef"[random() % 16];
  scratch_ = Setting("BERTH_TEST_SCRATCH") + "/" + tag_;
  std::filesystem::create_directories(scratch_);
  cluster().WriteAgentKubeconfig("node-" + tag_, AgentKubeconfig());
  cluster().CreateReadyPool(pool(), {{"space", "s-" + tag_}, {"subnet", "10.55.0.0/22"}});
}

void NodeTest::TearDown() {
  if (HasFailure()) {
    std::ifstream log(scratch_ + "/agent.log");
    std::vector<std::string> lines;
    for (std::string line; std::getline(log, line);) lines.push_back(line);
    constexpr std::size_t kLinesMax = 40;
    const std::size_t first = lines.size() > kLinesMax ? lines.size() - kLinesMax : 0;
    for (std::size_t i = first; i < lines.size(); ++i) std::fprintf(stderr, "agent: %.300s\n", lines[i].c_str());
  }
  cluster().RemoveBlocks(pool());
  cluster().DeletePool(pool());
}

TestCluster& NodeTest::cluster() {
  static TestCluster cluster(Setting("BERTH_TEST_KUBECONFIG"));
  return cluster;
}

std::unique_ptr<AgentProcess> NodeTest::StartAgent(const std::string& socket_name, const std::string& kubeconfig,
                                                   const std::vector<std::string>& more) const {
  return std::make_unique<AgentProcess>(AgentSettings{.binary = Setting("BERTH_AGENT"),
                                                      .node = "node-" + tag_,
                                                      .kubeconfig = kubeconfig.empty() ? AgentKubeconfig() : kubeconfig,
                                                      .socket = SocketPath(socket_name),
                                                      .state_dir = scratch_ + "/state",
                                                      .log_file = scratch_ + "/agent.log",
                                                      .more = more});
}

std::unique_ptr<AgentProcess> NodeTest::ReadyAgent(const std::string& socket_name) const {
  auto agent = StartAgent(socket_name);
  EXPECT_TRUE(agent->AwaitReady()) << "the agent does not become ready";
  return agent;
}

PluginCall NodeTest::CallOf(const std::string& verb, const std::string& id, const std::string& socket,
                            const json& ipam_patch) const {
  json ipam = {{"type", "berth"}, {"pools", {pool()}}, {"agentSocket", socket}, {"stateDir", scratch_ + "/state"}};
  ipam.merge_patch(ipam_patch);
  const json config = {{"cniVersion", "1.1.0"}, {"name", "net-" + tag_}, {"type", "bridge"}, {"ipam", ipam}};
  return {.binary = Setting("BERTH_PLUGIN"),
          .environment = {{"CNI_COMMAND", verb},
                          {"CNI_CONTAINERID", id},
                          {"CNI_NETNS", "/some/where"},
                          {"CNI_IFNAME", "eth0"},
                          {"CNI_PATH", "/opt/cni/bin"}},
          .input = config.dump()};
}

std::vector<std::string> NodeTest::Allocated() const {
  std::vector<std::string> addresses;
  for (const auto& [address, entry] : cluster().Entries(pool())) addresses.push_back(address);
  return addresses;
}

std::string AddressOf(const PluginOutcome& outcome) {
  const json result = json::parse(outcome.out, nullptr, false);
  if (outcome.exit_code != 0 || !result.is_object() || !result.contains("ips")) return "";
  const std::string address = result["ips"][0].value("address", "");
  return address.substr(0, address.find('/'));
}

unsigned CodeOf(const PluginOutcome& outcome) {
  const json error = json::parse(outcome.out, nullptr, false);
  return error.is_object() ? error.value("code", 0U) : 0;
}

}  // namespace berth::e2e
