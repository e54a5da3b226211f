// SPDX-License-Identifier: Apache-2.0
// Reading one HTTP/1.1 request from a socket as its bytes come, and writing one answer to it within a time.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

#include "http/http_server.h"
#include "ipam/error.h"

namespace berth::http {

// Only bodies with a Content-Length.
class RequestReader {
 public:
  explicit RequestReader(std::size_t body_bytes_max) : body_bytes_max_(body_bytes_max) {}

  // Takes what has come, without waiting. True: the request is whole. Errors, which are final: kDecode: not HTTP;
  // kInvalid: too large; kIo: the caller is gone.
  [[nodiscard]] ipam::Expected<bool> Read(int descriptor);
  // The same of bytes at hand. Requires: it was not whole.
  [[nodiscard]] ipam::Expected<bool> Add(std::string_view bytes);
  // Once. Requires: it is whole.
  [[nodiscard]] HttpRequest Take();

 private:
  [[nodiscard]] ipam::Expected<void> ReadHead(std::size_t head_bytes);

  std::size_t body_bytes_max_;
  std::string text_;
  std::size_t total_bytes_ = 0;  // 0: the head is not whole yet
  std::size_t head_bytes_ = 0;
  HttpRequest request_;
};

// False: it could not be written as a whole.
[[nodiscard]] bool WriteAnswer(int descriptor, const HttpAnswer& answer, std::chrono::milliseconds limit);

// Whether the other side has closed the connection.
[[nodiscard]] bool HasHungUp(int descriptor);

}  // namespace berth::http
