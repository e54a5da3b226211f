// SPDX-License-Identifier: Apache-2.0
// Probe: sends one GET; the server closes the connection after its answer.
#include "http/http_probe.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <cerrno>
#include <cstring>
#include <sys/socket.h>
#include <sys/time.h>
#include <utility>

#include "http/listen.h"

// NOLINTBEGIN(bugprone-unused-return-value): what Asio returns is also in the argument `error`
namespace berth::http {

using boost::asio::local::stream_protocol;
using boost::system::error_code;
namespace beast = boost::beast;
namespace bhttp = boost::beast::http;

Expected<std::string> Probe(const ProbeOptions& options) {
  if (options.socket.size() > kPathBytesMax)
    return Fail(ErrorCode::kInvalid, "--socket " + options.socket + ": at most 107 characters are possible");
  boost::asio::io_context io;
  beast::basic_stream<stream_protocol> stream(io);
  error_code error;
  // Use connect(2) with SO_SNDTIMEO: if too many callers wait already, Asio's connect would wait for ever, and
  // async_connect would report success.
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(options.wait_max);
  const timeval limit{.tv_sec = seconds.count(),
                      .tv_usec = std::chrono::microseconds(options.wait_max - seconds).count()};
  stream.socket().open({}, error);
  const int descriptor = stream.socket().native_handle();
  const stream_protocol::endpoint endpoint(options.socket);
  if (error || setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) != 0 ||
      connect(descriptor, endpoint.data(), static_cast<socklen_t>(endpoint.size())) != 0) {
    if (errno == EAGAIN) return Fail(ErrorCode::kTimeout, options.socket + ": too many callers wait");
    return Fail(ErrorCode::kUnavailable, options.socket + ": " + std::strerror(errno));
  }
  bhttp::request<bhttp::empty_body> request(bhttp::verb::get, options.asks_ready ? "/readyz" : "/healthz", 11);
  request.set(bhttp::field::host, "berth");
  bhttp::response<bhttp::string_body> response;
  beast::flat_buffer buffer;
  stream.expires_after(options.wait_max);
  bhttp::async_write(stream, request, [&](error_code failed, std::size_t) {
    error = failed;
    if (failed) return;
    bhttp::async_read(stream, buffer, response, [&error](error_code failed_read, std::size_t) { error = failed_read; });
  });
  io.run();
  if (error == beast::error::timeout) return Fail(ErrorCode::kTimeout, options.socket + ": no answer in time");
  if (error) {
    return Fail(ErrorCode::kDecode,
                options.socket + ": the program that answers is not an HTTP server: " + error.message());
  }
  if (response.result() != bhttp::status::ok) return Fail(ErrorCode::kNotReady, std::move(response.body()));
  return std::move(response.body());
}

}  // namespace berth::http
// NOLINTEND(bugprone-unused-return-value)
