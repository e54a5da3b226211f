// SPDX-License-Identifier: Apache-2.0
// NodeProxy: a node's way to the API server, with faults (e2e/fault_proxy.h). In agent mode an agent of the test's own,
// for a node of its own, goes that way.
#pragma once

#include <memory>
#include <string>

#include "e2e/agent_process.h"
#include "e2e/conformance/conformance.h"
#include "e2e/fault_proxy.h"

namespace berth::conformance {

// Requests that change something. Reads never leave anything behind.
[[nodiscard]] bool IsWrite(const e2e::SeenRequest& request);

class NodeProxy {
 public:
  // The proxy's kubeconfig goes to `directory`, and the agent's files.
  explicit NodeProxy(const std::string& directory);
  // Prints what the agent logged if the test has failed.
  ~NodeProxy();
  NodeProxy(const NodeProxy&) = delete;
  NodeProxy& operator=(const NodeProxy&) = delete;

  [[nodiscard]] e2e::FaultProxy& proxy() { return proxy_; }

  // The call through the proxy.
  [[nodiscard]] Call Through(const Call& call) const;

  // From now on: `fault` for the request with this index, none for others.
  void FaultAt(int index, e2e::Fault fault);
  // From now on: `fault` for the `count`-th write (0 is the first), none for others.
  void FaultAtWrite(int count, e2e::Fault fault);
  // From now on: `fault` for every request.
  void FaultAlways(e2e::Fault fault);
  void NoFaults();

  // Agent mode: a node's agent is killed where it stands, and its successor has loaded when this returns.
  void ReplaceAgent();
  [[nodiscard]] const std::string& socket() const { return agent_->settings().socket; }

 private:
  void StartAgentOfNode();

  const std::string directory_;
  const std::string node_;
  e2e::FaultProxy proxy_;
  const std::string kubeconfig_;
  std::unique_ptr<e2e::AgentProcess> agent_;  // agent mode; last: it uses the proxy
};

}  // namespace berth::conformance
