// SPDX-License-Identifier: Apache-2.0
// TlsClient, with blocking sockets and OpenSSL.
#include "e2e/tls_client.h"

#include <arpa/inet.h>
#include <array>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <optional>
#include <poll.h>
#include <stdexcept>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>

namespace berth::e2e {
namespace {

struct BioDelete {
  void operator()(BIO* bio) const { BIO_free(bio); }
};
struct X509Delete {
  void operator()(X509* certificate) const { X509_free(certificate); }
};
struct KeyDelete {
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};
struct SslDelete {
  void operator()(SSL* ssl) const { SSL_free(ssl); }
};

std::unique_ptr<BIO, BioDelete> Reader(const std::string& pem) {
  return std::unique_ptr<BIO, BioDelete>(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
}

std::unique_ptr<X509, X509Delete> ReadCertificate(const std::string& pem) {
  const auto reader = Reader(pem);
  std::unique_ptr<X509, X509Delete> certificate(PEM_read_bio_X509(reader.get(), nullptr, nullptr, nullptr));
  if (!certificate) throw std::runtime_error("no certificate in the PEM text");
  return certificate;
}

// A connected socket; the destructor closes it.
class Socket {
 public:
  Socket(const std::string& host, std::uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    ::inet_pton(AF_INET, host.c_str(), &address.sin_addr);
    const int on = 1;
    if (fd_ < 0) return;
    ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    connected_ = ::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }
  ~Socket() {
    if (fd_ >= 0) ::close(fd_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  [[nodiscard]] int fd() const { return fd_; }
  [[nodiscard]] bool connected() const { return connected_; }

 private:
  int fd_;
  bool connected_ = false;
};

}  // namespace

class TlsClient::Context {
 public:
  explicit Context(const Upstream& upstream) : context_(SSL_CTX_new(TLS_client_method())) {
    const auto authority = ReadCertificate(upstream.certificate_authority);
    SSL_CTX_set_verify(context_, SSL_VERIFY_PEER, nullptr);
    const bool usable = X509_STORE_add_cert(SSL_CTX_get_cert_store(context_), authority.get()) == 1 &&
                        (upstream.client_certificate.empty() || UseCertificate(upstream));
    if (!usable) throw std::runtime_error("the client certificate and key cannot be used");
  }
  ~Context() { SSL_CTX_free(context_); }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  [[nodiscard]] std::unique_ptr<SSL, SslDelete> NewSession() const {
    return std::unique_ptr<SSL, SslDelete>(SSL_new(context_));
  }

 private:
  [[nodiscard]] bool UseCertificate(const Upstream& upstream) {
    const auto certificate = ReadCertificate(upstream.client_certificate);
    const auto key_reader = Reader(upstream.client_key);
    const std::unique_ptr<EVP_PKEY, KeyDelete> key(
        PEM_read_bio_PrivateKey(key_reader.get(), nullptr, nullptr, nullptr));
    return SSL_CTX_use_certificate(context_, certificate.get()) == 1 && key &&
           SSL_CTX_use_PrivateKey(context_, key.get()) == 1;
  }

  SSL_CTX* context_;
};

TlsClient::TlsClient(Upstream upstream)
    : upstream_(std::move(upstream)), context_(std::make_unique<Context>(upstream_)) {}

TlsClient::~TlsClient() = default;

// A connection on which a request was sent.
class TlsClient::Session {
 public:
  Session(const TlsClient& client, std::string_view request)
      : socket_(client.upstream_.host, client.upstream_.port), ssl_(client.context_->NewSession()) {
    const std::string& host = client.upstream_.host;
    if (!socket_.connected()) {
      error_ = {.code = ErrorCode::kUnavailable, .message = "connect to " + host};
      return;
    }
    SSL_set_fd(ssl_.get(), socket_.fd());
    if (SSL_connect(ssl_.get()) != 1) {
      error_ = {.code = ErrorCode::kUnavailable, .message = "TLS handshake with " + host};
    } else if (SSL_write(ssl_.get(), request.data(), static_cast<int>(request.size())) <= 0) {
      error_ = {.code = ErrorCode::kUnknownOutcome, .message = "send to " + host};
    }
  }

  [[nodiscard]] const std::optional<Error>& error() const { return error_; }
  [[nodiscard]] int fd() const { return socket_.fd(); }
  // Whether Read returns without waiting for the network.
  [[nodiscard]] bool HasPending() const { return SSL_has_pending(ssl_.get()) == 1; }

  // The next bytes; empty at the end.
  [[nodiscard]] std::string Read() {
    std::array<char, 65536> buffer{};
    const int count = SSL_read(ssl_.get(), buffer.data(), static_cast<int>(buffer.size()));
    return count > 0 ? std::string(buffer.data(), static_cast<std::size_t>(count)) : std::string();
  }

 private:
  Socket socket_;
  std::unique_ptr<SSL, SslDelete> ssl_;
  std::optional<Error> error_;
};

Expected<std::string> TlsClient::Exchange(std::string_view request) const {
  Session session(*this, request);
  if (session.error()) return std::unexpected(*session.error());
  std::string answer;
  for (std::string piece = session.Read(); !piece.empty(); piece = session.Read()) answer += piece;
  if (answer.empty()) return Fail(ErrorCode::kUnknownOutcome, "no answer of " + upstream_.host);
  return answer;
}

void TlsClient::Stream(std::string_view request, int fd) const {
  Session session(*this, request);
  if (session.error()) return;
  while (true) {
    std::array<pollfd, 2> ends = {
        {{.fd = session.fd(), .events = POLLIN, .revents = 0}, {.fd = fd, .events = POLLIN, .revents = 0}}};
    if (!session.HasPending() && ::poll(ends.data(), ends.size(), -1) < 0) return;
    // The peer at `fd` sends nothing more, so any event means that it has closed.
    if (ends[1].revents != 0) return;
    const std::string piece = session.Read();
    if (piece.empty()) return;
    std::string_view rest = piece;
    while (!rest.empty()) {
      const ssize_t count = ::send(fd, rest.data(), rest.size(), MSG_NOSIGNAL);
      if (count <= 0) return;
      rest.remove_prefix(static_cast<std::size_t>(count));
    }
  }
}

}  // namespace berth::e2e
