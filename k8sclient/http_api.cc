// SPDX-License-Identifier: Apache-2.0
// HttpApi: keeps connections, adds credentials, and repeats a request in a few cases.
#include "k8sclient/http_api.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "base/mutex.h"
#include "k8sclient/connection.h"
#include "k8sclient/credentials.h"
#include "k8sclient/line_splitter.h"
#include "k8sclient/status.h"

namespace berth::k8sclient {
namespace {

constexpr std::size_t kIdleConnectionsMax = 8;
constexpr int kRepeatsMax = 10;

Expected<Endpoint> MakeEndpoint(const ClientConfig& config, const HttpApiOptions& options) {
  Expected<ServerUrl> server = ParseServerUrl(config.server);
  if (!server) return std::unexpected(server.error().Within(config.source + ": server"));
  if (server->scheme != "https" && server->scheme != "http") {
    return Fail(
        ErrorCode::kDecode, config.source + ": server: a URL must begin with https://", "write https://HOST:PORT");
  }
  Expected<std::optional<ServerUrl>> proxy = ChooseProxy(config.proxy_url, *server, options.environment);
  if (!proxy) return std::unexpected(proxy.error().Within(config.source));
  return Endpoint{.server = std::move(*server),
                  .tls_server_name = config.tls_server_name,
                  .insecure_skip_verify = config.insecure_skip_tls_verify,
                  .proxy = std::move(*proxy),
                  .user_agent = options.user_agent,
                  .connect_max = options.connect_max,
                  .handshake_max = options.handshake_max};
}

bool IsPlainAscii(const std::string& text) {
  return std::ranges::all_of(text, [](unsigned char c) { return c > 0x20 && c < 0x7f && c != '?' && c != '#'; });
}

Expected<void> Check(const Request& request) {
  if (request.path.starts_with('/') && IsPlainAscii(request.path)) return {};
  return Fail(ErrorCode::kInvalid, "\"" + request.path.substr(0, 200) + "\" is not a path on the API server");
}

}  // namespace

class HttpApi::State {
 public:
  State(Endpoint endpoint, ClientConfig config, const HttpApiOptions& options)
      : endpoint_(std::move(endpoint)),
        clock_(*options.clock),
        credentials_(std::move(config), options.read_file, clock_, options.log) {}

  Expected<Response> Call(const Request& request, const CallOptions& options) {
    const ExchangeLimits limits{.deadline = options.deadline, .stop = options.stop};
    bool sent_again = false;
    for (int repeats = 0;; ++repeats) {
      ExchangeResult result = Authenticated(request, options, limits, options.body ? &options.body : nullptr);
      if (!result.response && result.may_repeat_read && !IsWrite(request.method) && !sent_again) {
        sent_again = true;
        continue;
      }
      if (!result.response || repeats >= kRepeatsMax || !MayRepeat(request, *result.response)) {
        return std::move(result.response);
      }
      // Waits up to a quarter longer than Retry-After, so that clients that were refused together do not come back
      // together.
      const auto wait = std::chrono::duration_cast<std::chrono::milliseconds>(
          result.response->retry_after.value_or(std::chrono::seconds(1)) * (1 + clock_.Random() / 4));
      if (clock_.Now() + wait >= options.deadline || !clock_.Sleep(wait, options.stop))
        return std::move(result.response);
    }
  }

  Expected<Response> Watch(const Request& request, const WatchOptions& options, const WatchSink& sink) {
    LineSplitter lines(options.line_bytes_max, sink);
    auto outcome = LineSplitter::Outcome::kMore;
    const BodySink body = [&](std::string_view piece) {
      outcome = lines.Feed(piece);
      return outcome == LineSplitter::Outcome::kMore;
    };
    const ExchangeLimits limits{.idle_max = options.idle_max, .stop = options.stop};
    Expected<Response> ended = Authenticated(request, {.stop = options.stop}, limits, &body).response;
    if (outcome != LineSplitter::Outcome::kTooLong) return ended;
    return Fail(ErrorCode::kInternal, "GET " + request.path + ": a line of the stream is too long");
  }

