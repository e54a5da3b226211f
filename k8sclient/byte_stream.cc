// SPDX-License-Identifier: Apache-2.0
// ByteStream: a chain of OpenSSL BIOs, the lowest of them our own.
#include "k8sclient/byte_stream.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <sys/socket.h>
#include <unistd.h>

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include "ipam/check.h"

namespace berth::k8sclient {
namespace {

using ipam::ErrorCode;
using ipam::Expected;
using ipam::Fail;

// OpenSSL's socket BIO writes without MSG_NOSIGNAL: a broken connection would end the process, and a library cannot ask
// every program to ignore SIGPIPE.
int SocketOf(BIO* bio) { return *static_cast<const int*>(BIO_get_data(bio)); }

bool MayRetry(int failure) { return failure == EAGAIN || failure == EWOULDBLOCK || failure == EINTR; }

int SocketWrite(BIO* bio, const char* bytes, int size) {
  BIO_clear_retry_flags(bio);
  const ssize_t sent = send(SocketOf(bio), bytes, static_cast<std::size_t>(size), MSG_NOSIGNAL);
  if (sent < 0 && MayRetry(errno)) BIO_set_retry_write(bio);
  return static_cast<int>(sent);
}

int SocketRead(BIO* bio, char* into, int size) {
  BIO_clear_retry_flags(bio);
  const ssize_t got = recv(SocketOf(bio), into, static_cast<std::size_t>(size), 0);
  if (got < 0 && MayRetry(errno)) BIO_set_retry_read(bio);
  if (got == 0) BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
  return static_cast<int>(got);
}

// NOLINTNEXTLINE(misc-const-correctness): the type that BIO_meth_set_ctrl asks for
long SocketControl(BIO* bio, int command, long, void*) {
  switch (command) {
    case BIO_CTRL_EOF:
      return BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0 ? 1 : 0;
    case BIO_CTRL_FLUSH:
    case BIO_CTRL_DUP:
      return 1;
    default:
      return 0;
  }
}

const BIO_METHOD* SocketMethod() {
  static const BIO_METHOD* const kMethod = [] {
    BIO_METHOD* made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "socket without SIGPIPE");
    BERTH_CHECK(made != nullptr);
    BIO_meth_set_write(made, &SocketWrite);
    BIO_meth_set_read(made, &SocketRead);
    BIO_meth_set_ctrl(made, &SocketControl);
    return made;
  }();
  return kMethod;
}

// What OpenSSL or the kernel say about the operation that has just failed.
std::string Reason(int system_error) {
  std::array<char, 256> text{};
  const unsigned long code = ERR_peek_last_error();
  ERR_clear_error();
  if (code == 0) return system_error != 0 ? std::strerror(system_error) : "the connection was closed";
  const char* const reason = ERR_reason_error_string(code);
  if (reason != nullptr) return reason;
  ERR_error_string_n(code, text.data(), text.size());
  return text.data();
}

}  // namespace

ByteStream::ByteStream(int socket) : socket_(socket), top_(BIO_new(SocketMethod())) {
  BERTH_CHECK(top_ != nullptr);
  BIO_set_data(top_, &socket_);
  BIO_set_init(top_, 1);
}

ByteStream::~ByteStream() {
  // No close_notify: there is no request under way whose end it would mark, and a peer that is gone would cost time.
  BIO_free_all(top_);
  close(socket_);
}

Expected<void> ByteStream::AwaitRetry(const char* doing, Waiter& waiter, Waiter::TimePoint until) {
  const int system_error = errno;
  if (!BIO_should_retry(top_)) return Fail(ErrorCode::kUnavailable, std::string(doing) + ": " + Reason(system_error));
  const auto events = static_cast<short>(BIO_should_write(top_) ? POLLOUT : POLLIN);
  std::array<pollfd, 1> polled{{{.fd = socket_, .events = events, .revents = 0}}};
  const Expected<int> ready = waiter.Wait(polled, until);
  if (!ready) return std::unexpected(ready.error().Within(doing));
  if (*ready == 0) return Fail(ErrorCode::kTimeout, std::string(doing) + ": no data arrived within the time limit");
  return {};
}

Expected<void> ByteStream::StartTls(const TlsContext& context, const std::string& server_name, Waiter& waiter) {
  tls_ = context.NewConnection(server_name);
  SSL_set_connect_state(tls_);
  BIO* const bio = BIO_new(BIO_f_ssl());
  BERTH_CHECK(bio != nullptr);
  BIO_set_ssl(bio, tls_, BIO_CLOSE);
  top_ = BIO_push(bio, top_);
  while (true) {
    ERR_clear_error();
    errno = 0;
    if (BIO_do_handshake(top_) == 1) return {};
    const bool over = !BIO_should_retry(top_);  // without verification the verdict stands, but the handshake goes on
    const long verdict = SSL_get_verify_result(tls_);
    if (over && verdict != X509_V_OK) {
      ERR_clear_error();
      return Fail(
          ErrorCode::kUnavailable,
          "the certificate of \"" + server_name + "\" is not accepted: " + X509_verify_cert_error_string(verdict),
          "check certificate-authority and tls-server-name in the kubeconfig, and the server's certificate");
    }
    if (const Expected<void> retry = AwaitRetry("TLS handshake", waiter, Waiter::TimePoint::max()); !retry)
      return retry;
  }
}

Expected<std::size_t> ByteStream::Read(std::span<char> into, Waiter& waiter, Waiter::TimePoint until) {
  while (true) {
    ERR_clear_error();
    errno = 0;
    const int got = BIO_read(top_, into.data(), static_cast<int>(into.size()));
    if (got > 0) return static_cast<std::size_t>(got);
    // An end without close_notify is an error of OpenSSL's: whoever cut the line could have forged it.
    const bool in_order = tls_ != nullptr ? SSL_get_error(tls_, got) == SSL_ERROR_ZERO_RETURN : got == 0;
    if (in_order) return 0;
    if (const Expected<void> retry = AwaitRetry("read", waiter, until); !retry) return std::unexpected(retry.error());
  }
}

Expected<void> ByteStream::Write(std::string_view bytes, Waiter& waiter) {
  while (!bytes.empty()) {
    ERR_clear_error();
    errno = 0;
    const int sent = BIO_write(top_, bytes.data(), static_cast<int>(bytes.size()));
    if (sent > 0) {
      bytes.remove_prefix(static_cast<std::size_t>(sent));
      continue;
    }
    if (const Expected<void> retry = AwaitRetry("write", waiter, Waiter::TimePoint::max()); !retry) return retry;
  }
  return {};
}

bool ByteStream::IsQuiet() {
  ERR_clear_error();
  char byte = 0;
  const int got = BIO_read(top_, &byte, 1);
  const bool quiet = got <= 0 && BIO_should_retry(top_) != 0;
  ERR_clear_error();
  return quiet;
}

}  // namespace berth::k8sclient
