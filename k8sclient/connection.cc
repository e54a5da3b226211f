// SPDX-License-Identifier: Apache-2.0
// Connection runs one transfer with libcurl, with limits, and finds the error for the caller.
#include "k8sclient/connection.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <utility>

#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "base/ascii.h"
#include "base/check.h"
#include "ipam/address.h"
#include "k8sclient/freed.h"
#include "k8sclient/openssl.h"

namespace berth::k8sclient {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// The API server closes an idle connection after 90 s, and a load balancer may close it earlier. If the client sends a
// write just then, it gets no answer, and the write is in doubt. So the client does not reuse a connection that was
// idle for more than 50 s.
constexpr long kIdleSecondsMax = 50;
constexpr long kKeepAliveIdleSeconds = 15;
constexpr long kKeepAliveIntervalSeconds = 5;
constexpr unsigned kUserTimeoutMs = 30'000;  // a peer that acknowledges no data for this long is gone
constexpr std::size_t kRefusalBytesMax = std::size_t{1} << 20;
constexpr std::size_t kHeadBytesMax = std::size_t{64} * 1024;
constexpr std::chrono::seconds kRetryAfterMax = std::chrono::hours(1);
constexpr std::chrono::sys_seconds kDateMax = std::chrono::sys_days(std::chrono::year(2200) / 1 / 1);

using Headers = std::unique_ptr<curl_slist, Freed<curl_slist_free_all>>;

void Append(Headers& headers, const std::string& line) {
  curl_slist* const longer = curl_slist_append(headers.get(), line.c_str());
  BERTH_CHECK(longer != nullptr);
  static_cast<void>(headers.release());
  headers.reset(longer);
}

// Lets OpenSSL check the name too, besides libcurl. As in Go, only subject alternative names count, and "*" stands for
// a whole label.
bool RequireName(SSL_CTX* context, const std::string& name) {
  X509_VERIFY_PARAM* const rules = SSL_CTX_get0_param(context);
  X509_VERIFY_PARAM_set_hostflags(rules, X509_CHECK_FLAG_NEVER_CHECK_SUBJECT | X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
  return (ipam::Address::Parse(name) ? X509_VERIFY_PARAM_set1_ip_asc(rules, name.c_str())
                                     : X509_VERIFY_PARAM_set1_host(rules, name.c_str(), name.size())) == 1;
}

// Opens the socket with SOCK_CLOEXEC, so that no child process inherits a connection.
// NOLINTNEXTLINE(misc-const-correctness): libcurl's type
curl_socket_t OpenSocket(void*, curlsocktype, curl_sockaddr* address) {
  const int opened = socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
  if (opened < 0) return CURL_SOCKET_BAD;
  // If an old kernel refuses this option, the connection works without it.
  setsockopt(opened, IPPROTO_TCP, TCP_USER_TIMEOUT, &kUserTimeoutMs, sizeof(kUserTimeoutMs));
  return opened;
}

// The first call also sets up libcurl and OpenSSL.
CURL* MakeEasyHandle() {
  static const CURLcode kStarted = [] {
    StartOpenSsl();
    return curl_global_init(CURL_GLOBAL_DEFAULT);
  }();
  BERTH_CHECK(kStarted == CURLE_OK);
  return curl_easy_init();
}

std::unexpected<Error> TooLate() {
  return Fail(ErrorCode::kTimeout, "the time limit passed before the request was sent");
}

}  // namespace

// One request, and the part of its answer that has arrived.
class Connection::Transfer {
 public:
  Transfer(Connection& connection, const Request& request, const CallOptions& options)
      : connection_(connection),
        endpoint_(connection.endpoint_),
        easy_(connection.easy_),
        multi_(connection.multi_),
        request_(request),
        options_(options) {}
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  [[nodiscard]] ExchangeResult Run(const std::vector<std::string>& headers) {
    SetOptions(headers);
    BERTH_CHECK(curl_multi_add_handle(multi_, easy_) == CURLM_OK);
    const Expected<void> in_time = Drive();
    CURLcode code = CURLE_OK;
    int left = 0;
    while (const CURLMsg* message = curl_multi_info_read(multi_, &left)) code = message->data.result;
    curl_socket_t& kept = connection_.kept_socket_;
    if (curl_easy_getinfo(easy_, CURLINFO_ACTIVESOCKET, &kept) != CURLE_OK) kept = CURL_SOCKET_BAD;
    if (connection_.has_buffered_bytes_) kept = CURL_SOCKET_BAD;
    curl_multi_remove_handle(multi_, easy_);  // closes the connection of an incomplete transfer
    if (in_time) return ResultOf(code);
    const bool waited_long = issued_ && steady_clock::now() - received_ >= kSilentFrom;
    return {.response = std::unexpected(ForCaller(in_time.error())),
            .was_silent = waited_long && head_bytes_ == 0 && !options_.stop.stop_requested()};
  }

