// SPDX-License-Identifier: Apache-2.0
// HttpApi: the Api over HTTPS.
//
// HTTP/1.1, one request at a time on a connection, idle connections kept for the next call; no HTTP/2, because with one
// request per connection a lost connection leaves exactly one in doubt. A call that was told to wait (429, or 503 with
// Retry-After: not executed) is repeated up to 10 times while its deadline allows; a 401 once, with credentials read
// anew; a read once more after its connection broke. A write is never sent again once the server can have had it.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "base/error.h"
#include "k8sclient/api.h"
#include "k8sclient/client_config.h"
#include "k8sclient/clock.h"
#include "k8sclient/log_line.h"

namespace berth::k8sclient {

struct HttpApiOptions {
  std::string user_agent = "berth";
  std::chrono::milliseconds connect_max = std::chrono::seconds(5);  // TCP and proxy
  // TLS, after that. A server that has just come back shakes hands with all its clients at once; whoever
  // gives up and begins anew only makes its work longer.
  std::chrono::milliseconds handshake_max = std::chrono::seconds(15);
  Clock* clock = &RealClock();  // must outlive the HttpApi
  ReadFile read_file = ReadWholeFile;
  GetEnvironment environment = ProcessEnvironment;
  LogLine log = LogToStderr;  // any thread
};

class HttpApi final : public Api {
 public:
  // Reads no file and opens no connection: both happen in the first call, and so do their errors.
  // Errors: kDecode if the configuration cannot be used at all (a server that is no URL).
  [[nodiscard]] static Expected<std::unique_ptr<HttpApi>> Make(ClientConfig config, const HttpApiOptions& options = {});
  ~HttpApi() override;

  [[nodiscard]] Expected<Response> Call(const Request& request, const CallOptions& options) override;
  [[nodiscard]] Expected<Response> Watch(const Request& request, const WatchOptions& options,
                                         const WatchSink& sink) override;

 private:
  class State;
  explicit HttpApi(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace berth::k8sclient
