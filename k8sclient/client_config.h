// SPDX-License-Identifier: Apache-2.0
// ClientConfig: where the API server is and who we are, as a kubeconfig or a pod's service account says it.
//
// A value without I/O. Certificates and tokens that live in files stay paths here, because they are renewed while a
// program runs (kubelet client certificates, projected tokens, CA bundles); Credentials reads them.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace berth::k8sclient {

// Reads a whole file, at most 4 MiB. Errors: kIo, with the path in the message. Tests give their own.
using ReadFile = std::function<Expected<std::string>(const std::string& path)>;
[[nodiscard]] Expected<std::string> ReadWholeFile(const std::string& path);

// The value of an environment variable, empty if it is unset. Tests give their own.
using GetEnvironment = std::function<std::string(const std::string& name)>;
[[nodiscard]] std::string ProcessEnvironment(const std::string& name);

// The text without blanks and line breaks around it: token files end with one as often as not.
[[nodiscard]] std::string Trimmed(std::string_view text);

// Text that stands in the configuration itself, or in a file that may change.
struct Material {
  std::string text = {};  // wins
  std::string path = {};
  [[nodiscard]] bool empty() const { return text.empty() && path.empty(); }
};

// A program that prints a credential: client.authentication.k8s.io/v1 or v1beta1.
struct ExecPlugin {
  std::string api_version;
  std::string command;
  std::vector<std::string> args = {};
  std::map<std::string, std::string> environment = {};  // added to ours
  bool provide_cluster_info = false;  // server, CA, TLS name and proxy; not the cluster's "config" extension
  std::string install_hint = {};
};

struct ClientConfig {
  std::string source = {};  // where it comes from, for messages: "/etc/kubernetes/kubelet.conf context=default"
  std::string server = {};  // "https://10.0.0.1:6443", perhaps with a path, without a slash at the end
  std::string tls_server_name = {};
  bool insecure_skip_tls_verify = false;
  Material certificate_authority = {};  // PEM; empty: the system's
  std::string proxy_url = {};           // http, https or socks5; empty: HTTPS_PROXY and NO_PROXY decide

  Material client_certificate = {};
  Material client_key = {};
  Material token = {};
  std::string username = {};
  std::string password = {};
  std::optional<ExecPlugin> exec = {};
  std::string impersonate_user = {};
  std::string impersonate_uid = {};
  std::vector<std::string> impersonate_groups = {};
  std::map<std::string, std::vector<std::string>> impersonate_extra = {};

  std::string user_entry = {};         // the name of the user in the kubeconfig
  std::string default_namespace = {};  // of the context or of the service account; "default" if none is given
};

// The user's name that the API server will see, as far as it can be told without asking it: the common name of a client
// certificate, else the username, else the name of the kubeconfig's user entry. For a node it is "system:node:<name>".
// Errors: kDecode (the certificate cannot be read).
[[nodiscard]] Expected<std::string> UserName(const ClientConfig& config, const ReadFile& read_file);

// The configuration of a pod: KUBERNETES_SERVICE_HOST and _PORT, and the files of the service account.
// Errors: kEnvironment if this is no pod.
inline constexpr char kServiceAccountDirectory[] = "/var/run/secrets/kubernetes.io/serviceaccount";
[[nodiscard]] Expected<ClientConfig> InClusterConfig(const GetEnvironment& environment, const ReadFile& read_file,
                                                     const std::string& directory = kServiceAccountDirectory);

}  // namespace berth::k8sclient