 private:
  template <typename Value>
  void Set(CURLoption option, Value value) {
    const CURLcode set = curl_easy_setopt(easy_, option, value);
    BERTH_CHECK(set == CURLE_OK);
  }

  void SetOptions(const std::vector<std::string>& headers) {
    const bool is_reusable = connection_.IsReusable();
    curl_easy_reset(easy_);
    Set(CURLOPT_ERRORBUFFER, error_.data());
    Set(CURLOPT_NOSIGNAL, 1L);
    Set(CURLOPT_SSL_SESSIONID_CACHE, 0L);  // each connection verifies the server
    Set(CURLOPT_DNS_CACHE_TIMEOUT, 0L);    // the server's address may change
    Set(CURLOPT_RESOLVER_START_FUNCTION, &OnLookup);
    Set(CURLOPT_RESOLVER_START_DATA, this);
    Set(CURLOPT_QUICK_EXIT, 1L);  // cleanup does not wait for a name server
    Set(CURLOPT_PROTOCOLS_STR, "http,https");
    Set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
    Set(CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
    Set(CURLOPT_FRESH_CONNECT, is_reusable ? 0L : 1L);
    Set(CURLOPT_MAXAGE_CONN, kIdleSecondsMax);
    Set(CURLOPT_TCP_KEEPALIVE, 1L);
    Set(CURLOPT_TCP_KEEPIDLE, kKeepAliveIdleSeconds);
    Set(CURLOPT_TCP_KEEPINTVL, kKeepAliveIntervalSeconds);
    Set(CURLOPT_OPENSOCKETFUNCTION, &OpenSocket);
    Set(CURLOPT_PREREQFUNCTION, &OnSend);
    Set(CURLOPT_PREREQDATA, this);
    Set(CURLOPT_HEADERFUNCTION, &OnHeader);
    Set(CURLOPT_HEADERDATA, this);
    Set(CURLOPT_WRITEFUNCTION, &OnBody);
    Set(CURLOPT_WRITEDATA, this);
    SetServer();
    SetTls();
    SetProxy();
    SetRequest(headers);
  }

  // The URL contains the name that the certificate must prove. If the server's host differs from this name, CONNECT_TO
  // contains the host.
  void SetServer() {
    const ServerUrl& server = endpoint_.server;
    const std::string& name = endpoint_.server_name;
    const std::string port = ":" + std::to_string(server.port);
    Set(CURLOPT_PATH_AS_IS, 1L);
    Set(CURLOPT_URL,
        (server.scheme + "://" + Bracketed(name) + port + RequestTarget(server.path + request_.path, request_.query))
            .c_str());
    if (name == server.host) return;
    connect_to_ = Headers(curl_slist_append(nullptr, ("::" + Bracketed(server.host) + port).c_str()));
    Set(CURLOPT_CONNECT_TO, connect_to_.get());
  }

  void SetTls() {
    if (endpoint_.insecure_skip_verify) {
      for (const CURLoption check : {CURLOPT_SSL_VERIFYPEER,
                                     CURLOPT_SSL_VERIFYHOST,
                                     CURLOPT_PROXY_SSL_VERIFYPEER,
                                     CURLOPT_PROXY_SSL_VERIFYHOST}) {
        Set(check, 0L);
      }
    }
    is_next_the_proxy_ = endpoint_.proxy && endpoint_.proxy->scheme == "https";
    Set(CURLOPT_SSL_CTX_FUNCTION, &OnTlsContext);
    Set(CURLOPT_SSL_CTX_DATA, this);
    // libcurl must not trust the system's authorities beside those of the credentials.
    for (const CURLoption systems : {CURLOPT_CAINFO, CURLOPT_CAPATH, CURLOPT_PROXY_CAINFO, CURLOPT_PROXY_CAPATH}) {
      Set(systems, nullptr);
    }
    const auto set = [this](CURLoption option, CURLoption of_proxy, const std::string& text) {
      if (text.empty()) return;
      curl_blob blob{
          .data = const_cast<char*>(text.data()), .len = text.size(), .flags = CURL_BLOB_NOCOPY};  // NOLINT: C
      Set(option, &blob);
      Set(of_proxy, &blob);
    };
    set(CURLOPT_CAINFO_BLOB, CURLOPT_PROXY_CAINFO_BLOB, connection_.tls_->certificate_authority_pem);
    set(CURLOPT_SSLCERT_BLOB, CURLOPT_PROXY_SSLCERT_BLOB, connection_.tls_->certificate_pem);
    set(CURLOPT_SSLKEY_BLOB, CURLOPT_PROXY_SSLKEY_BLOB, connection_.tls_->key_pem);
    // Without these options, OpenSSL would ask on the terminal for the passphrase of an encrypted key.
    Set(CURLOPT_KEYPASSWD, "");
    Set(CURLOPT_PROXY_KEYPASSWD, "");
  }

  void SetProxy() {
    Set(CURLOPT_NOPROXY, "");  // ChooseProxy has already applied NO_PROXY
    Set(CURLOPT_PROXY, "");    // libcurl must not read the environment
    if (!endpoint_.proxy) return;
    const ServerUrl& proxy = *endpoint_.proxy;
    // The proxy, not this process, looks up the server's name, as with Go.
    const std::string scheme = proxy.scheme == "socks5" ? "socks5h" : proxy.scheme;
    Set(CURLOPT_PROXY, (scheme + "://" + proxy.Authority()).c_str());
    Set(CURLOPT_HTTPPROXYTUNNEL, 1L);
    Set(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
    if (proxy.user.empty()) return;
    Set(CURLOPT_PROXYUSERNAME, proxy.user.c_str());
    Set(CURLOPT_PROXYPASSWORD, proxy.password.c_str());
  }

  void SetRequest(const std::vector<std::string>& headers) {
    const ServerUrl& server = endpoint_.server;
    const bool default_port = server.port == (server.scheme == "https" ? 443 : 80);
    Append(headers_, "Host: " + (default_port ? Bracketed(server.host) : server.Authority()));
    Append(headers_, "Accept: " + std::string(request_.accept));
    Append(headers_, "Expect:");  // libcurl must not wait for "100 Continue" before a long body
    // libcurl sends a header without a value if its line is "Name;".
    for (const std::string& line : headers) {
      Append(headers_, line.ends_with(": ") ? line.substr(0, line.size() - 2) + ";" : line);
    }
    Append(headers_, "Content-Type:" + (request_.body.empty() ? "" : " " + std::string(request_.content_type)));
    Set(CURLOPT_HTTPHEADER, headers_.get());
    Set(CURLOPT_USERAGENT, endpoint_.user_agent.c_str());
    if (!request_.body.empty() || request_.method == Method::kPost) {
      Set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request_.body.size()));
      Set(CURLOPT_POSTFIELDS, request_.body.c_str());
    }
    Set(CURLOPT_CUSTOMREQUEST, std::string(ToString(request_.method)).c_str());
  }

