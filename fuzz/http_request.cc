// SPDX-License-Identifier: Apache-2.0
// Head and body of a request: the same in pieces of any size.
#include <algorithm>
#include <string>

#include "fuzz/target.h"
#include "http/http_message.h"
#include "ipam/check.h"

namespace berth::fuzz {

namespace {

constexpr std::size_t kBodyBytesMax = 4096;

// "method path body", "incomplete", or the error.
std::string Read(std::string_view bytes, std::size_t piece_bytes) {
  http::RequestReader reader(kBodyBytesMax);
  while (!bytes.empty()) {
    const auto is_whole = reader.Add(bytes.substr(0, piece_bytes));
    if (!is_whole) return is_whole.error().message;
    if (*is_whole) {
      const http::HttpRequest request = reader.Take();
      BERTH_CHECK(request.body.size() <= kBodyBytesMax);
      return request.method + " " + request.path + " " + request.body;
    }
    bytes.remove_prefix(std::min(piece_bytes, bytes.size()));
  }
  return "incomplete";
}

}  // namespace

void RunHttpRequest(std::string_view bytes) {
  const std::string at_once = Read(bytes, bytes.size());
  for (const std::size_t piece_bytes : {1U, 3U}) BERTH_CHECK(Read(bytes, piece_bytes) == at_once);
}

}  // namespace berth::fuzz
