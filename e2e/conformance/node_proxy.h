// SPDX-License-Identifier: Apache-2.0
// NodeProxy: this test's way to the API server as its node, with faults (e2e/fault_proxy.h).
#pragma once

#include <string>

#include "e2e/conformance/conformance.h"
#include "e2e/fault_proxy.h"

namespace berth::conformance {

// Requests that change something. Reads never leave anything behind.
[[nodiscard]] bool IsWrite(const e2e::SeenRequest& request);

class NodeProxy {
 public:
  // The proxy's kubeconfig goes to `directory`.
  explicit NodeProxy(const std::string& directory);

  [[nodiscard]] e2e::FaultProxy& proxy() { return proxy_; }

  // The call through the proxy.
  [[nodiscard]] Call Through(const Call& call) const;

  // From now on: `fault` for the request with this index, none for others.
  void FaultAt(int index, e2e::Fault fault);
  // From now on: `fault` for the `count`-th write (0 is the first), none for others.
  void FaultAtWrite(int count, e2e::Fault fault);
  void NoFaults();

 private:
  e2e::FaultProxy proxy_;
  std::string kubeconfig_;
};

}  // namespace berth::conformance