  // Runs until the transfer has ended. Errors: a time limit or a stop ended the transfer.
  [[nodiscard]] Expected<void> Drive() {
    began_ = received_ = steady_clock::now();
    const std::stop_callback wake(options_.stop, [this] { curl_multi_wakeup(multi_); });
    for (;;) {
      int running = 0;
      BERTH_CHECK(curl_multi_perform(multi_, &running) == CURLM_OK);
      if (running == 0) return {};
      const steady_clock::time_point until = NextLimit();
      const auto now = steady_clock::now();
      if (options_.stop.stop_requested()) return Fail(ErrorCode::kTimeout, "the program is stopping");
      if (now >= options_.deadline) return Fail(ErrorCode::kTimeout, "no answer within the time limit");
      if (now >= until && issued_) return Fail(ErrorCode::kTimeout, "no data arrived within the time limit");
      if (now >= until) return Unreached("it took too long");
      const auto wait = std::min(std::chrono::ceil<milliseconds>(std::min(until, options_.deadline) - now), kPollMax);
      curl_multi_poll(multi_, nullptr, 0, static_cast<int>(wait.count()), nullptr);
    }
  }

  // The next time limit other than the deadline: for silence, connecting, or the handshake.
  [[nodiscard]] steady_clock::time_point NextLimit() const {
    if (issued_) return options_.idle_max ? received_ + *options_.idle_max : steady_clock::time_point::max();
    return handshake_began_ ? *handshake_began_ + endpoint_.handshake_max : began_ + endpoint_.connect_max;
  }

