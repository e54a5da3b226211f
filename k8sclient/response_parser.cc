// SPDX-License-Identifier: Apache-2.0
// ResponseParser: see the header.
#include "k8sclient/response_parser.h"

#include <algorithm>
#include <charconv>

#include "k8sclient/http_date.h"

namespace berth::k8sclient {
namespace {

constexpr std::size_t kHeadBytesMax = std::size_t{64} * 1024;
constexpr std::chrono::seconds kRetryAfterMax = std::chrono::hours(1);

bool EqualsIgnoringCase(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](char x, char y) {
    const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
    return lower(x) == lower(y);
  });
}

std::string_view Stripped(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

// Digits only: from_chars alone would take a sign.
std::optional<std::uint64_t> Number(std::string_view text, int base) {
  std::uint64_t value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (text.empty() || failure != std::errc() || end != text.data() + text.size()) return {};
  return value;
}

// Whether a comma-separated header names the token.
bool HasToken(std::string_view list, std::string_view token) {
  while (true) {
    const std::size_t comma = std::min(list.find(','), list.size());
    if (EqualsIgnoringCase(Stripped(list.substr(0, comma)), token)) return true;
    if (comma == list.size()) return false;
    list.remove_prefix(comma + 1);
  }
}

}  // namespace

ResponseParser::Outcome ResponseParser::Malformed(std::string_view problem) {
  problem_ = problem;
  return Outcome::kMalformed;
}

ResponseParser::Outcome ResponseParser::Feed(std::string_view bytes) {
  while (!bytes.empty()) {
    Outcome outcome = Outcome::kMore;
    if (state_ == State::kLengthBody || state_ == State::kChunk || state_ == State::kOpenBody) {
      outcome = TakeBody(bytes);
    } else {
      const std::size_t newline = bytes.find('\n');
      const std::string_view part = bytes.substr(0, newline);
      head_bytes_ += part.size() + 1;
      if (head_bytes_ > kHeadBytesMax) return Malformed("the answer's head is too long");
      line_ += part;
      if (newline == std::string_view::npos) return Outcome::kMore;
      bytes.remove_prefix(newline + 1);
      if (line_.ends_with('\r')) line_.pop_back();
      outcome = TakeLine(line_);
      line_.clear();
    }
    if (outcome == Outcome::kComplete) leftover_ = bytes.size();
    if (outcome != Outcome::kMore) return outcome;
  }
  return Outcome::kMore;
}

ResponseParser::Outcome ResponseParser::End() {
  return state_ == State::kOpenBody ? Outcome::kComplete : Malformed("the answer was cut off");
}

ResponseParser::Outcome ResponseParser::TakeLine(std::string_view line) {
  switch (state_) {
    case State::kStatusLine:
      return TakeStatusLine(line);
    case State::kHeaders:
      return line.empty() ? TakeEndOfHeaders() : TakeHeader(line);
    case State::kChunkSize:
      return TakeChunkSize(line);
    case State::kChunkEnd:
      state_ = State::kChunkSize;
      return line.empty() ? Outcome::kMore : Malformed("a chunk of the answer is longer than it says");
    case State::kTrailers:
      return line.empty() ? Outcome::kComplete : Outcome::kMore;
    default:
      return Malformed("the answer makes no sense");
  }
}

// "HTTP/1.1 200 OK"
ResponseParser::Outcome ResponseParser::TakeStatusLine(std::string_view line) {
  const bool http = line.size() >= 12 && (line.starts_with("HTTP/1.1 ") || line.starts_with("HTTP/1.0 ")) &&
                    (line.size() == 12 || line[12] == ' ');
  const auto status = http ? Number(line.substr(9, 3), 10) : std::nullopt;
  if (!status || *status < 100 || *status > 599) return Malformed("the answer is not HTTP/1.1");
  status_ = static_cast<int>(*status);
  keep_alive_ = line[7] == '1';
  state_ = State::kHeaders;
  return Outcome::kMore;
}

ResponseParser::Outcome ResponseParser::TakeHeader(std::string_view line) {
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos || colon == 0) return Malformed("a header of the answer is malformed");
  const std::string_view name = line.substr(0, colon);
  const std::string_view value = Stripped(line.substr(colon + 1));
  if (EqualsIgnoringCase(name, "content-length")) {
    const auto length = Number(value, 10);
    if (!length || (length_ && *length_ != *length)) return Malformed("the answer's Content-Length is malformed");
    length_ = length;
  } else if (EqualsIgnoringCase(name, "transfer-encoding")) {
    if (!EqualsIgnoringCase(value, "chunked")) return Malformed("the answer's Transfer-Encoding is not chunked");
    chunked_ = true;
  } else if (EqualsIgnoringCase(name, "connection")) {
    if (HasToken(value, "close")) keep_alive_ = false;
  } else if (EqualsIgnoringCase(name, "retry-after")) {
    // A date, which is the other form, is not sent by API servers.
    if (const auto seconds = Number(value, 10)) {
      retry_after_ = std::chrono::seconds(std::min<std::uint64_t>(*seconds, kRetryAfterMax.count()));
    }
  } else if (EqualsIgnoringCase(name, "date")) {
    date_ = ParseHttpDate(value);
  }
  return Outcome::kMore;
}

ResponseParser::Outcome ResponseParser::TakeEndOfHeaders() {
  if (status_ == 101) return Malformed("the server wants to switch protocols");
  if (status_ < 200) {  // an informational response: the one that counts follows
    state_ = State::kStatusLine;
    length_.reset();
    chunked_ = false;
    return Outcome::kMore;
  }
  if (status_ == 204 || status_ == 304) return Outcome::kComplete;
  if (chunked_ && length_) return Malformed("the answer has two lengths");
  if (chunked_) {
    state_ = State::kChunkSize;
  } else if (length_) {
    state_ = State::kLengthBody;
    body_left_ = *length_;
    if (body_left_ == 0) return Outcome::kComplete;
  } else {
    state_ = State::kOpenBody;
    keep_alive_ = false;
  }
  return Outcome::kMore;
}

ResponseParser::Outcome ResponseParser::TakeChunkSize(std::string_view line) {
  head_bytes_ = 0;  // bounds the line, not all lines of a watch that lives for hours
  const auto size = Number(Stripped(line.substr(0, line.find(';'))), 16);
  if (!size) return Malformed("a chunk of the answer has no size");
  body_left_ = *size;
  state_ = body_left_ == 0 ? State::kTrailers : State::kChunk;
  return Outcome::kMore;
}

ResponseParser::Outcome ResponseParser::TakeBody(std::string_view& bytes) {
  std::string_view piece = bytes;
  if (state_ != State::kOpenBody) {
    piece = bytes.substr(0, static_cast<std::size_t>(std::min<std::uint64_t>(body_left_, bytes.size())));
    body_left_ -= piece.size();
  }
  bytes.remove_prefix(piece.size());
  const bool ended = state_ == State::kLengthBody && body_left_ == 0;
  if (state_ == State::kChunk && body_left_ == 0) state_ = State::kChunkEnd;
  if (!body_(piece)) return Outcome::kStopped;
  return ended ? Outcome::kComplete : Outcome::kMore;
}

}  // namespace berth::k8sclient
