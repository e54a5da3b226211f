// SPDX-License-Identifier: Apache-2.0
// Gets tokens by TokenRequest, and certificates from the folder that e2e/crds.sh fills.
#include "e2e/crds/policy_callers.h"

#include <cstdlib>
#include <stdexcept>

#include "k8sclient/kubeconfig.h"

namespace berth::e2e {

namespace {

using k8sclient::Method;
using nlohmann::json;

const Account kAgent;  // NOLINT(bugprone-throwing-static-initialization): a test may die before main
// NOLINTNEXTLINE(bugprone-throwing-static-initialization)
const Account kReconciler{.name_space = "berth-system", .name = "berth-controller"};
// NOLINTNEXTLINE(bugprone-throwing-static-initialization)
const Account kRenamed{.name_space = "renamed", .name = "agent"};
// NOLINTNEXTLINE(bugprone-throwing-static-initialization)
const Account kStrong{.name_space = "renamed", .name = "berth-controller"};
constexpr const char* kRbac = "rbac.authorization.k8s.io";

std::string Variable(const char* name) {
  const char* const value = std::getenv(name);
  if (value == nullptr || *value == '\0') throw std::runtime_error(std::string(name) + " is not set: run e2e/crds.sh");
  return value;
}

// Accepts an object that exists already, for example from an earlier run.
void Create(const std::string& collection, const json& object) {
  const Answer answer = Send(Method::kPost, collection, object);
  if (answer.status != 201 && answer.status != 409) throw std::runtime_error(collection + ": " + answer.body.dump());
}

// Gives the subjects every right that RBAC can grant on the resources.
void Grant(const std::string& role, const char* group, const json& resources, const json& subjects) {
  const std::string rbac = std::string("/apis/") + kRbac + "/v1/";
  const json verbs = {"get", "create", "patch", "update", "delete", "deletecollection"};
  Create(rbac + "clusterroles",
         {{"metadata", {{"name", role}}},
          {"rules", {{{"apiGroups", {group}}, {"resources", resources}, {"verbs", verbs}}}}});
  Create(rbac + "clusterrolebindings",
         {{"metadata", {{"name", role}}},
          {"roleRef", {{"apiGroup", kRbac}, {"kind", "ClusterRole"}, {"name", role}}},
          {"subjects", subjects}});
}

json SubjectOf(const Account& account) {
  return {{"kind", "ServiceAccount"}, {"name", account.name}, {"namespace", account.name_space}};
}

void CreateStrongCallers() {
  Create("/api/v1/namespaces", {{"metadata", {{"name", kRenamed.name_space}}}});
  for (const Account& account : {kRenamed, kStrong}) {
    Create("/api/v1/namespaces/" + account.name_space + "/serviceaccounts", {{"metadata", {{"name", account.name}}}});
  }
  const json impostor = {{"kind", "User"}, {"apiGroup", kRbac}, {"name", "system:node:n7"}};
  Grant("policy-test", "ipam.berth.dev", json::array({"ipblocks"}), json::array({SubjectOf(kRenamed), impostor}));
  Grant("policy-test-nodes", "", {"nodes", "nodes/status"}, json::array({SubjectOf(kStrong)}));
}

}  // namespace

PolicyCallers::PolicyCallers() : cluster_(Variable("KUBECONFIG")) { CreateStrongCallers(); }

const Caller& PolicyCallers::Get(const std::string& who) {
  const auto found = callers_.find(who);
  if (found != callers_.end()) return found->second;
  const std::size_t blank = who.find(' ');
  const std::string node = blank == std::string::npos ? "" : who.substr(blank + 1);
  return callers_.emplace(who, Caller(ConfigOf(who.substr(0, blank), node))).first->second;
}

k8sclient::ClientConfig PolicyCallers::ConfigOf(const std::string& who, const std::string& node) {
  k8sclient::ClientConfig config = AdminConfig();
  if (who.empty()) return config;
  if (who == "kubelet" || who == "impostor") {
    const std::string path = Variable("BERTH_TEST_CERTIFICATES") + "/" + who + "-" + node + ".kubeconfig";
    auto loaded = k8sclient::LoadKubeconfig({path}, "", k8sclient::ReadWholeFile);
    if (!loaded) throw std::runtime_error(loaded.error().message);
    return *std::move(loaded);
  }
  if (!node.empty()) cluster_.LabelNode(node, json::object());
  config.client_certificate = {};
  config.client_key = {};
  if (who == "pod") config.token.text = cluster_.Token(kAgent, PodOf(kAgent, node));
  if (who == "controller") config.token.text = cluster_.Token(kReconciler, PodOf(kReconciler, node));
  if (who == "renamed") config.token.text = cluster_.Token(kRenamed, PodOf(kRenamed, node));
  if (who == "strong") config.token.text = cluster_.Token(kStrong, PodOf(kStrong, node));
  if (who == "node") config.token.text = cluster_.AgentToken(node);
  if (who == "unbound") config.token.text = cluster_.Token(kAgent, nullptr);
  if (config.token.text.empty()) throw std::runtime_error("policy.yaml: nobody is called \"" + who + "\"");
  return config;
}

json PolicyCallers::PodOf(const Account& account, const std::string& node) {
  const std::string name = account.name + "-" + node;
  Create("/api/v1/namespaces/" + account.name_space + "/pods",
         {{"metadata", {{"name", name}}},
          {"spec",
           {{"nodeName", node},
            {"serviceAccountName", account.name},
            {"containers", {{{"name", "berth"}, {"image", "example.org/berth"}}}}}}});
  return {{"apiVersion", "v1"}, {"kind", "Pod"}, {"name", name}};
}

}  // namespace berth::e2e
