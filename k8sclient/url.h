// SPDX-License-Identifier: Apache-2.0
// URLs of servers and proxies, percent-encoding (RFC 3986), and the choice of the proxy to the API server.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "k8sclient/api.h"
#include "k8sclient/client_config.h"

namespace berth::k8sclient {

struct ServerUrl {
  std::string scheme;    // in lower case
  std::string user;      // decoded; with password
  std::string password;  // decoded
  std::string host;      // a name or an address; an IPv6 address without brackets
  std::uint16_t port;    // if the text has none: 443 for https, 80 for http, 1080 for socks5
  std::string path;      // not decoded; empty, or begins with a slash and does not end with a slash

  // "host:port", with brackets around an IPv6 address, as in a Host header or a CONNECT.
  [[nodiscard]] std::string Authority() const;
};

// Errors: kDecode. The error does not quote the text, which may contain a password.
[[nodiscard]] Expected<ServerUrl> ParseServerUrl(std::string_view text);

// Puts an IPv6 address in brackets, as in a URL.
[[nodiscard]] std::string Bracketed(const std::string& host);

// Changes each byte to %XX, except letters, digits and "-._~".
[[nodiscard]] std::string PercentEncode(std::string_view text);

// "/path?name=value&...", with the query encoded.
[[nodiscard]] std::string RequestTarget(std::string_view path, const Query& query);

// Returns the kubeconfig's proxy-url, else the proxy by HTTPS_PROXY (HTTP_PROXY for an http:// server) and NO_PROXY, by
// the rules of Go's net/http: NO_PROXY may contain "*", CIDRs, and names (also for their subdomains) and addresses,
// with or without a port. If the server is on this machine (localhost, 127.0.0.0/8, ::1), the environment's proxy is
// not used. Nothing: connect directly. Errors: kDecode (the proxy is not a URL).
[[nodiscard]] Expected<std::optional<ServerUrl>> ChooseProxy(const std::string& proxy_url, const ServerUrl& server,
                                                             const GetEnvironment& environment);

}  // namespace berth::k8sclient
