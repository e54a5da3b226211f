// SPDX-License-Identifier: Apache-2.0
// NodeProxy: a proxy with faults (e2e/fault_proxy.h) between a node and the API server. In agent mode, NodeProxy has a
// node of its own, whose agent reaches the API server through the proxy.
#pragma once

#include <memory>
#include <string>

#include "e2e/agent_process.h"
#include "e2e/conformance/conformance.h"
#include "e2e/fault_proxy.h"

namespace berth::conformance {

// Whether the request may change an object.
[[nodiscard]] bool IsWrite(const e2e::SeenRequest& request);

class NodeProxy {
 public:
  // Writes the proxy's kubeconfig and the agent's files to `directory`.
  explicit NodeProxy(const std::string& directory);
  // Prints the agent's log if the test has failed.
  ~NodeProxy();
  NodeProxy(const NodeProxy&) = delete;
  NodeProxy& operator=(const NodeProxy&) = delete;

  [[nodiscard]] e2e::FaultProxy& proxy() { return proxy_; }

  // The same call, with requests through the proxy.
  [[nodiscard]] Call Through(const Call& call) const;

  // Resets the proxy: `fault` for the request with this index, no fault for other requests.
  void FaultAt(int index, e2e::Fault fault);
  // Resets the proxy: `fault` for the `count`-th write (0 is the first), no fault for other requests.
  void FaultAtWrite(int count, e2e::Fault fault);
  // Resets the proxy: `fault` for every request.
  void FaultAlways(e2e::Fault fault);
  void NoFaults();

  // Agent mode: kills the node's agent at once, starts a successor, and waits until it has loaded its blocks.
  void ReplaceAgent();
  [[nodiscard]] const std::string& socket() const { return agent_->settings().socket; }

 private:
  void StartAgentOfNode();

  const std::string directory_;
  const std::string node_;
  e2e::FaultProxy proxy_;
  const std::string kubeconfig_;
  std::unique_ptr<e2e::AgentProcess> agent_;  // agent mode; last, because the agent uses the proxy
};

}  // namespace berth::conformance
