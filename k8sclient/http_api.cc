// SPDX-License-Identifier: Apache-2.0
// HttpApi: connections kept for reuse, credentials, and the few cases in which a request is sent again.
#include "k8sclient/http_api.h"

#include <algorithm>
#include <mutex>
#include <vector>

#include "k8sclient/connection.h"
#include "k8sclient/credentials.h"
#include "k8sclient/status.h"

namespace berth::k8sclient {
namespace {

using ipam::Error;
using ipam::ErrorCode;
using ipam::Expected;
using ipam::Fail;

constexpr std::size_t kIdleConnectionsMax = 8;
constexpr int kRepeatsMax = 10;

Endpoint MakeEndpoint(const ClientConfig& config, const HttpApiOptions& options) {
  Endpoint endpoint{.server = config.server,
                    .tls_server_name = config.tls_server_name,
                    .insecure_skip_tls_verify = config.insecure_skip_tls_verify,
                    .proxy = config.proxy_url,
                    .user_agent = options.user_agent,
                    .connect_max = options.connect_max};
  if (!endpoint.proxy.empty()) return endpoint;
  // Without one in the kubeconfig the environment decides, by the rules of Go's net/http, which never uses a proxy for
  // the machine itself.
  const auto either = [&options](const char* upper, const char* lower) {
    const std::string value = options.environment(upper);
    return value.empty() ? options.environment(lower) : value;
  };
  endpoint.proxy =
      config.server.starts_with("https://") ? either("HTTPS_PROXY", "https_proxy") : either("HTTP_PROXY", "http_proxy");
  const std::string listed = either("NO_PROXY", "no_proxy");
  endpoint.no_proxy = "localhost,127.0.0.0/8,::1" + (listed.empty() ? "" : "," + listed);
  return endpoint;
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
  State(ClientConfig config, const HttpApiOptions& options)
      : endpoint_(MakeEndpoint(config, options)),
        clock_(*options.clock),
        credentials_(std::move(config), options.read_file, clock_) {}

  Expected<Response> Call(const Request& request, const CallOptions& options) {
    const ExchangeLimits limits{.deadline = options.deadline, .stop = options.stop};
    bool read_again = false;
    for (int repeats = 0;; ++repeats) {
      ExchangeResult result = Authenticated(request, options, limits, nullptr);
      if (!result.response && result.broke && !read_again && !IsWrite(request.method)) {
        read_again = true;
        continue;
      }
      if (!result.response || repeats >= kRepeatsMax || !MayRepeat(request, *result.response)) {
        return std::move(result.response);
      }
      // A little later than asked, so that those who were refused together do not come back together.
      const auto wait = std::chrono::duration_cast<std::chrono::milliseconds>(*result.response->retry_after *
                                                                              (1 + clock_.Random() / 4));
      if (clock_.Now() + wait >= options.deadline || !clock_.Sleep(wait, options.stop))
        return std::move(result.response);
    }
  }

  Expected<Response> Watch(const Request& request, const WatchOptions& options, const WatchSink& sink) {
    const StreamTo stream{.sink = sink, .line_bytes_max = options.line_bytes_max};
    const ExchangeLimits limits{.idle_max = options.idle_max, .stop = options.stop};
    return Authenticated(request, {.stop = options.stop}, limits, &stream).response;
  }

 private:
  // Sends the request, and once more with credentials read anew if the server does not accept the first ones: a request
  // that was answered with 401 was not executed.
  ExchangeResult Authenticated(const Request& request, const CallOptions& options, const ExchangeLimits& limits,
                               const StreamTo* stream) {
    auto credential = credentials_.Current(options);
    if (!credential) return {.response = std::unexpected(std::move(credential.error()))};
    ExchangeResult result = OneExchange(request, *credential, limits, stream);
    if (!result.response || result.response->status != 401) return result;
    credentials_.Reject(**credential);
    auto renewed = credentials_.Current(options);
    if (!renewed) return {.response = std::unexpected(std::move(renewed.error()))};
    if ((*renewed)->serial == (*credential)->serial) return result;
    return OneExchange(request, *renewed, limits, stream);
  }

  ExchangeResult OneExchange(const Request& request, const std::shared_ptr<const CredentialSnapshot>& credential,
                             const ExchangeLimits& limits, const StreamTo* stream) {
    std::unique_ptr<Connection> connection = Take(credential);
    ExchangeResult result = connection->Exchange(request, *credential, limits, stream);
    GiveBack(std::move(connection), credential->tls_serial);
    return result;
  }

  // The connection used last is taken first: the others grow old and are closed.
  std::unique_ptr<Connection> Take(const std::shared_ptr<const CredentialSnapshot>& credential) {
    {
      const std::lock_guard lock(mutex_);
      if (!idle_.empty() && idle_.back()->tls_serial() < credential->tls_serial) idle_.clear();
      if (!idle_.empty() && idle_.back()->tls_serial() == credential->tls_serial) {
        std::unique_ptr<Connection> connection = std::move(idle_.back());
        idle_.pop_back();
        return connection;
      }
    }
    return std::make_unique<Connection>(endpoint_, credential);
  }

  void GiveBack(std::unique_ptr<Connection> connection, std::uint64_t tls_serial) {
    const std::lock_guard lock(mutex_);
    const bool outdated = !idle_.empty() && idle_.back()->tls_serial() != tls_serial;
    if (!outdated && idle_.size() < kIdleConnectionsMax) idle_.push_back(std::move(connection));
  }

  const Endpoint endpoint_;
  Clock& clock_;
  Credentials credentials_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Connection>> idle_;  // guarded by mutex_; all of one tls_serial
};

HttpApi::HttpApi(std::unique_ptr<State> state) : state_(std::move(state)) {}
HttpApi::~HttpApi() = default;

Expected<std::unique_ptr<HttpApi>> HttpApi::Make(ClientConfig config, HttpApiOptions options) {
  if (!config.server.starts_with("https://") && !config.server.starts_with("http://")) {
    return Fail(ErrorCode::kDecode,
                config.source + ": \"" + config.server.substr(0, 200) + "\" is not the URL of an API server",
                "write https://HOST:PORT");
  }
  return std::unique_ptr<HttpApi>(new HttpApi(std::make_unique<State>(std::move(config), options)));
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
