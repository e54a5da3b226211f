// SPDX-License-Identifier: Apache-2.0
// HTTP messages: reads heads line by line, and bodies as a whole.
#include "e2e/http_message.h"

#include <algorithm>
#include <charconv>
#include <functional>

namespace berth::e2e {
namespace {

constexpr std::string_view kLineEnd = "\r\n";

char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool SameName(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](char x, char y) { return Lower(x) == Lower(y); });
}

std::string_view TakeLine(std::string_view& text) {
  const std::string_view line = text.substr(0, text.find(kLineEnd));
  text.remove_prefix(std::min(text.size(), line.size() + kLineEnd.size()));
  return line;
}

std::string WithoutFields(std::string_view head, const std::function<bool(std::string_view name)>& drop) {
  std::string kept(TakeLine(head));
  kept += kLineEnd;
  while (!head.empty()) {
    const std::string_view line = TakeLine(head);
    if (line.empty() || drop(line.substr(0, line.find(':')))) continue;
    kept += line;
    kept += kLineEnd;
  }
  return kept;
}

template <typename Number>
std::optional<Number> ParseNumber(std::string_view text, int base) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (error != std::errc{}) return std::nullopt;
  return number;
}

std::optional<std::string> JoinChunks(std::string_view chunks) {
  std::string body;
  while (true) {
    const std::optional<std::size_t> size = ParseNumber<std::size_t>(TakeLine(chunks), 16);
    if (!size || chunks.size() < *size) return std::nullopt;
    if (*size == 0) return body;
    body += chunks.substr(0, *size);
    chunks.remove_prefix(std::min(chunks.size(), *size + kLineEnd.size()));
  }
}

}  // namespace

std::optional<std::string_view> HeaderValue(std::string_view head, std::string_view name) {
  TakeLine(head);
  while (!head.empty()) {
    const std::string_view line = TakeLine(head);
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos || !SameName(line.substr(0, colon), name)) continue;
    std::string_view value = line.substr(colon + 1);
    value.remove_prefix(std::min(value.size(), value.find_first_not_of(' ')));
    return value;
  }
  return std::nullopt;
}

std::size_t ContentLength(std::string_view head) {
  return ParseNumber<std::size_t>(HeaderValue(head, "Content-Length").value_or(""), 10).value_or(0);
}

std::string AskToClose(std::string_view head, std::string_view fields) {
  return WithoutFields(head,
                       [](std::string_view name) { return SameName(name, "Connection") || SameName(name, "Expect"); }) +
         std::string(fields) + "Connection: close\r\n\r\n";
}

std::optional<HttpAnswer> ParseAnswer(std::string_view bytes) {
  const std::size_t head_size = bytes.find(kHeadEnd);
  constexpr std::size_t kStatusAt = std::string_view("HTTP/1.1 ").size();
  if (head_size == std::string_view::npos || bytes.size() < kStatusAt) return std::nullopt;
  const std::string_view head = bytes.substr(0, head_size + kLineEnd.size());
  std::string body(bytes.substr(head_size + kHeadEnd.size()));
  if (HeaderValue(head, "Transfer-Encoding")) {
    const std::optional<std::string> joined = JoinChunks(body);
    if (!joined) return std::nullopt;
    body = *joined;
  } else if (body.size() < ContentLength(head)) {
    return std::nullopt;
  }
  HttpAnswer answer;
  answer.status = ParseNumber<int>(bytes.substr(kStatusAt), 10).value_or(0);
  answer.message = WithoutFields(head, [](std::string_view name) {
    return SameName(name, "Connection") || SameName(name, "Transfer-Encoding") || SameName(name, "Content-Length");
  });
  answer.message += "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
  return answer;
}

}  // namespace berth::e2e
