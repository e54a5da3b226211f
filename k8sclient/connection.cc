// SPDX-License-Identifier: Apache-2.0
// Connection: libcurl's multi interface with one easy handle in it, so that a stop request can wake a waiting call.
#include "k8sclient/connection.h"

#include <algorithm>
#include <array>
#include <curl/curl.h>
#include <limits>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <optional>
#include <sys/socket.h>

#include "ipam/check.h"
#include "k8sclient/line_splitter.h"
#include "k8sclient/url.h"

namespace berth::k8sclient {
namespace {

using ipam::ErrorCode;
using ipam::Expected;
using ipam::Fail;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

// The API server closes an idle connection after 90 s and load balancers may earlier: not to meet such a close is the
// cheapest way not to lose a write to it.
constexpr long kIdleConnectionSecondsMax = 50;
constexpr unsigned kTcpUserTimeoutMs = 30'000;  // sent data unacknowledged for that long: the peer is gone
constexpr std::size_t kRefusalBytesMax = std::size_t{1} << 20;

// Sets an option that can only fail for want of memory or by a mistake in this file.
template <typename T>
void Set(CURL* easy, CURLoption option, T value) {
  const CURLcode code = curl_easy_setopt(easy, option, value);
  BERTH_CHECK(code == CURLE_OK);
}

class HeaderList {
 public:
  HeaderList() = default;
  HeaderList(const HeaderList&) = delete;
  HeaderList& operator=(const HeaderList&) = delete;
  ~HeaderList() { curl_slist_free_all(list_); }
  void Add(const std::string& line) {
    curl_slist* longer = curl_slist_append(list_, line.c_str());
    BERTH_CHECK(longer != nullptr);
    list_ = longer;
  }
  [[nodiscard]] curl_slist* get() const { return list_; }

 private:
  curl_slist* list_ = nullptr;
};

// What libcurl's callbacks know and find out during one exchange.
struct Progress {
  CURL* easy;
  bool may_resend;
  std::size_t body_bytes_max;
  std::optional<LineSplitter> splitter = {};
  int sends = 0;  // how often libcurl was about to send the request
  std::string body = {};
  bool body_too_large = false;
  LineSplitter::Outcome stream_outcome = LineSplitter::Outcome::kMore;
  steady_clock::time_point heard_at = steady_clock::now();
};

enum class Ending : std::uint8_t { kDone, kDeadline, kStopped, kIdle };

// Called when the connection stands and before the first byte of a request, also of one that libcurl repeats.
int OnAboutToSend(void* data, char*, char*, int, int) {
  auto& progress = *static_cast<Progress*>(data);
  ++progress.sends;
  return progress.sends > 1 && !progress.may_resend ? CURL_PREREQFUNC_ABORT : CURL_PREREQFUNC_OK;
}

std::size_t OnHeader(char*, std::size_t size, std::size_t count, void* data) {
  static_cast<Progress*>(data)->heard_at = steady_clock::now();
  return size * count;
}

std::size_t OnBody(char* bytes, std::size_t size, std::size_t count, void* data) {
  auto& progress = *static_cast<Progress*>(data);
  const std::size_t total = size * count;
  progress.heard_at = steady_clock::now();
  long status = 0;
  curl_easy_getinfo(progress.easy, CURLINFO_RESPONSE_CODE, &status);
  const bool refused = status < 200 || status >= 300;
  if (progress.splitter && !refused) {
    progress.stream_outcome = progress.splitter->Feed({bytes, total});
    return progress.stream_outcome == LineSplitter::Outcome::kMore ? total : 0;
  }
  const std::size_t bytes_max = refused ? std::min(progress.body_bytes_max, kRefusalBytesMax) : progress.body_bytes_max;
  if (total > bytes_max - std::min(bytes_max, progress.body.size())) {
    progress.body_too_large = true;
    return 0;
  }
  progress.body.append(bytes, total);
  return total;
}

int OnSocket(void*, curl_socket_t socket, curlsocktype) {
  const unsigned timeout_ms = kTcpUserTimeoutMs;
  setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, sizeof(timeout_ms));
  return CURL_SOCKOPT_OK;
}

curl_blob Blob(const std::string& text) {
  // The snapshot lives as long as the connection, so libcurl need not copy.
  return {.data = const_cast<char*>(text.data()), .len = text.size(), .flags = CURL_BLOB_NOCOPY};
}

// "host:port" of a URL, with the scheme's port if it names none.
std::string Authority(const std::string& url) {
  CURLU* parsed = curl_url();
  BERTH_CHECK(parsed != nullptr);
  char* host = nullptr;
  char* port = nullptr;
  std::string authority;
  if (curl_url_set(parsed, CURLUPART_URL, url.c_str(), 0) == CURLUE_OK &&
      curl_url_get(parsed, CURLUPART_HOST, &host, 0) == CURLUE_OK &&
      curl_url_get(parsed, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT) == CURLUE_OK) {
    authority = std::string(host) + ":" + port;
  }
  curl_free(host);
  curl_free(port);
  curl_url_cleanup(parsed);
  return authority;
}

// The part of a URL behind scheme and authority, empty or starting with a slash.
std::string PathOf(const std::string& url) {
  const std::size_t slash = url.find('/', url.find("://") + 3);
  return slash == std::string::npos ? std::string() : url.substr(slash);
}

std::string RemedyFor(CURLcode code) {
  switch (code) {
    case CURLE_PEER_FAILED_VERIFICATION:
      return "check certificate-authority and tls-server-name in the kubeconfig, and that the server's certificate is "
             "not "
             "expired";
    case CURLE_SSL_CERTPROBLEM:
      return "check client-certificate and client-key in the kubeconfig: they must be PEM and belong together";
    case CURLE_SSL_CACERT_BADFILE:
      return "check certificate-authority in the kubeconfig: it must be PEM";
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT:
      return "check server in the kubeconfig, and that the API server runs";
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_PROXY:
      return "check proxy-url in the kubeconfig, or HTTPS_PROXY and NO_PROXY";
    default:
      return {};
  }
}

bool IsConfiguration(CURLcode code) {
  return code == CURLE_SSL_CERTPROBLEM || code == CURLE_SSL_CACERT_BADFILE || code == CURLE_URL_MALFORMAT ||
         code == CURLE_UNSUPPORTED_PROTOCOL;
}

}  // namespace

