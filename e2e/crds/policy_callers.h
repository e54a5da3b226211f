// SPDX-License-Identifier: Apache-2.0
// Those who call in policy.yaml, with real credentials: tokens of service accounts that are bound to pods and nodes, as
// the kubelet hands them out, and certificates, as kubelets have them.
#pragma once

#include <map>
#include <string>

#include "e2e/crds/requests.h"
#include "e2e/test_cluster.h"

namespace berth::e2e {

class PolicyCallers {
 public:
  // Makes the service account "renamed", as one of another namespace, which may everything with blocks that RBAC can
  // grant: policies alone confine it. The same for the user "system:node:n7". And "strong", a service account of that
  // namespace that is called berth-controller and may do everything with Nodes that RBAC can grant.
  PolicyCallers();

  // "<who> <node>": "pod" and "node" are agents with a token bound to a pod on the node, or to the node; "unbound" is
  // one with neither; "renamed" and "strong" see above; "controller" is the controller in a pod on the node; "kubelet"
  // has a certificate, "impostor" one without the group system:nodes. Empty: the administrator.
  [[nodiscard]] const Caller& Get(const std::string& who);

 private:
  [[nodiscard]] k8sclient::ClientConfig ConfigOf(const std::string& who, const std::string& node);
  // Runs nowhere: a token can be bound to it.
  [[nodiscard]] nlohmann::json PodOf(const Account& account, const std::string& node);

  TestCluster cluster_;
  std::map<std::string, Caller> callers_;
};

}  // namespace berth::e2e
