// SPDX-License-Identifier: Apache-2.0
// ClientConfig: the API server's URL and the client's identity, from a kubeconfig or a pod's service account.
//
// A ClientConfig is a value without I/O. If a certificate or token is in a file, ClientConfig contains only the path,
// because other programs renew these files while a program runs (kubelet client certificates, projected tokens, CA
// bundles). Credentials reads the files.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace berth::k8sclient {

// Reads a whole file of at most 4 MiB. Errors: kIo, with the path in the message. Tests pass their own function.
using ReadFile = std::function<Expected<std::string>(const std::string& path)>;
[[nodiscard]] Expected<std::string> ReadWholeFile(const std::string& path);

// The value of an environment variable; empty if the variable is unset. Tests pass their own function.
using GetEnvironment = std::function<std::string(const std::string& name)>;
[[nodiscard]] std::string ProcessEnvironment(const std::string& name);

// Writes a line that only the log may contain. The line may contain secrets, so no error may contain it: an error may
// become an event of a pod, and the pod's tenant can read events.
using LogLine = std::function<void(const std::string& line)>;
void LogToStderr(const std::string& line);

// The text without blanks and line breaks at both ends. Many token files end with a line break.
[[nodiscard]] std::string Trimmed(std::string_view text);

// A text in the configuration itself, or the path of a file whose text may change.
struct Material {
  std::string text = {};  // wins over path
  std::string path = {};
  [[nodiscard]] bool empty() const { return text.empty() && path.empty(); }
};
// Returns the text, or reads the file. Errors: those of read_file.
[[nodiscard]] Expected<std::string> ReadMaterial(const Material& material, const ReadFile& read_file);

// A program that prints a credential: client.authentication.k8s.io/v1 or v1beta1.
struct ExecPlugin {
  std::string api_version;
  std::string command;
  std::vector<std::string> args = {};
  std::map<std::string, std::string> environment = {};  // added to this process's environment
  bool provide_cluster_info = false;  // server, CA, TLS name and proxy; not the cluster's "config" extension
  std::string install_hint = {};
};

struct ClientConfig {
  std::string source = {};  // origin, for messages: kubeconfig "/root/.kube/config": contexts["a"].context
  std::string server = {};  // "https://10.0.0.1:6443"; may have a path, but no slash at the end
  std::string tls_server_name = {};
  bool insecure_skip_tls_verify = false;
  Material certificate_authority = {};  // PEM; empty: the system's authorities
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

  std::string user_entry = {};  // the name of the user in the kubeconfig
};

// The user name that the API server will see, as far as the configuration tells it: the impersonated user, else the
// common name of the client certificate, else the username, else the name of the kubeconfig's user entry. A node's user
// name is "system:node:<name>". Errors: kDecode (the certificate cannot be read).
[[nodiscard]] Expected<std::string> UserName(const ClientConfig& config, const ReadFile& read_file);

inline constexpr char kServiceAccountDirectory[] = "/var/run/secrets/kubernetes.io/serviceaccount";
// The configuration in a pod, from KUBERNETES_SERVICE_HOST and _PORT and the files of the service account.
// Errors: kEnvironment (the process does not run in a pod).
[[nodiscard]] Expected<ClientConfig> InClusterConfig(const GetEnvironment& environment,
                                                     const std::string& directory = kServiceAccountDirectory);

}  // namespace berth::k8sclient
