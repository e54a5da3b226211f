// SPDX-License-Identifier: Apache-2.0
// ResponseParser: an HTTP/1.1 response, out of pieces of any size (RFC 9112).
//
// No I/O. It accepts what servers and proxies send and nothing beyond: whatever could be read in two ways (two lengths,
// a length that is no number) is malformed, as a misread border would give one answer to the next request.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace berth::k8sclient {

class ResponseParser {
 public:
  enum class Outcome : std::uint8_t {
    kMore,       // not complete
    kComplete,   // the response has ended
    kStopped,    // the body's receiver said stop
    kMalformed,  // see problem()
  };

  // Receives the body, in pieces as they come; false: stop. status() is known by then.
  using Body = std::function<bool(std::string_view piece)>;

  explicit ResponseParser(Body body) : body_(std::move(body)) {}

  // Requires: kMore was returned so far. Informational responses (1xx) are passed over.
  [[nodiscard]] Outcome Feed(std::string_view bytes);

  // The peer has closed the connection in order: that completes a response without a length, and no other.
  [[nodiscard]] Outcome End();

  [[nodiscard]] int status() const { return status_; }
  [[nodiscard]] std::optional<std::chrono::seconds> retry_after() const { return retry_after_; }
  [[nodiscard]] std::optional<std::chrono::sys_seconds> date() const { return date_; }
  // After kComplete: whether another request may follow on the connection.
  [[nodiscard]] bool keep_alive() const { return keep_alive_ && leftover_ == 0; }
  // For a person; static text.
  [[nodiscard]] std::string_view problem() const { return problem_; }

 private:
  enum class State : std::uint8_t {
    kStatusLine,
    kHeaders,
    kLengthBody,
    kChunkSize,
    kChunk,
    kChunkEnd,
    kTrailers,
    kOpenBody
  };

  [[nodiscard]] Outcome TakeLine(std::string_view line);
  [[nodiscard]] Outcome TakeStatusLine(std::string_view line);
  [[nodiscard]] Outcome TakeHeader(std::string_view line);
  [[nodiscard]] Outcome TakeEndOfHeaders();
  [[nodiscard]] Outcome TakeChunkSize(std::string_view line);
  [[nodiscard]] Outcome TakeBody(std::string_view& bytes);
  [[nodiscard]] Outcome Malformed(std::string_view problem);

  Body body_;
  State state_ = State::kStatusLine;
  std::string line_;             // a line that has begun
  std::size_t head_bytes_ = 0;   // of status line, headers and trailers, which are bounded together
  std::uint64_t body_left_ = 0;  // of the length or of the chunk
  int status_ = 0;
  bool keep_alive_ = true;
  bool chunked_ = false;
  std::optional<std::uint64_t> length_;
  std::optional<std::chrono::seconds> retry_after_;
  std::optional<std::chrono::sys_seconds> date_;
  std::size_t leftover_ = 0;  // bytes behind the end of the response
  std::string_view problem_;
};

}  // namespace berth::k8sclient
