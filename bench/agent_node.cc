// SPDX-License-Identifier: Apache-2.0
// Calls an agent without a socket in between.
#include "bench/agent_node.h"

#include <limits>
#include <utility>

#include "bench/etcd_metrics.h"
#include "cni/forward.h"
#include "k8sclient/clock.h"

namespace berth::bench {

Expected<std::unique_ptr<AgentNode>> AgentNode::Make(std::unique_ptr<k8sclient::Api> api,
                                                     const AgentNodeOptions& options) {
  std::unique_ptr<AgentNode> node(new AgentNode(std::move(api)));
  auto config = cni::ParseConfigTree(
      R"({"cniVersion":"1.1.0","name":"bench","ipam":{"type":"berth","pools":[")" + options.pool + R"("]}})",
      cni::Verb::kAdd);
  if (!config) return std::unexpected(config.error());
  node->config_ = *std::move(config);
  auto made = agent::Agent::Make(*node->api_,
                                 k8sclient::RealClock(),
                                 {.node = options.node,
                                  .state_dir = options.state_dir,
                                  .run_dir = options.run_dir,
                                  .server = options.server,
                                  .watches_blocks = options.watches_blocks},
                                 [] {});
  if (!made) return std::unexpected(made.error());
  node->agent_ = *std::move(made);
  return node;
}

int AgentNode::callers_max() const { return std::numeric_limits<int>::max(); }

Expected<void> AgentNode::Add(const std::string& container_id) {
  const auto body = Call(cni::Verb::kAdd, container_id);
  if (!body) return std::unexpected(body.error());
  constexpr std::string_view kKey = "\"address\":\"";
  const std::size_t begin = body->find(kKey);
  if (begin == std::string::npos) return Fail(ErrorCode::kInternal, "no address in the answer " + *body);
  const std::size_t text = begin + kKey.size();
  const std::lock_guard lock(mutex_);
  addresses_.push_back(body->substr(text, body->find('"', text) - text));
  return {};
}

Expected<void> AgentNode::Del(const std::string& container_id) {
  const auto body = Call(cni::Verb::kDel, container_id);
  if (!body) return std::unexpected(body.error());
  return {};
}

std::vector<std::string> AgentNode::TakeAddresses() {
  const std::lock_guard lock(mutex_);
  return std::exchange(addresses_, {});
}

double AgentNode::Counter(const std::string& name) { return MetricValue(agent_->MetricsText(), name).value_or(0); }

Expected<std::string> AgentNode::Call(cni::Verb verb, const std::string& container_id) {
  const std::string pod = "web-64758b8bf-" + container_id.substr(0, 5);
  const std::string uid = container_id.substr(0, 8) + "-88e7-49be-a27a-77d8" + container_id.substr(0, 8);
  const auto request = cni::MakeForwardedBody(
      {.environment = {.verb = verb,
                       .container_id = container_id,
                       .ifname = "eth0",
                       .netns = "/var/run/netns/cni-" + container_id.substr(0, 8),
                       .args = "IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=" + pod + ";K8S_POD_UID=" + uid},
       .config = config_,
       .started_nanos = node::BootTimeNow()});
  if (!request) return std::unexpected(request.error());
  agent::Reply reply = agent_->Handle(*request);
  if (!reply.ok) return Fail(ErrorCode::kInternal, reply.body);
  return std::move(reply.body);
}

}  // namespace berth::bench
