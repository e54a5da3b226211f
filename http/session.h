// SPDX-License-Identifier: Apache-2.0
// Session: one connection. A Session reads requests, has workers serve them, and writes the answers, with Boost.Beast.
#pragma once

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl.hpp>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <poll.h>
#include <string>
#include <sys/socket.h>
#include <type_traits>
#include <unistd.h>
#include <utility>

#include <spdlog/spdlog.h>

#include "http/gate.h"
#include "http/http_server.h"

namespace berth::http {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace bhttp = boost::beast::http;
using boost::system::error_code;

using PlainStream = beast::basic_stream<asio::generic::stream_protocol>;
using TlsStream = beast::ssl_stream<PlainStream>;

// The state that a listener shares with its sessions.
struct Shared {
  asio::io_context& io;  // has one thread
  asio::thread_pool& workers;
  const bool is_local;
  const HttpLimits limits;
  const HttpHandlers& handlers;
  Gate gate{workers, limits};
  PendingConnections pending{io};
  std::atomic<std::size_t> sessions = 0;
  std::atomic<std::size_t> large_bodies = 0;  // requests with a large body that are read or served now
};

// Calls a handler. If the handler throws, logs the exception: only this request is affected.
inline void Call(const std::string& what, const std::function<void()>& handler) {
  try {
    handler();
  } catch (const std::exception& thrown) {
    spdlog::error("{} err=\"{}\"", what, thrown.what());
  }
}

// The io_context's thread runs every step, except Serve, which a worker runs with the functions that Serve calls, and
// Finish, which either of them runs.
template <typename Stream>
class Session : public std::enable_shared_from_this<Session<Stream>> {
 public:
  Session(PlainStream stream, Shared& shared) : shared_(shared), stream_(std::move(stream)) { ++shared_.sessions; }
  Session(PlainStream stream, std::shared_ptr<asio::ssl::context> tls, Shared& shared)
      : shared_(shared), tls_(std::move(tls)), stream_(std::move(stream), *tls_) {
    ++shared_.sessions;
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session() { --shared_.sessions; }

  void Run() {
    if (shared_.is_local && !MayCall()) return Refuse(bhttp::status::forbidden);
    Await(CallerState::kNew, shared_.limits.io_max);
    if constexpr (kHasTls) {
      stream_.async_handshake(asio::ssl::stream_base::server, [self = Self()](error_code error) {
        if (error) return self->shared_.pending.Remove(self->pending_id_);
        self->Await(CallerState::kIdle, kIdleMax);
        self->ReadRequest();
      });
    } else {
      ReadRequest();
    }
  }

 private:
  static constexpr bool kHasTls = std::is_same_v<Stream, TlsStream>;
  static constexpr std::uint32_t kHeadBytesMax = 16 << 10;
  static constexpr std::chrono::minutes kIdleMax{2};  // longest wait for the next request's head

  [[nodiscard]] auto Self() { return this->shared_from_this(); }
  [[nodiscard]] auto& Lowest() { return beast::get_lowest_layer(stream_); }
  [[nodiscard]] int Descriptor() { return Lowest().socket().native_handle(); }

  // True if the caller is root or this process's user.
  [[nodiscard]] bool MayCall() {
    ucred peer{};
    socklen_t size = sizeof(peer);
    if (getsockopt(Descriptor(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return false;
    return peer.uid == 0 || peer.uid == geteuid();
  }

  // True if the caller has closed the connection (on TCP, the kernel knows this only after a reset). A caller that has
  // closed only its sending side still reads.
  [[nodiscard]] bool HasHungUp() {
    pollfd polled{.fd = Descriptor(), .events = POLLRDHUP, .revents = 0};
    return poll(&polled, 1, 0) > 0 && (polled.revents & (POLLHUP | POLLERR)) != 0;
  }

  // Registers the session in `pending`. `limit`: how long the caller may take for the handshake, the next head or the
  // body; without TLS, for the whole request.
  void Await(CallerState state, std::chrono::milliseconds limit) {
    shared_.pending.Remove(pending_id_);
    pending_id_ = shared_.pending.Add(state, shared_.limits.reading_max, [weak = this->weak_from_this()] {
      // shutdown, not close: the session still reads and serves what has arrived.
      error_code ignored;
      if (const auto self = weak.lock()) self->Lowest().socket().shutdown(asio::socket_base::shutdown_receive, ignored);
    });
    Lowest().expires_after(limit);
  }

  void ReadRequest() {
    parser_ = std::make_unique<bhttp::request_parser<bhttp::string_body>>();
    parser_->header_limit(kHeadBytesMax);
    parser_->body_limit(shared_.limits.body_bytes_max);
    // Beast 1.81 keeps every field of a head, and does not limit their number. So the session first reads the whole
    // head, of at most 16 KiB.
    read_ = beast::buffers_to_string(buffer_.data());
    buffer_.clear();
    asio::async_read_until(stream_,
                           asio::dynamic_buffer(read_, kHeadBytesMax),
                           "\r\n\r\n",
                           [self = Self()](error_code error, std::size_t) { self->OnHead(error); });
  }

  void OnHead(error_code error) {
    if (error == asio::error::not_found) return Refuse(bhttp::status::request_header_fields_too_large);
    if (error) return OnRead(error);
    const std::size_t used = parser_->put(asio::buffer(read_), error);
    if (error) return OnRead(error);
    const auto rest = asio::buffer(read_) + used;
    buffer_.commit(asio::buffer_copy(buffer_.prepare(rest.size()), rest));
    // The server refuses chunks, because no caller needs them, and Beast 1.81 has no limit for their extensions and
    // trailers (boostorg/beast#3077).
    if (parser_->get().count(bhttp::field::transfer_encoding) != 0) return Refuse(bhttp::status::length_required);
    // With TLS, callers come from other machines, and must not fill the memory.
    is_large_ = kHasTls && parser_->content_length().value_or(0) > shared_.limits.large_body_bytes;
    if (is_large_ && ++shared_.large_bodies > shared_.limits.large_bodies_max)
      return Refuse(bhttp::status::service_unavailable);
    if constexpr (kHasTls) Await(CallerState::kSendsBody, shared_.limits.io_max);
    bhttp::async_read(
        stream_, buffer_, *parser_, [self = Self()](error_code failed, std::size_t) { self->OnRead(failed); });
  }

  void OnRead(error_code error) {
    shared_.pending.Remove(pending_id_);
    if (error == bhttp::error::body_limit) return Refuse(bhttp::status::payload_too_large);
    if (error == bhttp::error::partial_message) return Finish(false);
    if (error && error.category() == bhttp::make_error_code(bhttp::error::bad_method).category())
      return Refuse(bhttp::status::bad_request);
    if (error) return Finish(false);
    auto message = parser_->release();
    keep_alive_ =
        kHasTls && message.keep_alive() && message.method() != bhttp::verb::head && !shared_.pending.is_ending();
    version_ = message.version();
    request_ = {.method = message.method_string(),
                .path = message.target(),
                .body = std::move(message.body()),
                .is_local = shared_.is_local};
    Call("tell whether " + request_.path + " is urgent",
         [&] { is_urgent_ = shared_.handlers.is_urgent && shared_.handlers.is_urgent(request_); });
    if (shared_.gate.Enter(is_urgent_, [self = Self()] { self->Serve(); })) return;
    keep_alive_ = false;
    Answer("refuse", shared_.handlers.overload);
    Write();
  }

  // A worker calls Serve.
  void Serve() {
    has_worker_ = true;
    Answer("serve", [this] { return shared_.handlers.answer(request_); });
    static_cast<void>(std::exchange(request_.body, {}));  // frees its memory
    // A write to a caller that has hung up may succeed, so check before the write.
    if (HasHungUp()) return Finish(false);
    if constexpr (!kHasTls) {
      error_code error;
      bhttp::write(stream_.socket(), *serializer_, error);
      if (error != asio::error::would_block) return Finish(!error);
    }
    asio::post(shared_.io, [self = Self()] { self->Write(); });
  }

  void Refuse(bhttp::status status) {
    shared_.pending.Remove(pending_id_);
    keep_alive_ = false;
    SetAnswer({.status = static_cast<int>(status),
               .content_type = "text/plain",
               .body = std::string(bhttp::obsolete_reason(status)) + "\n"});
    Write();
  }

  void Answer(const std::string& what, const std::function<HttpAnswer()>& handler) {
    SetAnswer({.status = 500, .content_type = "text/plain", .body = "a bug, see the log\n"});
    Call(what + " " + request_.path, [&] { SetAnswer(handler()); });
  }

  void SetAnswer(HttpAnswer answer) {
    done_ = std::move(answer.done);
    response_ = {static_cast<bhttp::status>(answer.status), version_};
    response_.keep_alive(keep_alive_);
    response_.set(bhttp::field::content_type, answer.content_type);
    for (const auto& [name, value] : answer.headers) response_.set(name, value);
    keep_alive_ = response_.keep_alive();
    response_.body() = std::move(answer.body);
    response_.prepare_payload();
    serializer_ = std::make_unique<bhttp::response_serializer<bhttp::string_body>>(response_);
  }

  // Writes the answer, or the rest that Serve could not write at once.
  void Write() {
    // While a slow caller reads its answer, the worker is free for another request, unless it has to call `done`.
    if (!done_ && std::exchange(has_worker_, false)) shared_.gate.Leave(is_urgent_);
    Lowest().expires_after(shared_.limits.io_max);
    bhttp::async_write(stream_, *serializer_, [self = Self()](error_code error, std::size_t) {
      if (!self->done_) return self->Finish(!error);
      asio::post(self->shared_.workers, [self, error] { self->Finish(!error); });
    });
  }

  // The io_context's thread or a worker calls Finish.
  void Finish(bool delivered) {
    if (const auto done = std::exchange(done_, {})) Call("after " + request_.path, [&] { done(delivered); });
    // Frees the last request's memory while the connection waits for the next request.
    serializer_.reset();
    static_cast<void>(std::exchange(response_, {}));
    parser_.reset();
    static_cast<void>(std::exchange(request_, {}));
    if (std::exchange(is_large_, false)) --shared_.large_bodies;
    if (std::exchange(has_worker_, false)) shared_.gate.Leave(is_urgent_);
    if constexpr (kHasTls) {
      if (delivered) asio::post(shared_.io, [self = Self()] { self->ReadNextOrEndTls(); });
    }
  }

  // Reads the next request, or ends TLS.
  void ReadNextOrEndTls() {
    keep_alive_ = keep_alive_ && !shared_.pending.is_ending();
    Await(CallerState::kIdle, keep_alive_ ? kIdleMax : shared_.limits.io_max);
    if (keep_alive_) return ReadRequest();
    stream_.async_shutdown([self = Self()](error_code) { self->shared_.pending.Remove(self->pending_id_); });
  }

  Shared& shared_;
  // Declared before stream_ and so destroyed after it: the io_context's thread runs as long as a session exists.
  const asio::executor_work_guard<asio::io_context::executor_type> work_guard_ = asio::make_work_guard(shared_.io);
  std::shared_ptr<asio::ssl::context> tls_;  // null without TLS
  Stream stream_;
  std::string read_;           // the head, and the bytes that came with it
  beast::flat_buffer buffer_;  // bytes that came with the head, and follow it
  PendingConnections::Id pending_id_ = {};

  // The state of one request. The worker uses it in Serve and perhaps in Finish, and the io_context's thread uses it at
  // all other times.
  std::unique_ptr<bhttp::request_parser<bhttp::string_body>> parser_;
  HttpRequest request_;
  bool is_urgent_ = false;
  bool is_large_ = false;
  bool keep_alive_ = false;
  bool has_worker_ = false;
  unsigned version_ = 11;
  bhttp::response<bhttp::string_body> response_;
  std::unique_ptr<bhttp::response_serializer<bhttp::string_body>> serializer_;
  std::function<void(bool)> done_;
};

}  // namespace berth::http
