// SPDX-License-Identifier: Apache-2.0
// Parses the status line, header fields and body.
#include "cni-plugin/agent_answer.h"

#include <charconv>

#include "base/ascii.h"

namespace berth::cni_plugin {
namespace {

constexpr std::string_view kEndOfHead = "\r\n\r\n";
constexpr std::string_view kEndOfLine = "\r\n";

std::string_view TakeLine(std::string_view& text) {
  const std::string_view line = text.substr(0, text.find(kEndOfLine));
  text.remove_prefix(std::min(text.size(), line.size() + kEndOfLine.size()));
  return line;
}

template <typename Number>
std::optional<Number> ParseNumber(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// The status in a line such as "HTTP/1.1 200 OK".
std::optional<int> ParseStatusLine(std::string_view line) {
  constexpr std::string_view kVersion = "HTTP/1.";
  constexpr std::size_t kStatusAt = 9;
  constexpr std::size_t kStatusDigits = 3;
  if (!line.starts_with(kVersion) || line.size() < kStatusAt + kStatusDigits || line[kStatusAt - 1] != ' ') {
    return std::nullopt;
  }
  if (line.size() > kStatusAt + kStatusDigits && line[kStatusAt + kStatusDigits] != ' ') return std::nullopt;
  const auto status = ParseNumber<int>(line.substr(kStatusAt, kStatusDigits));
  return status && *status >= 100 ? status : std::nullopt;
}

std::string_view WithoutBlanks(std::string_view text) {
  while (text.starts_with(' ') || text.starts_with('\t')) text.remove_prefix(1);
  while (text.ends_with(' ') || text.ends_with('\t')) text.remove_suffix(1);
  return text;
}

struct Head {
  AgentAnswer answer;
  std::size_t body_bytes = 0;
};

Expected<Head> ParseHead(std::string_view text) {
  const std::string_view first = TakeLine(text);
  const auto status = ParseStatusLine(first);
  if (!status) return Fail(ErrorCode::kDecode, "the answer begins with " + Quoted(first) + ", which is not HTTP");
  Head head{.answer = {.status = *status, .is_new = false, .body = {}}};
  std::optional<std::size_t> length;
  while (!text.empty()) {
    const std::string_view line = TakeLine(text);
    const std::string_view name = line.substr(0, line.find(':'));
    const std::string_view value = WithoutBlanks(line.substr(std::min(line.size(), name.size() + 1)));
    if (EqualAnyCase(name, "Content-Length")) length = ParseNumber<std::size_t>(value);
    if (EqualAnyCase(name, "Berth-Took")) head.answer.is_new = value == "1";
  }
  if (!length) return Fail(ErrorCode::kDecode, "the answer has no Content-Length");
  if (*length > kAnswerBodyBytesMax) {
    return Fail(ErrorCode::kDecode, "the answer has " + std::to_string(*length) + " bytes, more than 1 MiB");
  }
  head.body_bytes = *length;
  return head;
}

}  // namespace

std::string MakeAgentRequest(std::string_view body) {
  return "POST /cni HTTP/1.1\r\nHost: berth-agent\r\nContent-Type: application/json\r\nConnection: close\r\n"
         "Content-Length: " +
         std::to_string(body.size()) + "\r\n\r\n" + std::string(body);
}

Expected<std::optional<AgentAnswer>> ParseAgentAnswer(std::string_view bytes) {
  const std::size_t end = bytes.substr(0, kAnswerHeadBytesMax).find(kEndOfHead);
  if (end == std::string_view::npos) {
    if (bytes.size() < kAnswerHeadBytesMax) return std::nullopt;
    return Fail(ErrorCode::kDecode, "the answer begins with more than 16 KiB of header fields");
  }
  auto head = ParseHead(bytes.substr(0, end));
  if (!head) return std::unexpected(head.error());
  const std::string_view rest = bytes.substr(end + kEndOfHead.size());
  if (rest.size() < head->body_bytes) return std::nullopt;
  head->answer.body = rest.substr(0, head->body_bytes);
  return std::move(head->answer);
}

}  // namespace berth::cni_plugin
