// SPDX-License-Identifier: Apache-2.0
// URLs of servers and proxies, taken apart, and percent-encoding (RFC 3986).
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
  std::string host;      // a name or an address, an IPv6 one without brackets
  std::uint16_t port;    // the scheme's if the text names none: 443 for https, 80 for http, 1080 for socks5
  std::string path;      // not decoded; empty or beginning with a slash, and never ending with one

  // "host:port", with brackets around an IPv6 address: what a Host header or a CONNECT names.
  [[nodiscard]] std::string Authority() const;
};

// Errors: kDecode, with what is wrong; the text is not quoted, because it may hold a password.
[[nodiscard]] Expected<ServerUrl> ParseServerUrl(std::string_view text);

// As a URL has it: an IPv6 address in brackets.
[[nodiscard]] std::string Bracketed(const std::string& host);

// With the letters A to Z in lower case.
[[nodiscard]] std::string Lower(std::string_view text);

// Everything but letters, digits and "-._~" becomes %XX.
[[nodiscard]] std::string PercentEncode(std::string_view text);

// "/path?name=value&...", with the query encoded.
[[nodiscard]] std::string RequestTarget(std::string_view path, const Query& query);

}  // namespace berth::k8sclient
