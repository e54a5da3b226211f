// SPDX-License-Identifier: Apache-2.0
// Which proxy leads to the API server, if any.
#pragma once

#include <optional>
#include <string>

#include "base/error.h"
#include "k8sclient/client_config.h"
#include "k8sclient/url.h"

namespace berth::k8sclient {

// The kubeconfig's proxy-url, else what HTTPS_PROXY (HTTP_PROXY for an http:// server) and NO_PROXY say, by the rules
// of Go's net/http: NO_PROXY holds "*", names (with what lies below them), addresses and CIDRs, each perhaps with a
// port; the machine itself is never reached through the environment's proxy. Nothing: connect directly. Errors:
// kDecode.
[[nodiscard]] Expected<std::optional<ServerUrl>> ChooseProxy(const std::string& proxy_url, const ServerUrl& server,
                                                             const GetEnvironment& environment);

}  // namespace berth::k8sclient
