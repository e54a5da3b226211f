// SPDX-License-Identifier: Apache-2.0
// The Api over HTTPS: keeps connections, adds credentials, and repeats a request in a few cases.
#include "k8sclient/http_api.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "base/check.h"
#include "base/mutex.h"
#include "k8sclient/connection.h"
#include "k8sclient/credentials.h"
#include "k8sclient/status.h"

namespace berth::k8sclient {
namespace {

constexpr std::size_t kIdleConnectionsMax = 8;
constexpr int kRepeatsMax = 10;

bool IsPath(const std::string& text) {
  return text.starts_with('/') &&
         std::ranges::all_of(text, [](unsigned char c) { return c > 0x20 && c < 0x7f && c != '?' && c != '#'; });
}

// Cuts a stream, which arrives in pieces of any size, into lines, and passes them to the sink, without empty lines.
class LineSplitter {
 public:
  LineSplitter(std::size_t line_bytes_max, const WatchSink& sink) : line_bytes_max_(line_bytes_max), sink_(sink) {}

  // False: the sink returned false, or a line is too long.
  [[nodiscard]] bool Feed(std::string_view piece) {
    for (std::size_t end = piece.find('\n'); end != std::string_view::npos; end = piece.find('\n')) {
      line_ += piece.substr(0, end);
      piece.remove_prefix(end + 1);
      if (line_.ends_with('\r')) line_.pop_back();
      if (IsTooLong() || (!line_.empty() && !sink_(line_))) return false;
      line_.clear();
    }
    line_ += piece;
    return !IsTooLong();
  }
  [[nodiscard]] bool IsTooLong() const { return line_.size() > line_bytes_max_; }

 private:
  const std::size_t line_bytes_max_;
  const WatchSink& sink_;
  std::string line_;  // the part of the present line that has arrived
};

class HttpApi final : public Api {
 public:
  HttpApi(Endpoint endpoint, ClientConfig config, const HttpApiOptions& options)
      : endpoint_(std::move(endpoint)),
        clock_(*options.clock),
        credentials_(std::move(config), options.read_file, clock_, options.log) {}

  Expected<Response> Call(const Request& request, const CallOptions& options) override {
    bool sent_again = false;
    for (int repeats = 0;; ++repeats) {
      ExchangeResult result = Authenticated(request, options);
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

  Expected<Response> Watch(const Request& request, const WatchOptions& options, const WatchSink& sink) override {
    LineSplitter lines(options.line_bytes_max, sink);
    const CallOptions call{.stop = options.stop,
                           .body = [&lines](std::string_view piece) { return lines.Feed(piece); },
                           .idle_max = options.idle_max};
    Expected<Response> ended = Authenticated(request, call).response;
    if (!lines.IsTooLong()) return ended;
    return Fail(ErrorCode::kInternal, "GET " + request.path + ": a line of the stream is too long");
  }

 private:
  // Sends the request. If the server answers 401, or if the certificates of files cannot be used (another program may
  // have replaced the certificate a moment ago, and not yet the key), reads the credentials again; if they have
  // changed, sends the request once more. The server did not execute the first request.
  ExchangeResult Authenticated(const Request& request, const CallOptions& options) {
    BERTH_CHECK(IsPath(request.path));
    auto credential = credentials_.Current(options);
    if (!credential) return {.response = std::unexpected(std::move(credential.error()))};
    ExchangeResult result = OneExchange(request, **credential, options);
    // A plugin prints certificate and key together, so running it again would not help.
    const bool is_rejected = result.response
                                 ? result.response->status == 401
                                 : result.response.error().code == ErrorCode::kDecode && !credentials_.config().exec;
    if (!is_rejected) return result;
    credentials_.Reject(*credential);
    auto renewed = credentials_.Current(options);
    if (!renewed) return {.response = std::unexpected(std::move(renewed.error()))};
    return *renewed == *credential ? result : OneExchange(request, **renewed, options);
  }

  ExchangeResult OneExchange(const Request& request, const CredentialSnapshot& credential, const CallOptions& options) {
    std::unique_ptr<Connection> connection = TakeIdle(credential);
    if (!connection) connection = std::make_unique<Connection>(endpoint_, credential.tls);
    ExchangeResult result = connection->Exchange(request, credential.headers, options);
    if (!result.response && result.response.error().code == ErrorCode::kDecode) {
      result.response = std::unexpected(result.response.error().Within(credentials_.config().source));
    }
    const Lock lock(mutex_);
    if (result.response && idle_.size() < kIdleConnectionsMax) idle_.push_back(std::move(connection));
    // The server's machine may have died. Then each idle connection would cost a call its whole time limit.
    if (result.was_silent) idle_.clear();
    return result;
  }

  // Takes the idle connection that was used last; null: there is none. So connections beyond the present need stay idle
  // until they exceed their maximum age. Also closes the idle connections that began with other TLS texts than
  // `credential` has.
  std::unique_ptr<Connection> TakeIdle(const CredentialSnapshot& credential) {
    const Lock lock(mutex_);
    std::erase_if(idle_, [&credential](const auto& connection) { return connection->tls() != credential.tls; });
    if (idle_.empty()) return nullptr;
    std::unique_ptr<Connection> connection = std::move(idle_.back());
    idle_.pop_back();
    return connection;
  }

  const Endpoint endpoint_;
  Clock& clock_;
  Credentials credentials_;
  Mutex mutex_;
  std::vector<std::unique_ptr<Connection>> idle_ BERTH_GUARDED_BY(mutex_);
};

}  // namespace

Expected<std::unique_ptr<Api>> MakeHttpApi(ClientConfig config, const HttpApiOptions& options) {
  Expected<ServerUrl> server = ParseServerUrl(config.server);
  if (!server) return std::unexpected(server.error().Within(config.source + ": server"));
  if (server->scheme != "https" && server->scheme != "http") {
    return Fail(
        ErrorCode::kDecode, config.source + ": server: a URL must begin with https://", "write https://HOST:PORT");
  }
  Expected<std::optional<ServerUrl>> proxy = ChooseProxy(config.proxy_url, *server, options.environment);
  if (!proxy) return std::unexpected(proxy.error().Within(config.source));
  Endpoint endpoint{.server = *server,
                    .server_name = config.tls_server_name.empty() ? server->host : config.tls_server_name,
                    .insecure_skip_verify = config.insecure_skip_tls_verify,
                    .proxy = *std::move(proxy),
                    .user_agent = options.user_agent,
                    .connect_max = options.connect_max,
                    .handshake_max = options.handshake_max};
  return std::make_unique<HttpApi>(std::move(endpoint), std::move(config), options);
}

}  // namespace berth::k8sclient