  [[nodiscard]] std::unexpected<Error> Unreached(const std::string& why) const {
    if (endpoint_.proxy) {
      return Fail(ErrorCode::kUnavailable,
                  "no connection through the proxy " + endpoint_.proxy->Authority() + ": " + why,
                  "check proxy-url in the kubeconfig, or HTTPS_PROXY and NO_PROXY");
    }
    return Fail(ErrorCode::kUnavailable,
                "no connection to the API server: " + why,
                "check server in the kubeconfig, and that the API server runs");
  }

  // The error for the caller, with the request in its message. If the server may have received a write, the code is
  // kUnknownOutcome.
  [[nodiscard]] Error ForCaller(Error error) const {
    if (issued_ && IsWrite(request_.method)) error.code = ErrorCode::kUnknownOutcome;
    if (error.code == ErrorCode::kDecode) return error;  // the configuration is wrong, not this request
    return error.Within(std::string(ToString(request_.method)) + " " + endpoint_.server.Authority() + request_.path);
  }

  // The result for the caller if neither a time limit nor a stop ended the transfer.
  [[nodiscard]] ExchangeResult ResultOf(CURLcode code) {
    if (code == CURLE_OK && issued_) code = CheckLength();
    // If the sink ended the transfer, the transfer ended in order.
    if (code == CURLE_OK || sink_ended_) return {.response = Complete()};
    const std::string problem = Problem(code);
    if (!issued_) return {.response = std::unexpected(ForCaller(NotSent(code, problem).error()))};
    const bool is_broken = was_dead_ || (!too_long_ && (code == CURLE_SEND_ERROR || code == CURLE_RECV_ERROR ||
                                                        code == CURLE_GOT_NOTHING || code == CURLE_PARTIAL_FILE));
    Error error{.code = is_broken ? ErrorCode::kUnavailable : ErrorCode::kInternal, .message = problem};
    return {.response = std::unexpected(ForCaller(std::move(error))), .may_repeat_read = is_broken && !handed_over_};
  }

  [[nodiscard]] std::unexpected<Error> NotSent(CURLcode code, const std::string& problem) const {
    switch (code) {
      case CURLE_ABORTED_BY_CALLBACK:
        return TooLate();
      case CURLE_PEER_FAILED_VERIFICATION:
        return Fail(ErrorCode::kUnavailable,
                    "the server's certificate is not accepted: " + problem,
                    "check certificate-authority and tls-server-name in the kubeconfig");
      case CURLE_SSL_CACERT_BADFILE:
        return Fail(ErrorCode::kDecode,
                    "certificate-authority holds no certificate, or one that cannot be read",
                    "it must be PEM: -----BEGIN CERTIFICATE-----");
      case CURLE_SSL_CERTPROBLEM:
        return Fail(ErrorCode::kDecode,
                    "client-certificate and client-key cannot be used: " + problem,
                    "both must be PEM and belong together, and the key must have no passphrase");
      default:
        return Unreached(problem);
    }
  }

  [[nodiscard]] std::string Problem(CURLcode code) const {
    if (too_long_) return std::string(too_long_) + " is too long";
    if (was_dead_) return "the connection had been closed";
    std::string text = error_[0] != '\0' ? error_.data() : curl_easy_strerror(code);
    long os_errno = 0;
    curl_easy_getinfo(easy_, CURLINFO_OS_ERRNO, &os_errno);
    if (code == CURLE_COULDNT_CONNECT && os_errno != 0) {
      text += ": " + std::string(std::strerror(static_cast<int>(os_errno)));
    }
    return text;
  }

