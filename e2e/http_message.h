// SPDX-License-Identifier: Apache-2.0
// As much of HTTP/1.1 messages (RFC 9112) as a proxy between two well-behaved peers needs.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace berth::e2e {

inline constexpr std::string_view kHeadEnd = "\r\n\r\n";

// The value of a field, by name in any letter case; nothing if the head has no such line. `head` begins with the start
// line.
[[nodiscard]] std::optional<std::string_view> HeaderValue(std::string_view head, std::string_view name);

// Content-Length, 0 where there is none or no number.
[[nodiscard]] std::size_t ContentLength(std::string_view head);

// The head without the lines of these two hop-by-hop fields, plus "Connection: close" and `fields`, whole lines.
[[nodiscard]] std::string AskToClose(std::string_view head, std::string_view fields = "");

struct HttpAnswer {
  int status = 0;
  std::string message;  // complete, with Content-Length in place of chunks, and without Connection
};

// From all bytes that a server sent until it closed. Nothing: they are no complete answer.
[[nodiscard]] std::optional<HttpAnswer> ParseAnswer(std::string_view bytes);

}  // namespace berth::e2e
