// SPDX-License-Identifier: Apache-2.0
// Credential plugins: builds a plugin's environment, runs the plugin, and parses its output.
#include "k8sclient/exec_plugin.h"

#include <algorithm>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "base/timestamp.h"
#include "k8sclient/child_process.h"
#include "k8sclient/openssl.h"
#include "k8sclient/text_at.h"

namespace berth::k8sclient {
namespace {

using nlohmann::json;

constexpr std::chrono::seconds kPluginTimeMax{60};

std::string ExecInfo(const ExecPlugin& plugin, const ClientConfig& cluster, const std::string& authority_pem) {
  json info = {{"kind", "ExecCredential"}, {"apiVersion", plugin.api_version}, {"spec", {{"interactive", false}}}};
  if (plugin.provide_cluster_info) {
    json& facts = info["spec"]["cluster"];
    facts["server"] = cluster.server;
    if (!cluster.tls_server_name.empty()) facts["tls-server-name"] = cluster.tls_server_name;
    if (cluster.insecure_skip_tls_verify) facts["insecure-skip-tls-verify"] = true;
    if (!authority_pem.empty()) facts["certificate-authority-data"] = EncodeBase64(authority_pem);
    if (!cluster.proxy_url.empty()) facts["proxy-url"] = cluster.proxy_url;
  }
  return info.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::vector<std::string> Environment(const ExecPlugin& plugin, const std::string& exec_info) {
  std::map<std::string, std::string> variables = plugin.environment;
  variables["KUBERNETES_EXEC_INFO"] = exec_info;
  std::vector<std::string> environment;
  for (const char* const* entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (!variables.contains(text.substr(0, text.find('=')))) environment.push_back(text);
  }
  for (const auto& [name, value] : variables) environment.push_back(name + "=" + value);
  return environment;
}

}  // namespace

Expected<ExecCredential> ParseExecCredential(const std::string& output, const std::string& api_version) {
  const json document = json::parse(output, nullptr, /*allow_exceptions=*/false);
  // No error quotes the output, which may contain a token.
  if (!document.is_object()) return Fail(ErrorCode::kUnauthenticated, "it did not print a JSON object");
  if (TextAt(document, "kind") != "ExecCredential" || TextAt(document, "apiVersion") != api_version) {
    return Fail(ErrorCode::kUnauthenticated, "it did not print an ExecCredential of " + api_version);
  }
  const json& status = ValueAt(document, "status");
  if (!status.is_object()) return Fail(ErrorCode::kUnauthenticated, "it printed no status");
  ExecCredential credential{.token = TextAt(status, "token"),
                            .certificate_pem = TextAt(status, "clientCertificateData"),
                            .key_pem = TextAt(status, "clientKeyData")};
  if (credential.certificate_pem.empty() != credential.key_pem.empty()) {
    return Fail(ErrorCode::kUnauthenticated, "it printed one of clientCertificateData and clientKeyData, not both");
  }
  if (credential.token.empty() && credential.key_pem.empty()) {
    return Fail(ErrorCode::kUnauthenticated, "it printed neither a token nor a certificate");
  }
  const std::string expires = TextAt(status, "expirationTimestamp");
  if (expires.empty()) return credential;
  const Expected<std::int64_t> unix_ms = ParseTimestamp(expires);
  if (!unix_ms) return Fail(ErrorCode::kUnauthenticated, "its expirationTimestamp is not a time");
  credential.expires.emplace(std::chrono::milliseconds(*unix_ms));
  return credential;
}

Expected<ExecCredential> RunExecPlugin(const ExecPlugin& plugin, const ClientConfig& cluster,
                                       const std::string& certificate_authority_pem, const CallOptions& options,
                                       const LogLine& log) {
  const std::string what = cluster.source + ": exec plugin \"" + plugin.command + "\"";
  const CallOptions limits{.deadline = std::min(options.deadline, std::chrono::steady_clock::now() + kPluginTimeMax),
                           .stop = options.stop};
  const Expected<ChildResult> result =
      RunChild({.program = plugin.command,
                .args = plugin.args,
                .environment = Environment(plugin, ExecInfo(plugin, cluster, certificate_authority_pem))},
               limits);
  if (!result) {
    return Fail(ErrorCode::kUnauthenticated,
                what + ": " + result.error().message,
                result.error().code == ErrorCode::kNotFound ? plugin.install_hint : std::string());
  }
  if (result->exit_code != 0) {
    log(what + ": " + Quoted(result->error_output));
    return Fail(ErrorCode::kUnauthenticated,
                what + ": ended with code " + std::to_string(result->exit_code),
                "the log of this program contains the text that the plugin wrote to stderr");
  }
  Expected<ExecCredential> credential = ParseExecCredential(result->output, plugin.api_version);
  if (!credential) return std::unexpected(credential.error().Within(what));
  return credential;
}

}  // namespace berth::k8sclient
