// SPDX-License-Identifier: Apache-2.0
// Api: what berth needs of an API server, one request or one watch at a time.
//
// HttpApi is the real one; a simulated API server is another. An answer of the server, of whatever status, is a
// Response: status.h turns it into an error, so that the real server and a simulated one share one table. An Error from
// here means that there was no complete answer, and its code says whether anything can have happened.
#pragma once

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

enum class Method : std::uint8_t { kGet, kPost, kPut, kPatch, kDelete };

// "GET", for messages and for the wire.
[[nodiscard]] std::string_view ToString(Method method);

// Whether the method can change the server's state: then a lost answer is kUnknownOutcome.
[[nodiscard]] constexpr bool IsWrite(Method method) { return method != Method::kGet; }

// Name and value as they are, not percent-encoded.
using Query = std::vector<std::pair<std::string, std::string>>;

inline constexpr std::string_view kJson = "application/json";
inline constexpr std::string_view kMergePatch = "application/merge-patch+json";
// What to accept for one object, or for a list, of which only the metadata is needed.
inline constexpr std::string_view kPartialMetadata = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
inline constexpr std::string_view kPartialMetadataList =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

// One object is at most 1.5 MiB in etcd.
inline constexpr std::size_t kObjectBytesMax = std::size_t{4} << 20;

struct Request {
  Method method = Method::kGet;
  std::string path;  // absolute, segments percent-encoded: "/apis/ipam.berth.dev/v1alpha1/ippools/web"
  Query query = {};
  std::string body = {};
  std::string_view content_type = kJson;  // of the body; points to static text
  std::string_view accept = kJson;        // points to static text
  std::size_t response_bytes_max = kObjectBytesMax;
};

struct Response {
  int status = 0;
  std::string body = {};
  // Retry-After, if the server sent one.
  std::optional<std::chrono::milliseconds> retry_after = {};
  // Date: the server's wall clock when it began to answer, rounded down to seconds. Empty: none was sent or understood.
  std::optional<std::chrono::sys_seconds> date = {};

  [[nodiscard]] bool ok() const { return status >= 200 && status < 300; }
};

// Called with the body of a successful answer as it comes, in pieces of any size; a view lives during the call only.
// false ends the answer.
using BodySink = std::function<bool(std::string_view piece)>;

// When a call must be over, by whatever means, and where its answer goes.
struct CallOptions {
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  std::stop_token stop = {};
  // Set: an answer of any length, which never stands in memory as a whole. An Api that has it all at once may leave it
  // in the Response. What broke after a piece was handed over is not sent again.
  BodySink body = {};

  [[nodiscard]] static CallOptions Within(std::chrono::milliseconds limit, std::stop_token stop = {}) {
    return {.deadline = std::chrono::steady_clock::now() + limit, .stop = std::move(stop)};
  }
};

struct WatchOptions {
  // A watch on which nothing came for that long, not even a bookmark (the server sends one a minute), is dead:
  // kTimeout.
  std::chrono::milliseconds idle_max = std::chrono::minutes(3);
  std::size_t line_bytes_max = kObjectBytesMax;
  std::stop_token stop = {};
};

// Called with each line of the stream, one JSON document, without the newline; the view lives during the call only.
// false ends the watch, which then returns as if the server had ended it.
using WatchSink = std::function<bool(std::string_view line)>;

class Api {
 public:
  Api() = default;
  Api(const Api&) = delete;
  Api& operator=(const Api&) = delete;
  virtual ~Api() = default;

  // Sends one request and waits for the whole answer. Any thread may call, several at once.
  //
  // Errors: kUnavailable (not executed, or a read without an answer), kTimeout (deadline or stop; likewise),
  // kUnknownOutcome (a write that the server can have had and whose answer did not come), kUnauthenticated or kDecode
  // (no credentials to send), kInvalid (the path is none), kInternal (a read whose answer is not HTTP or too large).
  [[nodiscard]] virtual Expected<Response> Call(const Request& request, const CallOptions& options) = 0;

  // Sends a GET with watch=true (which the caller puts into the query) and hands over line after line until the server
  // ends the stream, the sink says false, or something fails. A refusal comes back as a Response with its body; after a
  // stream that began and was ended in order the Response is 200 with an empty body.
  //
  // Errors: kTimeout (idle, or stop), kUnavailable (the stream broke), kInternal (a line is too long), and those of
  // Call for credentials.
  [[nodiscard]] virtual Expected<Response> Watch(const Request& request, const WatchOptions& options,
                                                 const WatchSink& sink) = 0;
};

}  // namespace berth::k8sclient
