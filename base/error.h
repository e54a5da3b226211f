// SPDX-License-Identifier: Apache-2.0
// Error: the one error type of the project, and Expected<T>, what every call that can fail returns.
//
// The code tells what the caller can do; the message tells a person what is wrong, in which object or field, and what
// to do about it. Which CNI error code (SPEC section "Error") each code becomes is decided here as well, so that every
// program answers the same.
#pragma once

#include <chrono>
#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <utility>

namespace berth {

enum class ErrorCode : std::uint8_t {
  kIncompatibleVersion,  // CNI version not supported, or verb not defined in it
  kEnvironment,          // a CNI_* variable is missing or malformed
  kIo,                   // stdin, stdout or a local file could not be read or written
  kDecode,               // text that is not what it should be: JSON, kubeconfig
  kInvalid,              // input or object that breaks a rule: fix the input
  kInvalidNetns,         // CNI_NETNS is this process's own network namespace
  kNotReady,             // STATUS only: this node cannot serve an ADD
  kNotFound,             // the object does not exist
  kAlreadyExists,        // an object of that name exists
  kConflict,             // the object changed since it was read: read, decide again
  kGone,                 // the resource version is too old: list again
  kExhausted,            // no address is left
  kAddressTaken,         // the requested address is held, reserved or withheld
  kNothingHeld,          // CHECK only: the attachment has no address
  kUnauthenticated,      // the API server does not know who we are
  kForbidden,            // the API server's RBAC or a policy refuses
  kNotInstalled,         // the API server does not know our kinds: the CRDs are missing
  kTimeout,              // time was over; nothing was changed
  kUnavailable,          // the API server or the network is away, or asks to wait; nothing was changed
  kUnknownOutcome,       // the write may have happened or may still: settle it by a changing write
  kInternal,             // a bug or an answer that makes no sense
};

// The CNI error code: 1 to 8, 11 and 50 as in the specification, 100 and above ours: 100 exhausted, 101 address taken,
// 102 RBAC or CRDs missing, 103 nothing held, 999 internal. Codes that a caller never sees in the end (conflict, gone)
// map to 11.
[[nodiscard]] std::uint32_t CniCode(ErrorCode code);

// The name without the k, for logs: "Conflict".
[[nodiscard]] std::string_view ToString(ErrorCode code);

struct [[nodiscard]] Error {
  ErrorCode code;
  std::string message;
  // What to do about it, or more about the cause; may be empty. Shown as "details" in a CNI error.
  std::string details = {};
  // How long the server asked to wait (Retry-After); 0 when it did not.
  std::chrono::milliseconds retry_after = {};

  // The same error with "context: " before the message.
  [[nodiscard]] Error Within(std::string_view context) const;

  friend bool operator==(const Error&, const Error&) = default;
};

// Text from outside as it stands in messages: in double quotes, at most 200 bytes of it (then "..."), everything but
// printable ASCII as \xNN, so that a message can go into JSON and a terminal whatever the text was.
[[nodiscard]] std::string Quoted(std::string_view foreign);

template <typename T>
using Expected = std::expected<T, Error>;

[[nodiscard]] inline std::unexpected<Error> Fail(ErrorCode code, std::string message, std::string details = {}) {
  return std::unexpected(Error{.code = code, .message = std::move(message), .details = std::move(details)});
}

}  // namespace berth
