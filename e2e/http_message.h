// SPDX-License-Identifier: Apache-2.0
// Reads and rewrites HTTP/1.1 messages (RFC 9112), as far as a proxy between two well-behaved peers needs it.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace berth::e2e {

inline constexpr std::string_view kHeadEnd = "\r\n\r\n";

// The value of a field; `name` may have any letter case. Nothing: the head has no such field. `head` begins with the
// start line.
[[nodiscard]] std::optional<std::string_view> HeaderValue(std::string_view head, std::string_view name);

// Content-Length; 0 if the head has none, or if its value is not a number.
[[nodiscard]] std::size_t ContentLength(std::string_view head);

// The head with "Connection: close" and `fields` (whole lines) instead of the fields Connection and Expect.
[[nodiscard]] std::string AskToClose(std::string_view head, std::string_view fields = "");

struct HttpAnswer {
  int status = 0;
  std::string message;  // complete, with Content-Length in place of chunks, and without Connection
};

// The answer in all bytes that a server sent until it closed the connection. Nothing: the answer is incomplete.
[[nodiscard]] std::optional<HttpAnswer> ParseAnswer(std::string_view bytes);

}  // namespace berth::e2e
