// SPDX-License-Identifier: Apache-2.0
// ToError: the one table that turns an answer of the API server (HTTP status and Status object) into an error.
//
// The HTTP status alone is not enough. 404 means a missing object or a missing kind; 409 a conflict or a name that is
// in use; 504 a lost write or a resourceVersion that the server does not have. Source: apimachinery pkg/api/errors, and
// the filters of k8s.io/apiserver, which refuse requests before the server executes them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "k8sclient/api.h"

namespace berth::k8sclient {

// The parts of a metav1.Status that ToError uses. A part that the body lacks is empty.
struct Status {
  std::string reason;
  std::string message;
  std::string name;  // details.name: the name of the object
  struct Cause {
    std::string reason;
    std::string field;
  };
  std::vector<Cause> causes;
};

// If the body is not a Status, returns an empty Status: proxies and the API server's own HTTP mux answer in plain text.
[[nodiscard]] Status ParseStatus(std::string_view body);

// The error for the sender of `request` if the answer's status is not 200 to 299. The error contains the first 600
// bytes of the server's message.
//
// kNotFound: no such object. kNotInstalled: no such kind. kAlreadyExists, kConflict. kGone: the resourceVersion (or the
// continue token) is too old, or the server has not reached it, as after a restored backup: list again without a
// version. kInvalid: 400, 413, 422, and a refusal by an admission webhook or policy with any status but 429.
// kUnauthenticated. kForbidden: a right is missing. kUnavailable: nothing was changed, try later (429; 503 with
// Retry-After; any 5xx of a read but a 504 without Retry-After; admission that is not ready). kTimeout: 504 without
// Retry-After, or 408, of a read. kUnknownOutcome: any other 5xx or 408 of a write. kInternal: any other status.
[[nodiscard]] Error ToError(const Request& request, const Response& response);

// True if the answer has Retry-After and the client may send the request again: any request after 429 or 503, because
// the server did not execute it, and a read after any 5xx. False for a read of a version that the server has not
// reached.
[[nodiscard]] bool MayRepeat(const Request& request, const Response& response);

}  // namespace berth::k8sclient
