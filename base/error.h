// SPDX-License-Identifier: Apache-2.0
// Error: the error type of the project. Expected<T>: what every function that can fail returns.
//
// The code says what the caller can do. The message tells people what is wrong, and in which object or field; the
// details say what to do. This file also maps each error code to a CNI error code (CNI specification, section "Error"),
// so that all programs answer in the same way.
#pragma once

#include <chrono>
#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <utility>

namespace berth {

enum class ErrorCode : std::uint8_t {
  kIncompatibleVersion,  // the CNI version is not supported, or does not have the verb
  kEnvironment,          // a CNI_* variable is missing or malformed
  kIo,                   // stdin, stdout, a local file or a socket could not be used
  kDecode,               // malformed text: JSON, kubeconfig
  kInvalid,              // input or an object breaks a rule: correct it
  kInvalidNetns,         // CNI_NETNS is this process's own network namespace
  kNotReady,             // this node cannot serve an ADD (STATUS), or a probe found a program not ready
  kNotFound,             // the object does not exist
  kAlreadyExists,        // an object with that name exists
  kConflict,             // the object has changed since it was read: read it and decide again
  kGone,                 // the resourceVersion is too old: list again
  kExhausted,            // no address is left
  kAddressTaken,         // the requested address is held, cooling, reserved, withheld or a gateway
  kNothingHeld,          // CHECK only: the attachment has no address
  kUnauthenticated,      // the API server does not accept the credentials
  kForbidden,            // RBAC or a policy of the API server refuses the request
  kNotInstalled,         // the API server does not know berth's kinds: the CRDs are missing
  kTimeout,              // the time limit has passed; nothing was changed
  kUnavailable,          // the API server cannot be reached, or asks to wait; nothing was changed
  kUnknownOutcome,       // the write may have landed, or may still land until another write changes the object
  kInternal,             // a bug, or an answer that makes no sense
};

// The CNI error code. 1 to 8, 11 and 50 as in the specification; berth's own codes: 100 exhausted, 101 address taken,
// 102 forbidden or CRDs missing, 103 nothing held, 999 internal. Codes that callers should never see (kConflict, kGone)
// map to 11.
[[nodiscard]] std::uint32_t CniCode(ErrorCode code);

// The code's name without the k, for logs: "Conflict".
[[nodiscard]] std::string_view ToString(ErrorCode code);

struct [[nodiscard]] Error {
  ErrorCode code;
  std::string message;
  // A remedy, or more about the cause; may be empty. The field "details" of a CNI error.
  std::string details = {};
  // How long the API server asked to wait (Retry-After); 0: it did not ask.
  std::chrono::milliseconds retry_after = {};

  // The same error with "context: " before the message.
  [[nodiscard]] Error Within(std::string_view context) const;

  friend bool operator==(const Error&, const Error&) = default;
};

// Quotes text from outside for messages: writes its first 200 bytes in double quotes, and "..." if there are more. Puts
// a backslash before each double quote and backslash, and writes each byte that is not printable ASCII as \xNN. The
// result is safe in JSON and on a terminal.
[[nodiscard]] std::string Quoted(std::string_view foreign);

template <typename T>
using Expected = std::expected<T, Error>;

[[nodiscard]] inline std::unexpected<Error> Fail(ErrorCode code, std::string message, std::string details = {}) {
  return std::unexpected(Error{.code = code, .message = std::move(message), .details = std::move(details)});
}

}  // namespace berth
