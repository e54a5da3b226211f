// SPDX-License-Identifier: Apache-2.0
// Has the built-in rules of each field, and checks the paths in a configuration.
#include "cni/path_rules.h"

#include <algorithm>
#include <array>

namespace berth::cni {
namespace {

const std::vector<PathRule>& LogRules() {
  static const std::vector<PathRule> kRules = {"/var/log/berth/"};
  return kRules;
}

// SocketRules and StateRules allow only the default path. berth creates these folders as root, and a path that a tenant
// chooses could replace or block the agent's own files.
const std::vector<PathRule>& SocketRules() {
  static const std::vector<PathRule> kRules = {IpamConfig().agent_socket};
  return kRules;
}

const std::vector<PathRule>& StateRules() {
  static const std::vector<PathRule> kRules = {IpamConfig().state_dir};
  return kRules;
}

// Paths where kubelets keep their kubeconfig and only root can write. berth trusts the certificates, tokens and exec
// plugins that such a file names.
const std::vector<PathRule>& KubeconfigRules() {
  static const std::vector<PathRule> kRules = {
      "/etc/kubernetes/kubelet.conf",                           // kubeadm, Kubespray
      "/var/lib/kubelet/kubeconfig",                            // EKS, GKE, AKS, kOps, OpenShift
      "/etc/kubernetes/kubeconfig",                             // OpenShift, while a node joins
      "/etc/kubernetes/kubelet/kubeconfig",                     // EKS on Bottlerocket
      "/etc/kubernetes/kubeconfig-kubelet",                     // Talos
      "/var/lib/rancher/k3s/agent/kubelet.kubeconfig",          // k3s
      "/var/lib/rancher/rke2/agent/kubelet.kubeconfig",         // RKE2
      "/etc/kubernetes/ssl/kubecfg-kube-node.yaml",             // RKE
      "/var/lib/k0s/kubelet.conf",                              // k0s
      "/var/snap/microk8s/current/credentials/kubelet.config",  // MicroK8s
  };
  return kRules;
}

// Files that kubelets use for their option --resolv-conf.
const std::vector<PathRule>& ResolvConfRules() {
  static const std::vector<PathRule> kRules = {
      "/etc/resolv.conf",
      "/run/systemd/resolve/resolv.conf",
      "/run/systemd/resolve/stub-resolv.conf",
      "/run/NetworkManager/resolv.conf",
      "/run/NetworkManager/no-stub-resolv.conf",
      "/run/resolvconf/resolv.conf",
      "/var/lib/rancher/k3s/agent/etc/resolv.conf",
      "/var/lib/rancher/rke2/agent/etc/resolv.conf",
      "/system/resolved/resolv.conf",  // Talos
  };
  return kRules;
}

// True if the path is absolute, and no part of it is empty, "." or "..".
bool IsPlain(std::string_view path) {
  if (!path.starts_with('/')) return false;
  path.remove_prefix(1);
  while (true) {
    const std::size_t slash = path.find('/');
    const std::string_view part = path.substr(0, slash);
    if (part.empty() || part == "." || part == "..") return false;
    if (slash == std::string_view::npos) return true;
    path.remove_prefix(slash + 1);
  }
}

std::string Joined(const std::vector<PathRule>& rules) {
  std::string text;
  for (const PathRule& rule : rules) text += (text.empty() ? "" : ", ") + rule + (rule.ends_with('/') ? "*" : "");
  return text;
}

bool Covers(const PathRule& rule, std::string_view path) {
  return rule.ends_with('/') ? path.size() > rule.size() && path.starts_with(rule) : path == rule;
}

constexpr std::string_view kHowToAllow =
    "or, as root, allow the path: write the following line into /etc/berth/allowed-paths, or into "
    "berth.allowed-paths beside the program: ";

struct Field {
  std::string_view name;
  const std::string& path;
  const std::vector<PathRule>& rules;
  // A folder that belongs to berth. If the rule is below this folder, no part of the path below the folder may be a
  // symbolic link, not even the file that the rule names.
  PathRule own_folder = {};
};

Expected<void> CheckPath(const Field& field, const PathChecks& checks) {
  if (field.path.empty()) return {};
  const auto refuse = [&](const std::string& why) -> Expected<void> {
    return Fail(ErrorCode::kInvalid,
                "ipam." + std::string(field.name) + " " + Quoted(field.path) + " " + why,
                "choose from " + Joined(field.rules) + "; " + std::string(kHowToAllow) + std::string(field.name) + " " +
                    field.path);
  };
  if (!IsPlain(field.path)) return refuse("has a part that is empty, . or ..");
  std::string why = "is not a path that berth allows for this field";
  const auto allow = [&](const std::vector<PathRule>& some) {
    return std::ranges::any_of(some, [&](const PathRule& rule) {
      if (!Covers(rule, field.path)) return false;
      const bool is_in_own_folder = !field.own_folder.empty() && rule.starts_with(field.own_folder);
      const std::string fault = checks.fault(is_in_own_folder ? field.own_folder : rule, field.path);
      if (!fault.empty()) why = fault;
      return fault.empty();
    });
  };
  return allow(field.rules) || allow(checks.more_rules(field.name)) ? Expected<void>() : refuse(why);
}

}  // namespace

std::vector<PathRule> ParseRules(std::string_view text, std::string_view field) {
  constexpr std::string_view kBlank = " \t\r";
  std::vector<PathRule> rules;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    line.remove_prefix(std::min(line.find_first_not_of(kBlank), line.size()));
    line = line.substr(0, line.find_last_not_of(kBlank) + 1);
    if (!line.starts_with(field)) continue;
    line.remove_prefix(field.size());
    const std::size_t path = line.find_first_not_of(kBlank);
    if (path > 0 && path != std::string_view::npos && line[path] == '/') rules.emplace_back(line.substr(path));
  }
  return rules;
}

Expected<void> CheckPaths(const IpamConfig& config, std::span<const std::string_view> fields,
                          const PathChecks& checks) {
  const std::array known = {Field{"kubeconfig", config.kubeconfig, KubeconfigRules()},
                            Field{"resolvConf", config.resolv_conf, ResolvConfRules()},
                            Field{"agentSocket", config.agent_socket, SocketRules(), "/run/berth/"},
                            Field{"stateDir", config.state_dir, StateRules()},
                            Field{"logFile", config.log_file, LogRules()}};
  for (const Field& field : known) {
    if (std::ranges::find(fields, field.name) == fields.end()) continue;
    if (auto checked = CheckPath(field, checks); !checked) return checked;
  }
  return {};
}

}  // namespace berth::cni
