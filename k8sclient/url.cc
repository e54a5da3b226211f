// SPDX-License-Identifier: Apache-2.0
// URLs, with libcurl.
#include "k8sclient/url.h"

#include <algorithm>
#include <charconv>
#include <memory>
#include <utility>

#include <curl/curl.h>

#include "base/check.h"
#include "k8sclient/freed.h"

namespace berth::k8sclient {
namespace {

// Empty: the URL has no such part.
std::string Part(CURLU* url, CURLUPart part, unsigned flags = 0) {
  char* text = nullptr;
  if (curl_url_get(url, part, &text, flags) != CURLUE_OK) return {};
  std::string copy(text);
  curl_free(text);
  return copy;
}

std::uint16_t DefaultPort(std::string_view scheme) { return scheme == "https" ? 443 : scheme == "http" ? 80 : 1080; }

}  // namespace

std::string Lower(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(
      lower, lower.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return lower;
}

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
  const std::string port = Part(parts.get(), CURLUPART_PORT);
  url.port = DefaultPort(url.scheme);
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
