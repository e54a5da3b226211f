// SPDX-License-Identifier: Apache-2.0
// Credential plugins: builds a plugin's environment, runs the plugin, and parses its output.
#include "k8sclient/exec_plugin.h"

#include <algorithm>
#include <charconv>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "k8sclient/base64.h"
#include "k8sclient/child_process.h"
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

// Reads `digits` decimal digits at `at` and moves behind them.
std::optional<int> Digits(std::string_view text, std::size_t& at, std::size_t digits) {
  int value = 0;
  const std::string_view part = text.substr(std::min(at, text.size()), digits);
  const auto [end, failure] = std::from_chars(part.data(), part.data() + part.size(), value);
  if (failure != std::errc() || part.size() != digits || end != part.data() + digits || part[0] == '-') return {};
  at += digits;
  return value;
}

bool Skip(std::string_view text, std::size_t& at, std::string_view one_of) {
  if (at >= text.size() || one_of.find(text[at]) == std::string_view::npos) return false;
  ++at;
  return true;
}

// Reads "Z" or "+02:00" at `at`; the text must end there.
std::optional<std::chrono::minutes> Offset(std::string_view text, std::size_t at) {
  if (text.substr(at) == "Z" || text.substr(at) == "z") return std::chrono::minutes(0);
  const bool behind = at < text.size() && text[at] == '-';
  if (!Skip(text, at, "+-")) return {};
  const auto hours = Digits(text, at, 2);
  if (!hours || !Skip(text, at, ":")) return {};
  const auto minutes = Digits(text, at, 2);
  if (!minutes || at != text.size()) return {};
  const std::chrono::minutes offset = std::chrono::hours(*hours) + std::chrono::minutes(*minutes);
  return behind ? -offset : offset;
}

}  // namespace

std::optional<std::chrono::system_clock::time_point> ParseTime(const std::string& text) {
  std::size_t at = 0;
  const auto year = Digits(text, at, 4);
  if (!year || !Skip(text, at, "-")) return {};
  const auto month = Digits(text, at, 2);
  if (!month || !Skip(text, at, "-")) return {};
  const auto day = Digits(text, at, 2);
  if (!day || !Skip(text, at, "Tt ")) return {};
  const auto hour = Digits(text, at, 2);
  if (!hour || !Skip(text, at, ":")) return {};
  const auto minute = Digits(text, at, 2);
  if (!minute || !Skip(text, at, ":")) return {};
  const auto second = Digits(text, at, 2);
  if (!second) return {};
  if (Skip(text, at, ".")) {
    while (Skip(text, at, "0123456789")) {
    }
  }
  const auto offset = Offset(text, at);
  const std::chrono::year_month_day date{std::chrono::year(*year),
                                         std::chrono::month(static_cast<unsigned>(*month)),
                                         std::chrono::day(static_cast<unsigned>(*day))};
  if (!offset || !date.ok() || *hour > 23 || *minute > 59 || *second > 60) return {};
  return std::chrono::sys_days(date) + std::chrono::hours(*hour) + std::chrono::minutes(*minute) +
         std::chrono::seconds(*second) - *offset;
}

Expected<ExecCredential> ParseExecCredential(const std::string& output, const std::string& api_version) {
  const json document = json::parse(output, nullptr, /*allow_exceptions=*/false);
  // No error quotes the output, which may contain a token.
  if (!document.is_object()) return Fail(ErrorCode::kUnauthenticated, "it did not print a JSON object");
  if (TextAt(document, "kind") != "ExecCredential" || TextAt(document, "apiVersion") != api_version) {
    return Fail(ErrorCode::kUnauthenticated, "it did not print an ExecCredential of " + api_version);
  }
  const auto status = document.find("status");
  if (status == document.end() || !status->is_object()) {
    return Fail(ErrorCode::kUnauthenticated, "it printed no status");
  }
  ExecCredential credential{.token = TextAt(*status, "token"),
                            .certificate_pem = TextAt(*status, "clientCertificateData"),
                            .key_pem = TextAt(*status, "clientKeyData")};
  if (credential.certificate_pem.empty() != credential.key_pem.empty()) {
    return Fail(ErrorCode::kUnauthenticated, "it printed one of clientCertificateData and clientKeyData, not both");
  }
  if (credential.token.empty() && credential.key_pem.empty()) {
    return Fail(ErrorCode::kUnauthenticated, "it printed neither a token nor a certificate");
  }
  const std::string expires = TextAt(*status, "expirationTimestamp");
  if (expires.empty()) return credential;
  credential.expires = ParseTime(expires);
  if (!credential.expires) return Fail(ErrorCode::kUnauthenticated, "its expirationTimestamp is not a time");
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
