// SPDX-License-Identifier: Apache-2.0
// The callers in policy.yaml, with real credentials: tokens of service accounts that are bound to pods and nodes, like
// those that a kubelet gives to pods, and certificates, like those of kubelets.
#pragma once

#include <map>
#include <string>

#include "e2e/crds/requests.h"
#include "e2e/test_cluster.h"

namespace berth::e2e {

class PolicyCallers {
 public:
  // Makes the service account "renamed" of another namespace. RBAC grants it every right on blocks, so only policies
  // restrict it. Grants the same rights to the user "system:node:n7". Also makes "strong", a service account of that
  // other namespace with the name berth-controller; RBAC grants it every right on Nodes.
  PolicyCallers();

  // `who` is "<caller> <node>", or empty for the administrator. Callers: "pod" and "node" are agents whose token is
  // bound to a pod on the node, or to the node; "unbound" is an agent whose token is bound to neither; "renamed" and
  // "strong" are the accounts of the constructor; "controller" is the controller in a pod on the node; "kubelet" has a
  // certificate; "impostor" has a certificate without the group system:nodes.
  [[nodiscard]] const Caller& Get(const std::string& who);

 private:
  [[nodiscard]] k8sclient::ClientConfig ConfigOf(const std::string& who, const std::string& node);
  // Makes a pod object to which a token can be bound. No container of the pod runs. Returns a reference to the pod.
  [[nodiscard]] nlohmann::json PodOf(const Account& account, const std::string& node);

  TestCluster cluster_;
  std::map<std::string, Caller> callers_;
};

}  // namespace berth::e2e
