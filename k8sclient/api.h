// SPDX-License-Identifier: Apache-2.0
// Api: sends single requests and watches to an API server.
//
// MakeHttpApi makes an Api for a real API server; tests use simulated Apis. If the server answers, with any HTTP
// status, the result is a Response. status.h turns a refusal into an Error, so real and simulated servers share one
// table. An Error from an Api means that no complete answer came, and its code says whether the request can have
// changed anything.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace berth::k8sclient {

enum class Method : std::uint8_t { kGet, kPost, kPatch, kDelete };

// "GET", for messages and for the wire.
[[nodiscard]] constexpr std::string_view ToString(Method method) {
  constexpr std::array<std::string_view, 4> kNames = {"GET", "POST", "PATCH", "DELETE"};
  return kNames.at(static_cast<std::size_t>(method));
}

// True if the method can change the server's state. If the answer to a write is lost, the error is kUnknownOutcome.
[[nodiscard]] constexpr bool IsWrite(Method method) { return method != Method::kGet; }

// Names and values, not percent-encoded.
using Query = std::vector<std::pair<std::string, std::string>>;

inline constexpr std::string_view kJson = "application/json";
inline constexpr std::string_view kMergePatch = "application/merge-patch+json";
// Request::accept of a caller that needs only the metadata of one object, or of a list.
inline constexpr std::string_view kPartialMetadata = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
inline constexpr std::string_view kPartialMetadataList =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

// Limit of one object in an answer. etcd limits a stored object to 1.5 MiB, and the API server writes some characters
// (<, > and &) as six bytes in JSON. With a smaller limit, one large pod would end every watch and every list of pods.
inline constexpr std::size_t kObjectBytesMax = std::size_t{16} << 20;

struct Request {
  Method method = Method::kGet;
  std::string path;  // absolute, segments percent-encoded: "/apis/ipam.berth.dev/v1alpha1/ippools/web"
  Query query = {};
  std::string body = {};
  std::string_view content_type = kJson;  // type of the body; points to static text
  std::string_view accept = kJson;        // points to static text
  std::size_t response_bytes_max = kObjectBytesMax;
};

struct Response {
  int status = 0;
  std::string body = {};
  // Retry-After, if the server sent one.
  std::optional<std::chrono::milliseconds> retry_after = {};
  // Header Date: the server's wall clock when the answer began, rounded down to seconds. Empty: no valid Date came.
  std::optional<std::chrono::sys_seconds> date = {};

  [[nodiscard]] bool ok() const { return status >= 200 && status < 300; }
};

// Takes the body of a successful answer in pieces of any size. A view is valid during the call only. If the sink
// returns false, the call ends.
using BodySink = std::function<bool(std::string_view piece)>;

// Says when a call must end, and where its answer goes.
struct CallOptions {
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  std::stop_token stop = {};
  // If set, the sink gets the body of a successful answer, which may have any length and is never in memory as a whole.
  // An Api that has the whole answer at once may leave it in the Response instead. If the connection breaks after the
  // sink got a piece, the Api does not send the request again.
  BodySink body = {};
  // If set, the call ends with kTimeout when no data arrives for this long after the request was sent.
  std::optional<std::chrono::milliseconds> idle_max = {};

  [[nodiscard]] static CallOptions Within(std::chrono::milliseconds limit, std::stop_token stop = {}) {
    return {.deadline = std::chrono::steady_clock::now() + limit, .stop = std::move(stop)};
  }
};

struct WatchOptions {
  // If the server sends nothing for this long, the watch ends with kTimeout. A live server sends at least one bookmark
  // a minute.
  std::chrono::milliseconds idle_max = std::chrono::minutes(3);
  std::size_t line_bytes_max = kObjectBytesMax;
  std::stop_token stop = {};
};

// Takes each line of the stream: one JSON document, without the newline. The view is valid during the call only. If the
// sink returns false, the watch returns as if the server had ended the stream.
using WatchSink = std::function<bool(std::string_view line)>;

class Api {
 public:
  Api() = default;
  Api(const Api&) = delete;
  Api& operator=(const Api&) = delete;
  virtual ~Api() = default;

  // Sends one request and waits for the whole answer. Several threads may call at once. Requires a path as Path and
  // ObjectPath (verbs.h) make it.
  //
  // Errors: kUnavailable (the server did not execute the request, or the request is a read and got no answer), kTimeout
  // (the same, because of deadline or stop), kUnknownOutcome (the server may have received a write, and no answer
  // came), kUnauthenticated or kDecode (the credentials are missing or cannot be used), kInternal (the answer to a read
  // is not HTTP, or too large).
  [[nodiscard]] virtual Expected<Response> Call(const Request& request, const CallOptions& options) = 0;

  // Sends a GET, whose query must contain watch=true, and passes line after line to the sink until the server ends the
  // stream, the sink returns false, or something fails. If the server refuses the watch, the Response contains the
  // refusal. If the stream began and ended in order, the Response is 200 with an empty body.
  //
  // Errors: kTimeout (idle, or stop), kUnavailable (no connection, or the stream broke), kInternal (the answer is not
  // HTTP, or a line is too long), and the errors of Call for credentials.
  [[nodiscard]] virtual Expected<Response> Watch(const Request& request, const WatchOptions& options,
                                                 const WatchSink& sink) = 0;
};

}  // namespace berth::k8sclient
