// SPDX-License-Identifier: Apache-2.0
// What an answer of the API server means: the one table from HTTP status and Kubernetes' Status object to an error.
//
// The status alone is not enough: a 404 is a missing object or a missing kind, a 409 a conflict or a name that is
// taken, a 504 a lost write or a resource version the server does not have. Source: apimachinery pkg/api/errors, and
// the filters of k8s.io/apiserver, which say what is refused before anything was executed.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "k8sclient/api.h"

namespace berth::k8sclient {

// The parts of a metav1.Status that matter here. Empty where the body is something else.
struct Status {
  std::string reason;
  std::string message;
  std::string name;  // details.name: the object it is about
  std::string kind;  // details.kind
  struct Cause {
    std::string reason;
    std::string field;
    std::string message;
  };
  std::vector<Cause> causes;
};

// A body that is no Status gives an empty one: proxies and the server's own mux answer in plain text.
[[nodiscard]] Status ParseStatus(std::string_view body);

// The error that an answer outside 200 to 299 means to the sender of `request`. The server's message is kept, cut.
//
// kNotFound: no such object. kNotInstalled: no such kind. kAlreadyExists, kConflict. kGone: the resource version (or
// the continue token) is too old, or the server has not reached it, as after a restored backup: list again without one.
// kInvalid: 400, 413, 422, and whatever status an admission webhook or policy refuses the content with.
// kUnauthenticated. kForbidden: a right is missing. kUnavailable: not executed, try later (429; 503 with
// Retry-After; any 5xx of a read). kTimeout: 504 of a read. kUnknownOutcome: any other 5xx or 408 of a write.
[[nodiscard]] Error ToError(const Request& request, const Response& response);

// True if the server says that it did not execute the request and when to come back: then even a write may be repeated.
[[nodiscard]] bool MayRepeat(const Request& request, const Response& response);

}  // namespace berth::k8sclient
