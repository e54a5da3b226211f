// SPDX-License-Identifier: Apache-2.0
// Parses the URLs of servers and proxies, and percent-encodes texts (RFC 3986).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"
#include "k8sclient/api.h"

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

// Changes the letters A to Z to lower case.
[[nodiscard]] std::string Lower(std::string_view text);

// Changes each byte to %XX, except letters, digits and "-._~".
[[nodiscard]] std::string PercentEncode(std::string_view text);

// "/path?name=value&...", with the query encoded.
[[nodiscard]] std::string RequestTarget(std::string_view path, const Query& query);

}  // namespace berth::k8sclient
