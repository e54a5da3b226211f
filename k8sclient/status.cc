// SPDX-License-Identifier: Apache-2.0
// Parses a Status, and has the table of errors.
#include "k8sclient/status.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "k8sclient/text_at.h"

namespace berth::k8sclient {
namespace {

using nlohmann::json;

// base/error.cc quotes at most 200 bytes; a message of the API server may list several CEL rules, each with field and
// remedy.
constexpr std::size_t kMessageBytesMax = 600;

// Puts another program's text on one line: control characters would break a log, and a long text would fill it.
std::string Quoted(std::string_view text) {
  std::string quoted(text.substr(0, kMessageBytesMax));
  std::ranges::replace_if(quoted, [](unsigned char c) { return c < 0x20 || c == 0x7f; }, ' ');
  while (!quoted.empty() && quoted.back() == ' ') quoted.pop_back();
  if (text.size() > kMessageBytesMax) quoted += "...";
  return quoted;
}

bool VersionTooLarge(const Status& status) {
  return std::ranges::any_of(status.causes,
                             [](const auto& cause) { return cause.reason == "ResourceVersionTooLarge"; });
}

// The error for 5xx and 408: the server may have executed a part of the request before it gave up.
ErrorCode ServerFailure(const Request& request, const Response& response, const Status& status) {
  if (response.status == 504 && VersionTooLarge(status)) return ErrorCode::kGone;
  if (MayRepeat(request, response)) return ErrorCode::kUnavailable;
  if (IsWrite(request.method)) return ErrorCode::kUnknownOutcome;
  return response.status == 504 || response.status == 408 ? ErrorCode::kTimeout : ErrorCode::kUnavailable;
}

// True if an admission webhook or policy refused the request, with any HTTP status. Source of the texts, in
// k8s.io/apiserver 0.36: pkg/admission/plugin/webhook/errors, .../policy/validating/dispatcher.go and
// .../policy/generic/policy_dispatcher.go. The author of the webhook or policy chooses the names in the message and the
// text at its end.
bool IsDeniedByAdmission(const Status& status) {
  std::string_view text = status.message;
  if (text.starts_with("admission webhook \"")) return text.find("\" denied the request") != std::string_view::npos;
  if (text.starts_with("policy ")) return text.find(" denied request: ") != std::string_view::npos;
  constexpr std::string_view kForbids = " is forbidden: ";
  const std::size_t forbids = text.find(kForbids);
  if (forbids == std::string_view::npos) return false;
  text.remove_prefix(forbids + kForbids.size());
  return text.starts_with("ValidatingAdmissionPolicy '") && text.find(" denied request: ") != std::string_view::npos;
}

// True if the server has just started, and its admission does not know all webhooks and policies yet.
bool IsAdmissionUnready(const Status& status) {
  return status.message.ends_with(" is forbidden: not yet ready to handle request");
}

ErrorCode Classify(const Request& request, const Response& response, const Status& status) {
  // With 429, a webhook says "later". With any other status, even 5xx, the webhook or policy refused the content: the
  // server wrote nothing, and will refuse the same request again.
  if (response.status != 429 && IsDeniedByAdmission(status)) return ErrorCode::kInvalid;
  if (response.status == 403 && IsAdmissionUnready(status)) return ErrorCode::kUnavailable;
  switch (response.status) {
    case 400:
    case 413:
    case 422:
      return ErrorCode::kInvalid;
    case 401:
      return ErrorCode::kUnauthenticated;
    case 403:
      return ErrorCode::kForbidden;
    case 404:
      // If the kind is missing, the answer is the mux's text "404 page not found", or a Status without an object's
      // name.
      return status.name.empty() ? ErrorCode::kNotInstalled : ErrorCode::kNotFound;
    case 409:
      return status.reason == "AlreadyExists" ? ErrorCode::kAlreadyExists : ErrorCode::kConflict;
    case 410:
      return ErrorCode::kGone;
    case 429:
      return ErrorCode::kUnavailable;
    default:
      break;
  }
  if (response.status >= 500 || response.status == 408) return ServerFailure(request, response, status);
  return ErrorCode::kInternal;
}

std::string Details(ErrorCode code, const Status& status) {
  switch (code) {
    case ErrorCode::kInvalid: {
      std::string fields;
      for (const Status::Cause& cause : status.causes) {
        if (cause.field.empty()) continue;
        fields += (fields.empty() ? "fields: " : ", ") + Quoted(cause.field);
      }
      if (fields.empty() && IsDeniedByAdmission(status))
        return "correct what the named admission policy refuses, or change the policy";
      return fields;
    }
    case ErrorCode::kUnauthenticated:
      return "the API server does not accept this certificate or token: check that it is not expired and belongs to "
             "this "
             "cluster";
    case ErrorCode::kForbidden:
      return "grant the right with a Role or ClusterRole";
    case ErrorCode::kNotInstalled:
      return "the API server does not know this kind: install berth's CRDs";
    default:
      return {};
  }
}

}  // namespace

Status ParseStatus(std::string_view body) {
  const json document = json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (TextAt(document, "kind") != "Status") return {};
  const json& details = ValueAt(document, "details");
  Status status{.reason = TextAt(document, "reason"),
                .message = TextAt(document, "message"),
                .name = TextAt(details, "name"),
                .causes = {}};
  for (const json& cause : ValueAt(details, "causes")) {
    status.causes.push_back({.reason = TextAt(cause, "reason"), .field = TextAt(cause, "field")});
  }
  return status;
}

Error ToError(const Request& request, const Response& response) {
  const Status status = ParseStatus(response.body);
  const ErrorCode code = Classify(request, response, status);
  const std::string text = Quoted(status.message.empty() ? std::string_view(response.body) : status.message);
  std::string message = std::string(ToString(request.method)) + " " + request.path + ": " +
                        std::to_string(response.status) + (text.empty() ? "" : " " + text);
  Error error{.code = code, .message = std::move(message), .details = Details(code, status)};
  if (code == ErrorCode::kUnavailable) error.retry_after = response.retry_after.value_or(std::chrono::milliseconds(0));
  return error;
}

bool MayRepeat(const Request& request, const Response& response) {
  if (!response.retry_after) return false;
  // Flow control answers 429, and a server that shuts down or is overloaded answers 503, both before a handler runs.
  if (response.status == 429 || response.status == 503) return true;
  if (IsWrite(request.method) || response.status < 500) return false;
  return !VersionTooLarge(ParseStatus(response.body));
}

}  // namespace berth::k8sclient
