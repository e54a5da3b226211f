// SPDX-License-Identifier: Apache-2.0
// MakeHttpApi: the Api over HTTPS.
//
// The Api uses HTTP/1.1 with one request at a time on a connection, because a lost connection then leaves exactly one
// request in doubt. It keeps up to eight idle connections for later calls, and closes them when a request ends at its
// time limit without a byte of an answer for four seconds. If the server tells the client to wait (429 or 503 with
// Retry-After: not executed; any 5xx with Retry-After for a read), the Api repeats the request up to 10 times while the
// deadline allows. After a 401, the Api reads the credentials again; if they have changed, it repeats the request once.
// If the connection of a read broke, the Api repeats the read once. The Api never repeats a write that the server may
// have executed.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "base/error.h"
#include "k8sclient/api.h"
#include "k8sclient/client_config.h"
#include "k8sclient/clock.h"

namespace berth::k8sclient {

struct HttpApiOptions {
  std::string user_agent = "berth";
  std::chrono::milliseconds connect_max = std::chrono::seconds(5);  // TCP and proxy
  // TLS, after connecting. A server that has just started again shakes hands with all its clients at once. A client
  // that gives up and begins again only adds work.
  std::chrono::milliseconds handshake_max = std::chrono::seconds(15);
  Clock* clock = &RealClock();  // must outlive the Api
  ReadFile read_file = ReadWholeFile;
  GetEnvironment environment = ProcessEnvironment;
  LogLine log = LogToStderr;  // called from any thread
};

// Reads no file and opens no connection: the first call does both, and returns their errors.
// Errors: kDecode (the configuration cannot be used at all, for example if its server is not a URL).
[[nodiscard]] Expected<std::unique_ptr<Api>> MakeHttpApi(ClientConfig config, const HttpApiOptions& options = {});

}  // namespace berth::k8sclient
