// SPDX-License-Identifier: Apache-2.0
// RunExecPlugin: runs a credential plugin, which is a program that prints a token or a certificate.
//
// Contract: kubernetes.io/docs/reference/access-authn-authz/authentication, "client-go credential plugins". The plugin
// gets no terminal. It may print 1 MiB and run for 60 s.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "base/error.h"
#include "k8sclient/api.h"
#include "k8sclient/client_config.h"

namespace berth::k8sclient {

struct ExecCredential {
  std::string token = {};
  std::string certificate_pem = {};  // with key_pem
  std::string key_pem = {};
  std::optional<std::chrono::sys_time<std::chrono::milliseconds>> expires = {};
};

// Blocks until the plugin ends. At the time limit, kills the plugin and its process group. If the plugin fails, its
// stderr goes to `log`. certificate_authority_pem: the authorities that `cluster` names; empty: `cluster` names none.
// Errors: kUnauthenticated (the plugin failed, printed no credential, or took too long).
[[nodiscard]] Expected<ExecCredential> RunExecPlugin(const ExecPlugin& plugin, const ClientConfig& cluster,
                                                     const std::string& certificate_authority_pem,
                                                     const CallOptions& options, const LogLine& log);

// Parses the output of a plugin. For RunExecPlugin and tests. Errors: kUnauthenticated.
[[nodiscard]] Expected<ExecCredential> ParseExecCredential(const std::string& output, const std::string& api_version);

}  // namespace berth::k8sclient
