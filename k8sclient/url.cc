// SPDX-License-Identifier: Apache-2.0
// Percent-encoding and URLs.
#include "k8sclient/url.h"

namespace berth::k8sclient {

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

std::string Url(std::string_view server, const Request& request) {
  std::string url(server);
  url += request.path;
  char separator = '?';
  for (const auto& [name, value] : request.query) {
    url += separator + PercentEncode(name) + "=" + PercentEncode(value);
    separator = '&';
  }
  return url;
}

}  // namespace berth::k8sclient
