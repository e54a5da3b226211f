// SPDX-License-Identifier: Apache-2.0
// Parses URLs with libcurl, and chooses proxies by Go's rules (golang.org/x/net/http/httpproxy).
#include "k8sclient/url.h"

#include <algorithm>
#include <charconv>
#include <memory>
#include <utility>

#include <curl/curl.h>

#include "base/ascii.h"
#include "base/check.h"
#include "ipam/address.h"
#include "ipam/prefix.h"
#include "k8sclient/freed.h"

namespace berth::k8sclient {
namespace {

using ipam::Address;
using ipam::Prefix;

constexpr std::uint16_t kSocksPort = 1080;

// Empty: the URL has no such part.
std::string Part(CURLU* url, CURLUPart part, unsigned flags = 0) {
  char* text = nullptr;
  if (curl_url_get(url, part, &text, flags) != CURLUE_OK) return {};
  std::string copy(text);
  curl_free(text);
  return copy;
}

std::string Lower(std::string text) {
  std::ranges::transform(text, text.begin(), LowerAscii);
  return text;
}

// Reads "10.0.0.0/8". Unlike in a pool's subnet, host bits may be set: AsPrefix masks them, as Go does.
std::optional<Prefix> AsPrefix(const std::string& text) {
  const std::size_t slash = text.find('/');
  if (slash == std::string::npos) return {};
  const auto address = Address::Parse(text.substr(0, slash));
  int length = -1;
  const char* const end = text.data() + text.size();
  const bool number = std::from_chars(text.data() + slash + 1, end, length).ptr == end;
  if (!address || !number || length < 0 || length > AddressBits(address->family())) return {};
  return Prefix::Around(*address, length);
}

// True if an item of NO_PROXY covers the host and port. Both texts are in lower case; `item` is without blanks.
bool Covers(std::string item, const std::string& host, std::uint16_t port) {
  if (item == "*") return true;
  const auto address = Address::Parse(host);
  if (const auto prefix = AsPrefix(item))
    return address && prefix->family() == address->family() && prefix->Contains(*address);
  const std::string port_suffix = ":" + std::to_string(port);
  const bool has_port =
      item.starts_with('[') ? item.find("]:") != std::string::npos : std::ranges::count(item, ':') == 1;
  if (has_port) {
    if (!item.ends_with(port_suffix)) return false;
    item.resize(item.size() - port_suffix.size());
  }
  if (item.starts_with('[') && item.ends_with(']')) item = item.substr(1, item.size() - 2);
  if (item.empty()) return false;
  if (const auto item_address = Address::Parse(item)) return address && *address == *item_address;
  if (item.starts_with("*.")) item.erase(0, 1);
  if (item.front() == '.') return host.ends_with(item);
  return host == item || host.ends_with("." + item);
}

// True if the environment's proxy is not for this server.
bool IsExcepted(const std::string& no_proxy, const std::string& host, std::uint16_t port) {
  if (host == "localhost" || Covers("127.0.0.0/8", host, port) || Covers("::1", host, port)) return true;
  for (std::size_t start = 0; start < no_proxy.size();) {
    const std::size_t end = std::min(no_proxy.find(',', start), no_proxy.size());
    const std::string item = Trimmed(Lower(no_proxy.substr(start, end - start)));
    if (!item.empty() && Covers(item, host, port)) return true;
    start = end + 1;
  }
  return false;
}

}  // namespace

std::string Bracketed(const std::string& host) { return host.find(':') == std::string::npos ? host : "[" + host + "]"; }

std::string ServerUrl::Authority() const { return Bracketed(host) + ":" + std::to_string(port); }

Expected<ServerUrl> ParseServerUrl(std::string_view text) {
  const std::unique_ptr<CURLU, Freed<curl_url_cleanup>> parts(curl_url());
  BERTH_CHECK(parts != nullptr);
  const bool plain = std::ranges::all_of(text, [](unsigned char c) { return c > 0x20 && c < 0x7f; });
  const CURLUcode read =
      plain ? curl_url_set(parts.get(), CURLUPART_URL, std::string(text).c_str(), CURLU_NON_SUPPORT_SCHEME)
            : CURLUE_MALFORMED_INPUT;
  ServerUrl url{};
  url.scheme = Lower(Part(parts.get(), CURLUPART_SCHEME));
  if (read == CURLUE_BAD_SCHEME ||
      (read == CURLUE_OK && url.scheme != "https" && url.scheme != "http" && url.scheme != "socks5")) {
    return Fail(ErrorCode::kDecode, "a URL must begin with https://, http:// or, for a proxy, socks5://");
  }
  if (read != CURLUE_OK) {
    return Fail(ErrorCode::kDecode, std::string("the URL cannot be read: ") + curl_url_strerror(read));
  }
  url.user = Part(parts.get(), CURLUPART_USER, CURLU_URLDECODE);
  url.password = Part(parts.get(), CURLUPART_PASSWORD, CURLU_URLDECODE);
  url.host = Part(parts.get(), CURLUPART_HOST);
  if (url.host.starts_with('[')) url.host = url.host.substr(1, url.host.size() - 2);
  url.path = Part(parts.get(), CURLUPART_PATH);
  while (url.path.ends_with('/')) url.path.pop_back();
  const std::string port = Part(parts.get(), CURLUPART_PORT, CURLU_DEFAULT_PORT);
  url.port = kSocksPort;  // libcurl has default ports for http and https, and none for socks5
  if (!port.empty()) std::from_chars(port.data(), port.data() + port.size(), url.port);
  if (url.port == 0 || url.host.empty()) return Fail(ErrorCode::kDecode, "the URL's host or port is malformed");
  if (text.find_first_of("?#") != std::string_view::npos)
    return Fail(ErrorCode::kDecode, "the URL's path is malformed");
  return url;
}

std::string PercentEncode(std::string_view text) {
  if (text.empty()) return {};
  char* const encoded = curl_easy_escape(nullptr, text.data(), static_cast<int>(text.size()));
  BERTH_CHECK(encoded != nullptr);
  std::string copy(encoded);
  curl_free(encoded);
  return copy;
}

std::string RequestTarget(std::string_view path, const Query& query) {
  std::string target(path);
  for (char separator = '?'; const auto& [name, value] : query) {
    target += separator + PercentEncode(name) + '=' + PercentEncode(value);
    separator = '&';
  }
  return target;
}

Expected<std::optional<ServerUrl>> ChooseProxy(const std::string& proxy_url, const ServerUrl& server,
                                               const GetEnvironment& environment) {
  std::string url = proxy_url;
  std::string where = "proxy-url";
  if (url.empty()) {
    const auto variable = [&environment](const std::string& name) {
      const std::string value = environment(name);
      return value.empty() ? environment(Lower(name)) : value;
    };
    where = server.scheme == "https" ? "HTTPS_PROXY" : "HTTP_PROXY";
    url = variable(where);
    if (url.empty() || IsExcepted(variable("NO_PROXY"), Lower(server.host), server.port)) return std::nullopt;
    if (url.find("://") == std::string::npos) url = "http://" + url;  // Go accepts "proxy:3128" in the environment
  }
  Expected<ServerUrl> proxy = ParseServerUrl(url);
  if (!proxy) return std::unexpected(proxy.error().Within(where));
  return std::optional(std::move(*proxy));
}

}  // namespace berth::k8sclient
