// SPDX-License-Identifier: Apache-2.0
// Runs a credential plugin: a program that a kubeconfig names and that prints a token or a certificate.
//
// Contract: kubernetes.io/docs/reference/access-authn-authz/authentication, "client-go credential plugins". The plugin
// gets no terminal. What it prints is bounded, and so is its time.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "base/error.h"
#include "k8sclient/api.h"
#include "k8sclient/client_config.h"
#include "k8sclient/log_line.h"

namespace berth::k8sclient {

struct ExecCredential {
  std::string token = {};
  std::string certificate_pem = {};  // with key_pem
  std::string key_pem = {};
  std::optional<std::chrono::system_clock::time_point> expires = {};
};

// Blocks until the program ends; kills it, with the process group it leads, when the time is over.
// What it wrote to stderr when it failed goes to `log`.
// Errors: kUnauthenticated (it failed, printed nonsense, or took too long).
[[nodiscard]] Expected<ExecCredential> RunExecPlugin(const ExecPlugin& plugin, const ClientConfig& cluster,
                                                     const std::string& certificate_authority_pem,
                                                     const CallOptions& options, const LogLine& log);

// The output of a plugin, taken apart; for RunExecPlugin and its tests. Errors: kUnauthenticated.
[[nodiscard]] Expected<ExecCredential> ParseExecCredential(const std::string& output, const std::string& api_version);

// RFC 3339, as Kubernetes writes it: "2026-03-01T12:00:00Z", with a fraction or an offset if need be.
[[nodiscard]] std::optional<std::chrono::system_clock::time_point> ParseTime(const std::string& text);

}  // namespace berth::k8sclient