 private:
  // Sends the request. If the server answers 401, reads the credentials again; if they have changed, sends the request
  // once more. The server did not execute a request that it answered with 401.
  ExchangeResult Authenticated(const Request& request, const CallOptions& options, const ExchangeLimits& limits,
                               const BodySink* sink) {
    auto credential = credentials_.Current(options);
    if (!credential) return {.response = std::unexpected(std::move(credential.error()))};
    ExchangeResult result = OneExchange(request, *credential, limits, sink);
    if (!result.response || result.response->status != 401) return result;
    credentials_.Reject(**credential);
    auto renewed = credentials_.Current(options);
    if (!renewed) return {.response = std::unexpected(std::move(renewed.error()))};
    if ((*renewed)->serial == (*credential)->serial) return result;
    return OneExchange(request, *renewed, limits, sink);
  }

  ExchangeResult OneExchange(const Request& request, const std::shared_ptr<const CredentialSnapshot>& credential,
                             const ExchangeLimits& limits, const BodySink* sink) {
    std::unique_ptr<Connection> connection = Take(credential);
    ExchangeResult result = connection->Exchange(request, *credential, limits, sink);
    if (!result.response && result.response.error().code == ErrorCode::kDecode) {
      result.response = std::unexpected(result.response.error().Within(credentials_.config().source));
    }
    if (result.response) GiveBack(std::move(connection));
    return result;
  }

  // Takes the connection that was used last. So connections beyond the present need stay idle and exceed their maximum
  // age.
  std::unique_ptr<Connection> Take(const std::shared_ptr<const CredentialSnapshot>& credential) {
    const Lock lock(mutex_);
    if (tls_serial_ < credential->tls_serial) {
      idle_.clear();
      tls_serial_ = credential->tls_serial;
    }
    if (idle_.empty()) return std::make_unique<Connection>(endpoint_, credential);
    std::unique_ptr<Connection> connection = std::move(idle_.back());
    idle_.pop_back();
    return connection;
  }

  void GiveBack(std::unique_ptr<Connection> connection) {
    const Lock lock(mutex_);
    if (connection->tls_serial() == tls_serial_ && idle_.size() < kIdleConnectionsMax) {
      idle_.push_back(std::move(connection));
    }
  }

  const Endpoint endpoint_;
  Clock& clock_;
  Credentials credentials_;
  Mutex mutex_;
  std::uint64_t tls_serial_ BERTH_GUARDED_BY(mutex_) = 0;
  std::vector<std::unique_ptr<Connection>> idle_ BERTH_GUARDED_BY(mutex_);  // each with this tls_serial_
};

HttpApi::HttpApi(std::unique_ptr<State> state) : state_(std::move(state)) {}
HttpApi::~HttpApi() = default;

Expected<std::unique_ptr<HttpApi>> HttpApi::Make(ClientConfig config, const HttpApiOptions& options) {
  Expected<Endpoint> endpoint = MakeEndpoint(config, options);
  if (!endpoint) return std::unexpected(std::move(endpoint.error()));
  return std::unique_ptr<HttpApi>(
      new HttpApi(std::make_unique<State>(std::move(*endpoint), std::move(config), options)));
}

Expected<Response> HttpApi::Call(const Request& request, const CallOptions& options) {
  const Expected<void> checked = Check(request);
  if (!checked) return std::unexpected(checked.error());
  return state_->Call(request, options);
}

Expected<Response> HttpApi::Watch(const Request& request, const WatchOptions& options, const WatchSink& sink) {
  const Expected<void> checked = Check(request);
  if (!checked) return std::unexpected(checked.error());
  return state_->Watch(request, options, sink);
}

}  // namespace berth::k8sclient