class Connection::Handle {
 public:
  Handle(Endpoint endpoint, std::shared_ptr<const CredentialSnapshot> credential)
      : endpoint_(std::move(endpoint)), credential_(std::move(credential)) {
    static const CURLcode initialised = curl_global_init(CURL_GLOBAL_DEFAULT);
    BERTH_CHECK(initialised == CURLE_OK);
    multi_ = curl_multi_init();
    easy_ = curl_easy_init();
    BERTH_CHECK(multi_ != nullptr && easy_ != nullptr);
    SetUpTransport();
    SetUpTls();
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() {
    curl_easy_cleanup(easy_);
    curl_multi_cleanup(multi_);
  }

  [[nodiscard]] std::uint64_t tls_serial() const { return credential_->tls_serial; }

  ExchangeResult Exchange(const Request& request, const CredentialSnapshot& credential, const ExchangeLimits& limits,
                          const StreamTo* stream) {
    Progress progress{
        .easy = easy_, .may_resend = !IsWrite(request.method), .body_bytes_max = request.response_bytes_max};
    if (stream != nullptr) progress.splitter.emplace(stream->line_bytes_max, stream->sink);
    HeaderList headers;
    SetUpRequest(request, credential, progress, headers);
    CURLcode code = CURLE_OK;
    const Ending ending = Run(limits, progress, code);
    if (ending == Ending::kDone && code == CURLE_OK) return {.response = Complete(progress)};
    if (progress.stream_outcome == LineSplitter::Outcome::kEnded) return {.response = Response{.status = 200}};
    const bool broke = ending == Ending::kDone && progress.sends > 0 && !progress.body_too_large &&
                       progress.stream_outcome == LineSplitter::Outcome::kMore;
    return {.response = std::unexpected(Failure(request, progress, ending, code)), .broke = broke};
  }

 private:
  void SetUpTransport() {
    server_ = endpoint_.server;
    Set(easy_, CURLOPT_NOSIGNAL, 1L);
    Set(easy_, CURLOPT_ERRORBUFFER, error_text_.data());
    Set(easy_, CURLOPT_PROTOCOLS_STR, "http,https");
    Set(easy_, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
    Set(easy_, CURLOPT_PATH_AS_IS, 1L);
    Set(easy_, CURLOPT_TCP_NODELAY, 1L);
    Set(easy_, CURLOPT_TCP_KEEPALIVE, 1L);
    Set(easy_, CURLOPT_TCP_KEEPIDLE, 15L);
    Set(easy_, CURLOPT_TCP_KEEPINTVL, 5L);
    Set(easy_, CURLOPT_SOCKOPTFUNCTION, &OnSocket);
    Set(easy_, CURLOPT_MAXAGE_CONN, kIdleConnectionSecondsMax);
    Set(easy_, CURLOPT_QUICK_EXIT, 1L);  // a name server that does not answer must not hold up a call that is over
    Set(easy_, CURLOPT_USERAGENT, endpoint_.user_agent.c_str());
    Set(easy_, CURLOPT_PROXY, endpoint_.proxy.c_str());  // "" also keeps libcurl from the environment's
    Set(easy_, CURLOPT_NOPROXY, endpoint_.no_proxy.c_str());
    Set(easy_, CURLOPT_PREREQFUNCTION, &OnAboutToSend);
    Set(easy_, CURLOPT_HEADERFUNCTION, &OnHeader);
    Set(easy_, CURLOPT_WRITEFUNCTION, &OnBody);
  }

  void SetUpTls() {
    Set(easy_, CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
    if (endpoint_.insecure_skip_tls_verify) {
      Set(easy_, CURLOPT_SSL_VERIFYPEER, 0L);
      Set(easy_, CURLOPT_SSL_VERIFYHOST, 0L);
    }
    if (!credential_->certificate_authority_pem.empty()) {
      const curl_blob authority = Blob(credential_->certificate_authority_pem);
      Set(easy_, CURLOPT_CAINFO_BLOB, &authority);
      // Otherwise the system's authorities would be trusted as well (and 140 files of them opened by hash).
      Set(easy_, CURLOPT_CAPATH, static_cast<char*>(nullptr));
    }
    if (!credential_->certificate_pem.empty()) {
      const curl_blob certificate = Blob(credential_->certificate_pem);
      const curl_blob key = Blob(credential_->key_pem);
      Set(easy_, CURLOPT_SSLCERT_BLOB, &certificate);
      Set(easy_, CURLOPT_SSLKEY_BLOB, &key);
    }
    if (endpoint_.tls_server_name.empty()) return;
    // libcurl takes the name to verify from the URL: so the name goes there, and where it leads to is said apart.
    const std::string authority = Authority(endpoint_.server);
    if (authority.empty()) return;  // the transfer will say that this is no URL
    connect_to_.Add("::" + authority);
    Set(easy_, CURLOPT_CONNECT_TO, connect_to_.get());
    server_ =
        "https://" + endpoint_.tls_server_name + authority.substr(authority.rfind(':')) + PathOf(endpoint_.server);
    host_header_ = "Host: " + authority;
  }

  void SetUpRequest(const Request& request, const CredentialSnapshot& credential, Progress& progress,
                    HeaderList& headers) {
    headers.Add("Accept: " + std::string(request.accept));
    headers.Add("Expect:");  // libcurl would wait for "100 Continue" before a larger body
    if (!host_header_.empty()) headers.Add(host_header_);
    for (const std::string& line : credential.headers) headers.Add(line);
    if (!request.body.empty()) headers.Add("Content-Type: " + std::string(request.content_type));
    Set(easy_, CURLOPT_URL, Url(server_, request).c_str());
    if (request.body.empty() && request.method != Method::kPost && request.method != Method::kPatch) {
      Set(easy_, CURLOPT_HTTPGET, 1L);
    } else {
      Set(easy_, CURLOPT_POST, 1L);
      Set(easy_, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
      Set(easy_, CURLOPT_POSTFIELDS, request.body.c_str());
    }
    Set(easy_, CURLOPT_CUSTOMREQUEST, std::string(ToString(request.method)).c_str());
    Set(easy_, CURLOPT_HTTPHEADER, headers.get());
    Set(easy_, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(endpoint_.connect_max.count()));
    Set(easy_, CURLOPT_PREREQDATA, &progress);
    Set(easy_, CURLOPT_HEADERDATA, &progress);
    Set(easy_, CURLOPT_WRITEDATA, &progress);
    error_text_.front() = '\0';
  }

  // Performs what was set up until it is done (then `code` is its result) or a limit is reached (then the connection is
  // closed, as its next bytes would belong to an exchange nobody waits for).
  Ending Run(const ExchangeLimits& limits, const Progress& progress, CURLcode& code) {
    const std::stop_callback wake(limits.stop, [this] { curl_multi_wakeup(multi_); });
    BERTH_CHECK(curl_multi_add_handle(multi_, easy_) == CURLM_OK);
    std::optional<Ending> ending;
    while (true) {
      int running = 0;
      BERTH_CHECK(curl_multi_perform(multi_, &running) == CURLM_OK);
      int left = 0;
      if (const CURLMsg* message = curl_multi_info_read(multi_, &left); message != nullptr) {
        code = message->data.result;
        ending = Ending::kDone;
        break;
      }
      const auto now = steady_clock::now();
      ending = Overdue(limits, progress, now);
      if (ending) break;
      curl_multi_poll(multi_, nullptr, 0, WaitMs(limits, progress, now), nullptr);
    }
    curl_multi_remove_handle(multi_, easy_);
    return *ending;
  }

  static std::optional<Ending> Overdue(const ExchangeLimits& limits, const Progress& progress,
                                       steady_clock::time_point now) {
    if (limits.stop.stop_requested()) return Ending::kStopped;
    if (now >= limits.deadline) return Ending::kDeadline;
    if (limits.idle_max && now - progress.heard_at >= *limits.idle_max) return Ending::kIdle;
    return {};
  }

  static int WaitMs(const ExchangeLimits& limits, const Progress& progress, steady_clock::time_point now) {
    constexpr milliseconds kLongest = std::chrono::minutes(1);
    milliseconds wait = std::min(
        kLongest, std::chrono::ceil<milliseconds>(std::min(limits.deadline - now, steady_clock::duration(kLongest))));
    if (limits.idle_max) {
      wait = std::min(wait, std::chrono::ceil<milliseconds>(progress.heard_at + *limits.idle_max - now));
    }
    return static_cast<int>(std::max(wait, milliseconds(1)).count());
  }

  Response Complete(Progress& progress) {
    long status = 0;
    curl_off_t retry_after_seconds = 0;
    curl_easy_getinfo(easy_, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_getinfo(easy_, CURLINFO_RETRY_AFTER, &retry_after_seconds);
    Response response{.status = static_cast<int>(status), .body = std::move(progress.body)};
    if (retry_after_seconds > 0) {
      constexpr curl_off_t kLongest = 3600;
      response.retry_after = std::chrono::seconds(std::min(retry_after_seconds, kLongest));
    }
    return response;
  }

  [[nodiscard]] ipam::Error Failure(const Request& request, const Progress& progress, Ending ending,
                                    CURLcode code) const {
    const std::string what = std::string(ToString(request.method)) + " " + endpoint_.server + request.path + ": ";
    const bool in_doubt = progress.sends > 0 && IsWrite(request.method);
    const auto error = [&](ErrorCode certain, const std::string& text, std::string remedy = {}) {
      return ipam::Error{.code = in_doubt ? ErrorCode::kUnknownOutcome : certain,
                         .message = what + text,
                         .details = std::move(remedy)};
    };
    const char* const phase = progress.sends > 0 ? "while waiting for the answer" : "while connecting";
    switch (ending) {
      case Ending::kDeadline:
        return error(ErrorCode::kTimeout, std::string("time was over ") + phase);
      case Ending::kStopped:
        return error(ErrorCode::kTimeout, std::string("stopped ") + phase);
      case Ending::kIdle:
        return error(ErrorCode::kTimeout, "nothing came for too long");
      case Ending::kDone:
        break;
    }
    if (progress.body_too_large) {
      return error(ErrorCode::kInternal,
                   "the answer is larger than " + std::to_string(request.response_bytes_max) + " bytes");
    }
    if (progress.stream_outcome == LineSplitter::Outcome::kTooLong) {
      return error(ErrorCode::kInternal, "a line of the stream is too long");
    }
    if (progress.sends > 1 && in_doubt)
      return error(ErrorCode::kUnavailable, "the connection broke before an answer came");
    const std::string text = error_text_.front() != '\0' ? error_text_.data() : curl_easy_strerror(code);
    if (progress.sends == 0 && IsConfiguration(code)) return error(ErrorCode::kDecode, text, RemedyFor(code));
    return error(ErrorCode::kUnavailable, text, RemedyFor(code));
  }

  const Endpoint endpoint_;
  const std::shared_ptr<const CredentialSnapshot> credential_;
  std::string server_;       // the URL's start: endpoint_.server, with the TLS name as host if one is given
  std::string host_header_;  // "Host: ..." where server_ names another host
  HeaderList connect_to_;
  std::array<char, CURL_ERROR_SIZE> error_text_{};
  CURLM* multi_ = nullptr;
  CURL* easy_ = nullptr;
};

Connection::Connection(Endpoint endpoint, std::shared_ptr<const CredentialSnapshot> credential)
    : handle_(std::make_unique<Handle>(std::move(endpoint), std::move(credential))) {}

Connection::~Connection() = default;

std::uint64_t Connection::tls_serial() const { return handle_->tls_serial(); }

ExchangeResult Connection::Exchange(const Request& request, const CredentialSnapshot& credential,
                                    const ExchangeLimits& limits, const StreamTo* stream) {
  return handle_->Exchange(request, credential, limits, stream);
}

}  // namespace berth::k8sclient
