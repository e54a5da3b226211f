// SPDX-License-Identifier: Apache-2.0
// ChooseProxy: chooses the proxy to the API server, if any.
#pragma once

#include <optional>
#include <string>

#include "base/error.h"
#include "k8sclient/client_config.h"
#include "k8sclient/url.h"

namespace berth::k8sclient {

// Returns the kubeconfig's proxy-url, else the proxy by HTTPS_PROXY (HTTP_PROXY for an http:// server) and NO_PROXY, by
// the rules of Go's net/http: NO_PROXY may contain "*", CIDRs, and names (also for their subdomains) and addresses,
// with or without a port. If the server is on this machine (localhost, 127.0.0.0/8, ::1), the environment's proxy is
// not used. Nothing: connect directly. Errors: kDecode (the proxy is not a URL).
[[nodiscard]] Expected<std::optional<ServerUrl>> ChooseProxy(const std::string& proxy_url, const ServerUrl& server,
                                                             const GetEnvironment& environment);

}  // namespace berth::k8sclient
