// SPDX-License-Identifier: Apache-2.0
// Boost.Beast over TLS. Everything here but Start and the destructor runs on the one thread of the io_context.
#include "extender/server.h"

#include <algorithm>
#include <array>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl.hpp>
#include <list>
#include <optional>
#include <sys/stat.h>
#include <thread>
#include <utility>
#include <vector>

#include <spdlog/spdlog.h>

// NOLINTBEGIN(bugprone-unused-return-value): what Asio returns is also in the argument `error`
namespace berth::extender {

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace bhttp = boost::beast::http;
namespace ssl = boost::asio::ssl;
using asio::ip::tcp;
using boost::system::error_code;
using ipam::ErrorCode;

// After a failed accept, which is for want of descriptors or memory.
constexpr std::chrono::milliseconds kAcceptPause{100};

ipam::Expected<std::shared_ptr<ssl::context>> LoadTls(const ServerOptions& options) {
  auto context = std::make_shared<ssl::context>(ssl::context::tls_server);
  SSL_CTX_set_min_proto_version(context->native_handle(), TLS1_2_VERSION);
  // A resumed session would not look at the client's certificate again.
  SSL_CTX_set_session_cache_mode(context->native_handle(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_options(context->native_handle(), SSL_OP_NO_TICKET);
  error_code error;
  const auto fail = [&error](const std::string& file) {
    return ipam::Fail(ErrorCode::kInvalid, ipam::Quoted(file) + " cannot be used for TLS: " + error.message());
  };
  context->use_certificate_chain_file(options.certificate_file, error);
  if (error) return fail(options.certificate_file);
  context->use_private_key_file(options.key_file, ssl::context::pem, error);
  if (error) return fail(options.key_file);
  if (options.client_ca_file.empty()) return context;
  context->load_verify_file(options.client_ca_file, error);
  if (error) return fail(options.client_ca_file);
  context->set_verify_mode(ssl::verify_peer | ssl::verify_fail_if_no_peer_cert, error);
  if (error) return fail(options.client_ca_file);
  return context;
}

// What tells one state of a file from the next; a Secret's files are replaced as a whole.
struct FileStamp {
  ino_t inode = 0;
  std::int64_t seconds = 0;
  std::int64_t nanoseconds = 0;
  off_t size = 0;
  friend bool operator==(const FileStamp&, const FileStamp&) = default;
};

FileStamp StampOf(const std::string& path) {
  struct stat found{};
  if (path.empty() || stat(path.c_str(), &found) != 0) return {};
  return {.inode = found.st_ino,
          .seconds = found.st_mtim.tv_sec,
          .nanoseconds = found.st_mtim.tv_nsec,
          .size = found.st_size};
}

// The context for new connections.
class Tls {
 public:
  explicit Tls(const ServerOptions& options) : options_(options) {}

  [[nodiscard]] ipam::Expected<void> Load() {
    stamps_ = Stamps();
    auto loaded = LoadTls(options_);
    if (!loaded) return std::unexpected(std::move(loaded.error()));
    context_ = *std::move(loaded);
    return {};
  }

  // As the files are now. If they cannot be used, as they were: they may be replaced one after the other.
  [[nodiscard]] const std::shared_ptr<ssl::context>& Current() {
    if (Stamps() == stamps_) return context_;
    if (const auto loaded = Load(); loaded) {
      spdlog::info("the extender uses new certificate files file={}", options_.certificate_file);
    } else {
      spdlog::warn("the extender cannot use its new certificate files, so it keeps the old ones err={}",
                   ipam::Quoted(loaded.error().message));
    }
    return context_;
  }

 private:
  using AllStamps = std::array<FileStamp, 3>;
  [[nodiscard]] AllStamps Stamps() const {
    return {StampOf(options_.certificate_file), StampOf(options_.key_file), StampOf(options_.client_ca_file)};
  }

  const ServerOptions& options_;
  std::shared_ptr<ssl::context> context_;
  AllStamps stamps_;
};

class Session;

// What sessions share.
struct Shared {
  ServerOptions options;
  Server::Handler handler;
  std::list<std::shared_ptr<Session>> sessions;
  std::size_t large_bodies = 0;
};

// One connection: handshake, then request after request.
class Session : public std::enable_shared_from_this<Session> {
 public:
  Session(tcp::socket socket, std::shared_ptr<ssl::context> tls, Shared& shared)
      : tls_(std::move(tls)),
        shared_(shared),
        stream_(std::move(socket), *tls_),
        buffer_(shared.options.limits.head_bytes + kBufferMax) {}

  void Run() {
    Touch();
    Lowest().expires_after(limits().handshake);
    stream_.async_handshake(ssl::stream_base::server, [self = shared_from_this()](error_code error) {
      if (error) return self->Close();
      self->is_open_ = true;
      self->AwaitRequest();
    });
  }

  void Close() {
    ReleaseLarge();
    error_code ignored;
    Lowest().socket().close(ignored);
    Lowest().cancel();
    // The list may hold the last reference but that of the caller.
    std::erase_if(shared_.sessions, [this](const auto& session) { return session.get() == this; });
  }

  // When it last began to wait for a request; nothing: it is busy with one.
  [[nodiscard]] std::optional<SteadyTime> idle_since() const { return idle_since_; }
  // The handshake is over.
  [[nodiscard]] bool is_open() const { return is_open_; }

 private:
  static constexpr std::size_t kBufferMax = 64 << 10;

  [[nodiscard]] const ServerLimits& limits() const { return shared_.options.limits; }
  beast::tcp_stream& Lowest() { return beast::get_lowest_layer(stream_); }
  void Touch() { idle_since_ = std::chrono::steady_clock::now(); }

  void AwaitRequest() {
    Touch();
    parser_ = std::make_unique<bhttp::request_parser<bhttp::string_body>>();
    parser_->header_limit(static_cast<std::uint32_t>(limits().head_bytes));
    parser_->body_limit(limits().body_bytes);
    Lowest().expires_after(limits().idle);
    bhttp::async_read_header(stream_, buffer_, *parser_, [self = shared_from_this()](error_code error, std::size_t) {
      if (error == bhttp::error::header_limit) return self->Refuse(bhttp::status::request_header_fields_too_large);
      if (error == bhttp::error::body_limit) return self->Refuse(bhttp::status::payload_too_large);
      if (error) return self->Close();
      self->ReadBody();
    });
  }

  void ReadBody() {
    idle_since_.reset();
    const auto length = parser_->content_length();
    const bool has_body = length.has_value() || parser_->chunked();
    if (has_body && !length) return Refuse(bhttp::status::length_required);
    if (length.value_or(0) > limits().body_bytes) return Refuse(bhttp::status::payload_too_large);
    if (length.value_or(0) > limits().large_body_bytes) {
      if (shared_.large_bodies >= limits().large_bodies) return Refuse(bhttp::status::service_unavailable);
      ++shared_.large_bodies;
      is_large_ = true;
    }
    Lowest().expires_after(limits().transfer);
    bhttp::async_read(stream_, buffer_, *parser_, [self = shared_from_this()](error_code error, std::size_t) {
      if (error) return self->Close();
      self->Answer();
    });
  }

  void Answer() {
    const auto& request = parser_->get();
    const auto view = [](beast::string_view text) { return std::string_view(text.data(), text.size()); };
    HttpAnswer answer = shared_.handler(view(request.method_string()), view(request.target()), request.body());
    const bool keeps = request.keep_alive();
    const unsigned version = request.version();
    parser_.reset();
    ReleaseLarge();
    Write(std::move(answer), version, keeps);
  }

  // The rest of such a request is not read, so the connection ends.
  void Refuse(bhttp::status status) {
    idle_since_.reset();
    const std::string_view reason(bhttp::obsolete_reason(status).data(), bhttp::obsolete_reason(status).size());
    Write({.status = static_cast<int>(status), .content_type = "text/plain", .body = std::string(reason) + "\n"},
          /*version=*/11,
          /*keeps=*/false);
  }

  void Write(HttpAnswer answer, unsigned version, bool keeps) {
    response_ = {static_cast<bhttp::status>(answer.status), version};
    response_.set(bhttp::field::content_type,
                  beast::string_view(answer.content_type.data(), answer.content_type.size()));
    response_.keep_alive(keeps);
    response_.body() = std::move(answer.body);
    response_.prepare_payload();
    Lowest().expires_after(limits().transfer);
    bhttp::async_write(stream_, response_, [self = shared_from_this(), keeps](error_code error, std::size_t) {
      if (error || !keeps) return self->Finish(error);
      self->response_ = {};
      self->AwaitRequest();
    });
  }

  void Finish(error_code error) {
    if (error) return Close();
    Lowest().expires_after(limits().handshake);
    stream_.async_shutdown([self = shared_from_this()](error_code) { self->Close(); });
  }

  void ReleaseLarge() {
    if (is_large_) --shared_.large_bodies;
    is_large_ = false;
  }

  std::shared_ptr<ssl::context> tls_;
  Shared& shared_;
  beast::ssl_stream<beast::tcp_stream> stream_;
  beast::flat_buffer buffer_;
  std::unique_ptr<bhttp::request_parser<bhttp::string_body>> parser_;
  bhttp::response<bhttp::string_body> response_;
  std::optional<SteadyTime> idle_since_;
  bool is_large_ = false;
  bool is_open_ = false;
};

}  // namespace

class Server::Impl {
 public:
  Impl(ServerOptions options, Handler handler)
      : shared_{.options = std::move(options), .handler = std::move(handler), .sessions = {}}, tls_(shared_.options) {}
  ~Impl() {
    io_.stop();
    if (thread_.joinable()) thread_.join();
    shared_.sessions.clear();
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  ipam::Expected<void> Start() {
    if (auto loaded = tls_.Load(); !loaded) return loaded;
    error_code error;
    const auto address = asio::ip::make_address(shared_.options.address, error);
    if (error) return ipam::Fail(ErrorCode::kInvalid, ipam::Quoted(shared_.options.address) + " is no IP address");
    const tcp::endpoint endpoint(address, shared_.options.port);
    acceptor_.open(endpoint.protocol(), error);
    if (!error) acceptor_.set_option(asio::socket_base::reuse_address(true), error);
    if (!error && address.is_v6()) acceptor_.set_option(asio::ip::v6_only(false), error);
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
    if (error) {
      return ipam::Fail(ErrorCode::kIo,
                        "cannot listen on port " + std::to_string(shared_.options.port) + ": " + error.message());
    }
    port_ = acceptor_.local_endpoint().port();
    Accept();
    thread_ = std::thread([this] { io_.run(); });
    return {};
  }

  [[nodiscard]] std::uint16_t port() const { return port_; }

 private:
  void Accept() {
    acceptor_.async_accept([this](error_code error, tcp::socket socket) {
      if (error == asio::error::operation_aborted) return;
      if (error) {
        pause_.expires_after(kAcceptPause);
        pause_.async_wait([this](error_code) { Accept(); });
        return;
      }
      Take(std::move(socket));
      Accept();
    });
  }

  void Take(tcp::socket socket) {
    error_code ignored;
    socket.set_option(tcp::no_delay(true), ignored);
    if (shared_.sessions.size() >= shared_.options.limits.connections && !CloseIdlest()) return;
    const auto session = std::make_shared<Session>(std::move(socket), tls_.Current(), shared_);
    shared_.sessions.push_back(session);
    session->Run();
  }

  // One in its handshake first: whoever connects may be nobody. False: all are busy.
  bool CloseIdlest() {
    std::shared_ptr<Session> idlest;
    auto first = std::pair(true, SteadyTime::max());
    for (const auto& session : shared_.sessions) {
      const auto since = session->idle_since();
      if (!since || std::pair(session->is_open(), *since) >= first) continue;
      first = {session->is_open(), *since};
      idlest = session;
    }
    if (idlest == nullptr) return false;
    idlest->Close();
    return true;
  }

  asio::io_context io_{1};
  Shared shared_;
  Tls tls_;
  tcp::acceptor acceptor_{io_};
  asio::steady_timer pause_{io_};
  std::uint16_t port_ = 0;
  std::thread thread_;
};

ipam::Expected<std::unique_ptr<Server>> Server::Start(ServerOptions options, Handler handler) {
  auto impl = std::make_unique<Impl>(std::move(options), std::move(handler));
  if (auto started = impl->Start(); !started) return std::unexpected(std::move(started.error()));
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Server::~Server() = default;
std::uint16_t Server::port() const { return impl_->port(); }

}  // namespace berth::extender
// NOLINTEND(bugprone-unused-return-value)