  // An answer must say where it ends. Without a length, libcurl takes the answer as complete when the connection is
  // closed, and anybody between server and client could close it. If an answer has two lengths, libcurl uses one
  // length, and another reader may use the other.
  [[nodiscard]] CURLcode CheckLength() const {
    if (const long status = Status(); status == 204 || status == 304) return CURLE_OK;
    curl_header* header = nullptr;
    if (curl_easy_header(easy_, "Transfer-Encoding", 0, CURLH_HEADER, -1, &header) == CURLHE_OK) {
      return header->amount == 1 && EqualAnyCase(header->value, "chunked") ? CURLE_OK : CURLE_WEIRD_SERVER_REPLY;
    }
    if (curl_easy_header(easy_, "Content-Length", 0, CURLH_HEADER, -1, &header) != CURLHE_OK) return CURLE_PARTIAL_FILE;
    curl_off_t length = -1;
    curl_easy_getinfo(easy_, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
    return header->amount == 1 && length >= 0 ? CURLE_OK : CURLE_WEIRD_SERVER_REPLY;
  }

  [[nodiscard]] Response Complete() {
    Response response{.status = static_cast<int>(Status()), .body = std::move(body_)};
    curl_header* header = nullptr;
    curl_off_t seconds = 0;
    if (curl_easy_header(easy_, "Retry-After", 0, CURLH_HEADER, -1, &header) == CURLHE_OK &&
        curl_easy_getinfo(easy_, CURLINFO_RETRY_AFTER, &seconds) == CURLE_OK) {
      response.retry_after = std::chrono::seconds(std::min<curl_off_t>(seconds, kRetryAfterMax.count()));
    }
    if (curl_easy_header(easy_, "Date", 0, CURLH_HEADER, -1, &header) == CURLHE_OK) {
      const std::chrono::sys_seconds date{std::chrono::seconds(curl_getdate(header->value, nullptr))};
      if (date >= std::chrono::sys_seconds{} && date < kDateMax) response.date = date;
    }
    return response;
  }

  [[nodiscard]] long Status() const {
    long status = 0;
    curl_easy_getinfo(easy_, CURLINFO_RESPONSE_CODE, &status);
    return status;
  }

  // libcurl calls OnSend before it sends the request. If a kept connection turns out to be dead, libcurl would send the
  // request again, although the server may have received the first one. OnLookup stops libcurl before it opens another
  // connection, and OnSend stops libcurl in any case.
  static int OnSend(void* self, char*, char*, int, int) {
    auto& transfer = *static_cast<Transfer*>(self);
    const auto now = steady_clock::now();
    const CallOptions& options = transfer.options_;
    const bool is_over = options.stop.stop_requested() || now >= options.deadline;
    if (transfer.issued_ || is_over) return CURL_PREREQFUNC_ABORT;
    transfer.issued_ = true;
    transfer.received_ = now;
    return CURL_PREREQFUNC_OK;
  }

  // libcurl calls OnLookup before it opens a connection. If libcurl has already sent the request, it is about to send
  // the request again.
  static int OnLookup(void*, void*, void* self) {
    auto& transfer = *static_cast<Transfer*>(self);
    transfer.was_dead_ = transfer.issued_;
    return transfer.was_dead_ ? 1 : 0;
  }

  // libcurl calls OnTlsContext before each TLS handshake.
  static CURLcode OnTlsContext(CURL*, void* context, void* self) {
    auto& transfer = *static_cast<Transfer*>(self);
    const Endpoint& endpoint = transfer.endpoint_;
    const bool is_proxy = std::exchange(transfer.is_next_the_proxy_, false);
    if (!is_proxy && transfer.handshake_began_) return CURLE_SSL_CONNECT_ERROR;  // handshake_max is for one handshake
    if (!is_proxy) transfer.handshake_began_ = steady_clock::now();
    // SSLKEYLOGFILE must not make the process write the session's keys to a file.
    SSL_CTX_set_keylog_callback(static_cast<SSL_CTX*>(context), nullptr);
    const std::string& name = is_proxy && endpoint.proxy ? endpoint.proxy->host : endpoint.server_name;
    const bool demanded = endpoint.insecure_skip_verify || RequireName(static_cast<SSL_CTX*>(context), name);
    return demanded ? CURLE_OK : CURLE_SSL_CONNECT_ERROR;
  }

  static std::size_t OnHeader(const char*, std::size_t, std::size_t size, void* self) {
    auto& transfer = *static_cast<Transfer*>(self);
    transfer.received_ = steady_clock::now();
    transfer.connection_.NoteBufferedBytes();
    transfer.head_bytes_ += size;
    if (transfer.head_bytes_ <= kHeadBytesMax) return size;
    transfer.too_long_ = "the answer's head";
    return CURL_WRITEFUNC_ERROR;
  }

  static std::size_t OnBody(const char* bytes, std::size_t, std::size_t size, void* self) {
    auto& transfer = *static_cast<Transfer*>(self);
    transfer.received_ = steady_clock::now();
    transfer.connection_.NoteBufferedBytes();
    return transfer.TakeBody({bytes, size}) ? size : CURL_WRITEFUNC_ERROR;
  }

  bool TakeBody(std::string_view piece) {
    const long status = Status();
    const bool refused = status < 200 || status >= 300;
    if (options_.body && !refused) {
      handed_over_ = true;
      sink_ended_ = !options_.body(piece);
      return !sink_ended_;
    }
    const std::size_t bytes_max =
        refused ? std::min(request_.response_bytes_max, kRefusalBytesMax) : request_.response_bytes_max;
    if (piece.size() > bytes_max - std::min(bytes_max, body_.size())) {
      too_long_ = "the answer";
      return false;
    }
    body_ += piece;
    return true;
  }

  static constexpr milliseconds kPollMax = std::chrono::hours(1);

  Connection& connection_;
  const Endpoint& endpoint_;
  CURL* const easy_;
  CURLM* const multi_;
  const Request& request_;
  const CallOptions& options_;

  std::array<char, CURL_ERROR_SIZE> error_{};
  Headers headers_;
  Headers connect_to_;
  bool is_next_the_proxy_ = false;  // whether the next TLS handshake is with the proxy
  steady_clock::time_point began_;
  std::optional<steady_clock::time_point> handshake_began_;  // with the server
  steady_clock::time_point received_;                        // when the last data arrived
  bool issued_ = false;                                      // the server may have the request
  bool was_dead_ = false;                                    // the request went to a kept connection that was dead
  bool handed_over_ = false;                                 // the sink got a piece
  bool sink_ended_ = false;                                  // the sink returned false
  const char* too_long_ = nullptr;                           // name of the part that was too long
  std::size_t head_bytes_ = 0;
  std::string body_;
};

Connection::Connection(const Endpoint& endpoint, std::shared_ptr<const TlsTexts> texts)
    : endpoint_(endpoint), tls_(std::move(texts)), easy_(MakeEasyHandle()), multi_(curl_multi_init()) {
  BERTH_CHECK(easy_ != nullptr && multi_ != nullptr);
  curl_multi_setopt(multi_, CURLMOPT_MAXCONNECTS, 1L);
}

Connection::~Connection() {
  curl_easy_cleanup(easy_);
  curl_multi_cleanup(multi_);
}

bool Connection::IsReusable() const {
  pollfd polled{.fd = kept_socket_, .events = POLLIN, .revents = 0};
  return kept_socket_ != CURL_SOCKET_BAD && poll(&polled, 1, 0) == 0;
}

void Connection::NoteBufferedBytes() {
  const curl_tlssessioninfo* session = nullptr;
  has_buffered_bytes_ = curl_easy_getinfo(easy_, CURLINFO_TLS_SSL_PTR, &session) == CURLE_OK &&
                        session->internals != nullptr && SSL_pending(static_cast<SSL*>(session->internals)) > 0;
}

ExchangeResult Connection::Exchange(const Request& request, const std::vector<std::string>& headers,
                                    const CallOptions& options) {
  if (options.stop.stop_requested() || steady_clock::now() >= options.deadline) {
    return {.response = TooLate()};
  }
  return Transfer(*this, request, options).Run(headers);
}

}  // namespace berth::k8sclient
