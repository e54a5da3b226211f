// SPDX-License-Identifier: Apache-2.0
// The environment and configuration that the bridge plugin gives to its IPAM plugin under containerd.
#include "bench/plugin_contender.h"

#include <limits>
#include <poll.h>
#include <utility>

#include "bench/process_figures.h"
#include "cni/testing/plugin_process.h"
#include "e2e/agent_process.h"

namespace berth::bench {

PluginContender::PluginContender(PluginContenderOptions options)
    : options_(std::move(options)),
      config_(R"({"cniVersion":"1.1.0","name":"bench","type":"bridge","bridge":"br0","isGateway":true,"ipam":)" +
              options_.ipam_config + "}") {}

int PluginContender::callers_max() const { return std::numeric_limits<int>::max(); }

std::chrono::nanoseconds PluginContender::NodeCpu() const {
  return options_.agent == nullptr ? std::chrono::nanoseconds{} : CpuOf(options_.agent->pid());
}

void PluginContender::AwaitWritten() const {
  if (options_.agent_socket.empty()) return;
  const auto pending = [this](const char* metric) { return e2e::MetricOf(options_.agent_socket, metric); };
  // The agent offers no event for this, so poll.
  while (pending("berth_agent_journal_pending") + pending("berth_agent_handed_out_pending") > 0) {
    ::poll(nullptr, 0, 1);
  }
}

Expected<void> PluginContender::Add(const std::string& container_id) { return Call("ADD", container_id); }

Expected<void> PluginContender::Del(const std::string& container_id) { return Call("DEL", container_id); }

Expected<void> PluginContender::Call(const char* verb, const std::string& container_id) const {
  const std::string pod = "web-64758b8bf-" + container_id.substr(0, 5);
  const std::string uid = container_id.substr(0, 8) + "-88e7-49be-a27a-77d8" + container_id.substr(0, 8);
  const auto outcome = cni_testing::RunPlugin(
      {.binary = options_.program,
       .environment = {{"CNI_COMMAND", verb},
                       {"CNI_CONTAINERID", container_id},
                       {"CNI_NETNS", "/var/run/netns/cni-" + container_id.substr(0, 8)},
                       {"CNI_IFNAME", "eth0"},
                       {"CNI_PATH", "/opt/cni/bin"},
                       {"CNI_ARGS",
                        "IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=" + pod +
                            ";K8S_POD_INFRA_CONTAINER_ID=" + container_id + ";K8S_POD_UID=" + uid}},
       .input = config_});
  if (outcome.exit_code == 0) return {};
  const std::string ended = outcome.signal != 0 ? "signal " + std::to_string(outcome.signal)
                                                : "exit code " + std::to_string(outcome.exit_code);
  return Fail(ErrorCode::kInternal,
              options_.name + " " + verb + ": " + ended + ": " + (outcome.out + outcome.err).substr(0, 500));
}

}  // namespace berth::bench
