// SPDX-License-Identifier: Apache-2.0
// HttpServer: the listeners and the threads. Workers call the handlers, and without TLS write what they can write of an
// answer without waiting. One other thread accepts, reads, and writes the rest.
#include "http/http_server.h"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <future>
#include <sys/socket.h>
#include <thread>

#include "http/listen.h"
#include "http/session.h"
#include "http/tls.h"

// NOLINTBEGIN(bugprone-unused-return-value): what Asio returns is also in the argument `error`
namespace berth::http {

namespace {

constexpr std::chrono::milliseconds kAcceptPause{50};  // after accept failed, for example for lack of descriptors
constexpr std::chrono::seconds kComplainEvery{10};

// Accepts on one socket.
class Listener {
 public:
  Listener(Acceptor acceptor, std::unique_ptr<Shared> shared, std::optional<Tls> tls)
      : shared_(std::move(shared)), acceptor_(std::move(acceptor)), pause_(shared_->io), tls_(std::move(tls)) {}

  void Accept() {
    acceptor_.async_accept([this](error_code error, auto socket) {
      if (!error) Take(std::move(socket));
      if (!acceptor_.is_open()) return has_stopped_.set_value();
      if (!error) return Accept();
      const auto now = std::chrono::steady_clock::now();
      if (now - complained_ > kComplainEvery) {
        spdlog::error("cannot accept connections, so callers wait err=\"{}\"", error.message());
        complained_ = now;
      }
      pause_.expires_after(kAcceptPause);
      pause_.async_wait([this](error_code) {
        if (!acceptor_.is_open()) return has_stopped_.set_value();
        Accept();
      });
    });
  }

  // Serves the callers that the kernel has accepted, and closes the acceptor. The io_context's thread must not call
  // StopAccepting, because it would wait for itself.
  void StopAccepting() {
    asio::post(shared_->io, [this] {
      if (!acceptor_.is_open()) return;
      error_code error;
      // From here on the kernel refuses callers on a UNIX socket, so no caller comes between the last accept and close.
      if (shared_->is_local) shutdown(acceptor_.native_handle(), SHUT_RD);
      acceptor_.non_blocking(true, error);
      acceptor_.set_option(asio::socket_base::enable_connection_aborted(true), error);
      for (int waiting = 0; waiting <= kBacklog && error != asio::error::would_block; ++waiting) {
        PlainStream::socket_type socket(shared_->io);
        acceptor_.accept(socket, error);
        if (!error) Take(std::move(socket));
      }
      acceptor_.close(error);
      pause_.cancel();
    });
    stopped_.wait();
  }

  void End() {
    asio::post(shared_->io, [this] { shared_->pending.End(); });
  }

 private:
  void Take(PlainStream::socket_type socket) {
    // The limit includes connections that only read their answers: each uses memory and a descriptor.
    const HttpLimits& limits = shared_->limits;
    if (shared_->sessions >= limits.reading_max + (2 * limits.waiting_max) + limits.workers) return;
    error_code ignored;
    socket.non_blocking(true, ignored);
    if (!tls_) return std::make_shared<Session<PlainStream>>(PlainStream(std::move(socket)), *shared_)->Run();
    socket.set_option(asio::ip::tcp::no_delay(true), ignored);
    std::make_shared<Session<TlsStream>>(PlainStream(std::move(socket)), tls_->Current(), *shared_)->Run();
  }

  const std::unique_ptr<Shared> shared_;
  Acceptor acceptor_;
  asio::steady_timer pause_;
  std::promise<void> has_stopped_;  // set when the last accept has ended
  const std::shared_future<void> stopped_ = has_stopped_.get_future().share();
  std::chrono::steady_clock::time_point complained_ = {};
  std::optional<Tls> tls_;
};

class Server final : public HttpServer {
 public:
  Server(HttpHandlers handlers, std::size_t workers) : handlers_(std::move(handlers)), workers_(workers) {}
  ~Server() override {                // NOLINT(bugprone-exception-escape): without memory or threads it cannot end
    if (!thread_.joinable()) return;  // Listen failed
    StopAccepting();
    for (const auto& listener : listeners_) listener->End();
    // The io_context runs until the last session has ended.
    work_guard_.reset();
    thread_.join();
    workers_.join();
  }

  [[nodiscard]] Expected<void> Listen(const HttpServerOptions& options) {
    std::optional<Tls> tls;
    if (options.tls) {
      tls.emplace(*options.tls);
      if (auto loaded = tls->Load(); !loaded) return loaded;
    }
    // TCP first: if another process has the port, the socket's path stays as it is.
    std::optional<TcpAcceptor> tcp;
    if (!options.tcp_address.empty()) {
      auto listening = ListenTcp(io_, options.tcp_address, options.shares_port);
      if (!listening) return std::unexpected(listening.error());
      tcp = *std::move(listening);
    }
    if (!options.socket_path.empty()) {
      auto listening = ListenLocal(io_, options.socket_path);
      if (!listening) return std::unexpected(listening.error());
      Add(*std::move(listening), /*is_local=*/true, options.socket_limits, std::nullopt);
    }
    if (tcp) {
      tcp_port_ = tcp->port;
      Add(std::move(tcp->acceptor), /*is_local=*/false, options.tcp_limits, std::move(tls));
    }
    thread_ = std::thread([this] { io_.run(); });
    return {};
  }

  void StopAccepting() override {
    for (const auto& listener : listeners_) listener->StopAccepting();
  }

  [[nodiscard]] int tcp_port() const override { return tcp_port_; }

 private:
  void Add(Acceptor acceptor, bool is_local, const HttpLimits& limits, std::optional<Tls> tls) {
    std::unique_ptr<Shared> shared(
        new Shared{.io = io_, .workers = workers_, .is_local = is_local, .limits = limits, .handlers = handlers_});
    listeners_.push_back(std::make_unique<Listener>(std::move(acceptor), std::move(shared), std::move(tls)));
    listeners_.back()->Accept();
  }

  const HttpHandlers handlers_;
  asio::io_context io_{/*concurrency_hint=*/1};
  std::optional<asio::executor_work_guard<asio::io_context::executor_type>> work_guard_ = asio::make_work_guard(io_);
  asio::thread_pool workers_;
  std::vector<std::unique_ptr<Listener>> listeners_;
  std::thread thread_;
  int tcp_port_ = 0;
};

}  // namespace

Expected<std::unique_ptr<HttpServer>> HttpServer::Make(const HttpServerOptions& options, HttpHandlers handlers) {
  const std::size_t workers = (options.socket_path.empty() ? 0 : options.socket_limits.workers) +
                              (options.tcp_address.empty() ? 0 : options.tcp_limits.workers);
  auto server = std::make_unique<Server>(std::move(handlers), workers);
  if (auto listening = server->Listen(options); !listening) return std::unexpected(listening.error());
  return server;
}

}  // namespace berth::http
// NOLINTEND(bugprone-unused-return-value)
