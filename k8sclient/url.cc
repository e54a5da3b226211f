// SPDX-License-Identifier: Apache-2.0
// URLs: see the header.
#include "k8sclient/url.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

namespace berth::k8sclient {
namespace {

using ipam::ErrorCode;
using ipam::Expected;
using ipam::Fail;

struct Scheme {
  std::string_view name;
  std::uint16_t port;
};
constexpr std::array kSchemes = {Scheme{"https", 443}, Scheme{"http", 80}, Scheme{"socks5", 1080}};

std::optional<std::string> PercentDecode(std::string_view text) {
  std::string decoded;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded += text[i];
      continue;
    }
    unsigned byte = 0;
    const char* const digits = text.data() + i + 1;
    if (i + 2 >= text.size() || std::from_chars(digits, digits + 2, byte, 16).ptr != digits + 2) return {};
    decoded += static_cast<char>(byte);
    i += 2;
  }
  return decoded;
}

// "user:password" before the host.
bool TakeUserInfo(std::string_view info, ServerUrl& url) {
  const std::size_t colon = std::min(info.find(':'), info.size());
  const auto user = PercentDecode(info.substr(0, colon));
  const auto password = PercentDecode(info.substr(std::min(colon + 1, info.size())));
  if (!user || !password) return false;
  url.user = *user;
  url.password = *password;
  return true;
}

bool TakePort(std::string_view text, ServerUrl& url) {
  if (text.empty()) return true;
  if (text.front() != ':') return false;
  text.remove_prefix(1);
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), url.port);
  return failure == std::errc() && end == text.data() + text.size() && url.port != 0;
}

bool TakeHostAndPort(std::string_view text, ServerUrl& url) {
  if (text.starts_with('[')) {
    const std::size_t bracket = text.find(']');
    if (bracket == std::string_view::npos) return false;
    url.host = text.substr(1, bracket - 1);
    return !url.host.empty() && TakePort(text.substr(bracket + 1), url);
  }
  const std::size_t colon = std::min(text.find(':'), text.size());
  url.host = text.substr(0, colon);
  const bool plain = std::ranges::all_of(url.host, [](unsigned char c) { return c > 0x20 && c < 0x7f; });
  return plain && !url.host.empty() && TakePort(text.substr(colon), url);
}

}  // namespace

std::string Lower(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(
      lower, lower.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return lower;
}

std::string ServerUrl::Authority() const {
  return (host.find(':') == std::string::npos ? host : "[" + host + "]") + ":" + std::to_string(port);
}

Expected<ServerUrl> ParseServerUrl(std::string_view text) {
  const std::size_t scheme_end = text.find("://");
  ServerUrl url{};
  url.scheme = Lower(text.substr(0, std::min(scheme_end, text.size())));
  const auto* const scheme = std::ranges::find(kSchemes, std::string_view(url.scheme), &Scheme::name);
  if (scheme_end == std::string_view::npos || scheme == kSchemes.end()) {
    return Fail(ErrorCode::kDecode, "a URL must begin with https://, http:// or, for a proxy, socks5://");
  }
  url.port = scheme->port;
  text.remove_prefix(scheme_end + 3);
  const std::size_t path = std::min(text.find('/'), text.size());
  std::string_view authority = text.substr(0, path);
  url.path = text.substr(path);
  while (url.path.ends_with('/')) url.path.pop_back();
  const std::size_t at = authority.rfind('@');
  if (at != std::string_view::npos) {
    if (!TakeUserInfo(authority.substr(0, at), url)) return Fail(ErrorCode::kDecode, "the URL's user is malformed");
    authority.remove_prefix(at + 1);
  }
  if (!TakeHostAndPort(authority, url)) return Fail(ErrorCode::kDecode, "the URL's host or port is malformed");
  const bool plain_path =
      std::ranges::all_of(url.path, [](unsigned char c) { return c > 0x20 && c < 0x7f && c != '?' && c != '#'; });
  if (!plain_path) return Fail(ErrorCode::kDecode, "the URL's path is malformed");
  return url;
}

std::string PercentEncode(std::string_view text) {
  constexpr char kHex[] = "0123456789ABCDEF";
  std::string encoded;
  encoded.reserve(text.size());
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                       c == '_' || c == '~' || c == '.';
    if (plain) {
      encoded += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      encoded += {'%', kHex[byte >> 4], kHex[byte & 15]};
    }
  }
  return encoded;
}

std::string RequestTarget(std::string_view path, const Query& query) {
  std::string target(path);
  char separator = '?';
  for (const auto& [name, value] : query) {
    target += separator;
    target += PercentEncode(name);
    target += '=';
    target += PercentEncode(value);
    separator = '&';
  }
  return target;
}

}  // namespace berth::k8sclient
