// SPDX-License-Identifier: Apache-2.0
// ScriptedServer: blocking sockets, OpenSSL, and one thread per connection.
#include "k8sclient/testing/scripted_server.h"

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <cctype>
#include <csignal>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include "base/check.h"

namespace berth::k8sclient::testing {
namespace {

int Listen(int& port) {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  BERTH_CHECK(listener >= 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  BERTH_CHECK(bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
  BERTH_CHECK(listen(listener, 64) == 0);
  socklen_t size = sizeof(address);
  BERTH_CHECK(getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size) == 0);
  port = ntohs(address.sin_port);
  return listener;
}

int ConnectTo(int port) {
  const int connected = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  BERTH_CHECK(connected >= 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  BERTH_CHECK(connect(connected, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
  return connected;
}

std::string Lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

// The bytes of a connection, with or without TLS.
class Stream {
 public:
  Stream(int socket, SSL_CTX* context) : socket_(socket) {
    if (context == nullptr) return;
    ssl_ = SSL_new(context);
    SSL_set_fd(ssl_, socket_);
    broken_ = SSL_accept(ssl_) != 1;
    if (broken_) LetTheAlertArrive();
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() {
    if (ssl_ != nullptr) {
      if (!broken_) SSL_shutdown(ssl_);
      SSL_free(ssl_);
    }
  }
  // Returns the number of bytes; 0 at the end of the stream or after a failure.
  std::size_t Read(char* into, std::size_t bytes_max) {
    if (broken_) return 0;
    const ssize_t got =
        ssl_ != nullptr ? SSL_read(ssl_, into, static_cast<int>(bytes_max)) : recv(socket_, into, bytes_max, 0);
    broken_ = got <= 0;
    return got > 0 ? static_cast<std::size_t>(got) : 0;
  }
  void Write(std::string_view bytes) {
    while (!bytes.empty() && !broken_) {
      const ssize_t sent = ssl_ != nullptr ? SSL_write(ssl_, bytes.data(), static_cast<int>(bytes.size()))
                                           : send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      broken_ = sent <= 0;
      if (sent > 0) bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
  }
  void Reset() {
    broken_ = true;
    const linger now{.l_onoff = 1, .l_linger = 0};
    setsockopt(socket_, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    // The server closes the descriptor later. connect() with AF_UNSPEC sends the RST at once.
    sockaddr nothing{};
    nothing.sa_family = AF_UNSPEC;
    static_cast<void>(connect(socket_, &nothing, sizeof(nothing)));
  }
  void Cut() {
    broken_ = true;
    shutdown(socket_, SHUT_RDWR);
  }
  [[nodiscard]] int socket() const { return socket_; }
  // True if OpenSSL has read bytes from the socket that Read has not returned yet.
  [[nodiscard]] bool HasPending() const { return ssl_ != nullptr && SSL_pending(ssl_) > 0; }
  [[nodiscard]] bool broken() const { return broken_; }
  [[nodiscard]] bool IsResumed() const { return ssl_ != nullptr && SSL_session_reused(ssl_) == 1; }
  [[nodiscard]] std::string PeerCommonName() const {
    if (ssl_ == nullptr) return {};
    X509* certificate = SSL_get1_peer_certificate(ssl_);
    if (certificate == nullptr) return {};
    std::array<char, 256> name{};
    X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName, name.data(), name.size());
    X509_free(certificate);
    return name.data();
  }

 private:
  // Reads until the client closes the connection. Closing a socket with unread bytes would reset the connection, and
  // the client would lose the TLS alert.
  void LetTheAlertArrive() const {
    shutdown(socket_, SHUT_WR);
    std::array<char, 4096> chunk{};
    while (recv(socket_, chunk.data(), chunk.size(), 0) > 0) {
    }
  }

  int socket_;
  SSL* ssl_ = nullptr;
  bool broken_ = false;
};

class StreamPeer final : public Peer {
 public:
  StreamPeer(Stream& stream, int index) : stream_(stream), index_(index) {}

  std::optional<ReceivedRequest> ReadRequest() override {
    std::size_t end = std::string::npos;
    while ((end = buffer_.find("\r\n\r\n")) == std::string::npos) {
      if (!More()) return {};
    }
    ReceivedRequest request;
    request.peer_common_name = stream_.PeerCommonName();
    request.tls_resumed = stream_.IsResumed();
    const std::string head = buffer_.substr(0, end + 2);
    buffer_.erase(0, end + 4);
    const std::size_t first = head.find("\r\n");
    const std::size_t space = head.find(' ');
    request.method = head.substr(0, space);
    request.target = head.substr(space + 1, head.rfind(' ', first) - space - 1);
    for (std::size_t at = first + 2; at < head.size(); at = head.find("\r\n", at) + 2) {
      const std::size_t colon = head.find(':', at);
      const std::size_t value = head.find_first_not_of(' ', colon + 1);
      request.headers[Lower(head.substr(at, colon - at))] = head.substr(value, head.find("\r\n", at) - value);
    }
    const auto length = request.headers.find("content-length");
    const std::size_t body_bytes = length == request.headers.end() ? 0 : std::stoul(length->second);
    while (buffer_.size() < body_bytes) {
      if (!More()) return {};
    }
    request.body = buffer_.substr(0, body_bytes);
    buffer_.erase(0, body_bytes);
    return request;
  }

  void Send(std::string_view bytes) override { stream_.Write(bytes); }
  void Pause(std::chrono::milliseconds duration) override {
    pollfd polled{stream_.socket(), POLLRDHUP, 0};
    poll(&polled, 1, static_cast<int>(duration.count()));
  }
  void Reset() override { stream_.Reset(); }
  void Cut() override { stream_.Cut(); }
  void AwaitClose() override {
    while (More()) {
    }
  }
  std::string ReadBytes(std::size_t count) override {
    while (buffer_.size() < count && More()) {
    }
    std::string bytes = buffer_.substr(0, count);
    buffer_.erase(0, count);
    return bytes;
  }
  void Relay(int port) override {
    const int target = ConnectTo(port);
    RelayTo(target);
    close(target);
  }
  [[nodiscard]] int index() const override { return index_; }

 private:
  void RelayTo(int target) {
    std::array<char, 16384> chunk{};
    std::array<pollfd, 2> polled{{{stream_.socket(), POLLIN, 0}, {target, POLLIN, 0}}};
    while (!stream_.broken()) {
      if (!buffer_.empty()) {
        if (send(target, buffer_.data(), buffer_.size(), MSG_NOSIGNAL) <= 0) return;
        buffer_.clear();
      }
      if (!stream_.HasPending()) poll(polled.data(), polled.size(), -1);
      if (polled[1].revents != 0) {
        const ssize_t got = recv(target, chunk.data(), chunk.size(), 0);
        if (got <= 0) return;
        stream_.Write({chunk.data(), static_cast<std::size_t>(got)});
      }
      if ((stream_.HasPending() || polled[0].revents != 0) && !More()) return;
    }
  }

  bool More() {
    std::array<char, 16384> chunk{};
    const std::size_t got = stream_.Read(chunk.data(), chunk.size());
    buffer_.append(chunk.data(), got);
    return got > 0;
  }

  Stream& stream_;
  const int index_;
  std::string buffer_;
};

int IgnorePassword(char*, int, int, void*) { return 0; }

std::shared_ptr<void> TlsContext(const Identity& identity, const ScriptedServer::Options& options) {
  const std::shared_ptr<SSL_CTX> context(SSL_CTX_new(TLS_server_method()), &SSL_CTX_free);
  const auto read = [](const std::string& pem) {
    return std::unique_ptr<BIO, decltype(&BIO_free)>(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())),
                                                     &BIO_free);
  };
  X509* certificate = PEM_read_bio_X509(read(identity.certificate_pem).get(), nullptr, nullptr, nullptr);
  EVP_PKEY* key = PEM_read_bio_PrivateKey(read(identity.key_pem).get(), nullptr, &IgnorePassword, nullptr);
  BERTH_CHECK(SSL_CTX_use_certificate(context.get(), certificate) == 1);
  BERTH_CHECK(SSL_CTX_use_PrivateKey(context.get(), key) == 1);
  X509_free(certificate);
  EVP_PKEY_free(key);
  // Without a session ID context, OpenSSL fails the handshake of a client that has a certificate and a session.
  constexpr std::array<unsigned char, 1> kAny{1};
  if (!options.fails_resumption) SSL_CTX_set_session_id_context(context.get(), kAny.data(), kAny.size());
  if (!options.client_authority_pem.empty()) {
    X509* authority = PEM_read_bio_X509(read(options.client_authority_pem).get(), nullptr, nullptr, nullptr);
    X509_STORE_add_cert(SSL_CTX_get_cert_store(context.get()), authority);
    X509_free(authority);
    SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  }
  return context;
}

}  // namespace

std::string HttpAnswer(int status, std::string_view body, std::string_view extra_headers) {
  return "HTTP/1.1 " + std::to_string(status) +
         " Status\r\nContent-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" +
         std::string(extra_headers) + "\r\n" + std::string(body);
}

int RefusingPort() {
  int port = 0;
  close(Listen(port));
  return port;
}

void Peer::Answer(int status, std::string_view body, std::string_view extra_headers) {
  Send(HttpAnswer(status, body, extra_headers));
}

ScriptedServer::ScriptedServer(Script script) : ScriptedServer(Options{}, std::move(script)) {}

ScriptedServer::ScriptedServer(Options options, Script script)
    : options_(std::move(options)), script_(std::move(script)), listener_(Listen(port_)) {
  if (options_.tls) tls_context_ = TlsContext(*options_.tls, options_);
  acceptor_ = std::thread([this] { Accept(); });
}

ScriptedServer::~ScriptedServer() {
  shutdown(listener_, SHUT_RDWR);
  acceptor_.join();
  close(listener_);
  {
    const std::lock_guard lock(mutex_);
    for (const int socket : open_) shutdown(socket, SHUT_RDWR);
  }
  for (auto& [index, script] : scripts_) script.join();
}

void ScriptedServer::JoinEnded() {
  for (auto script = scripts_.begin(); script != scripts_.end();) {
    const bool ended = [&] {
      const std::lock_guard lock(mutex_);
      return ended_.contains(script->first);
    }();
    if (ended) script->second.join();
    script = ended ? scripts_.erase(script) : std::next(script);
  }
}

std::string ScriptedServer::url() const {
  return (options_.tls ? "https://127.0.0.1:" : "http://127.0.0.1:") + std::to_string(port_);
}

void ScriptedServer::Accept() {
  while (true) {
    const int socket = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (socket < 0) return;
    const int one = 1;
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    {
      const std::lock_guard lock(mutex_);
      open_.push_back(socket);
    }
    JoinEnded();
    const int index = connections_++;
    scripts_.emplace(index, [this, socket, index] { Serve(socket, index); });
  }
}

void ScriptedServer::Serve(int socket, int index) {
  // OpenSSL writes without MSG_NOSIGNAL, so block SIGPIPE. Block it in this thread only: tests check that the client
  // works without a blocked SIGPIPE.
  sigset_t broken_pipe;
  sigemptyset(&broken_pipe);
  sigaddset(&broken_pipe, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &broken_pipe, nullptr);
  {
    Stream stream(socket, static_cast<SSL_CTX*>(tls_context_.get()));
    StreamPeer peer(stream, index);
    script_(peer);
  }
  const std::lock_guard lock(mutex_);
  open_.remove(socket);
  close(socket);
  ended_.insert(index);
  ended_changed_.notify_all();
}

void ScriptedServer::AwaitEnd(int index) {
  std::unique_lock lock(mutex_);
  ended_changed_.wait(lock, [this, index] { return ended_.contains(index); });
}

}  // namespace berth::k8sclient::testing
