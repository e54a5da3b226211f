// SPDX-License-Identifier: Apache-2.0
// The CNI code and the name of each error code, and a function that quotes text from outside.
#include "base/error.h"

namespace berth {

namespace {
constexpr std::uint32_t kCniTryAgainLater = 11;
constexpr std::uint32_t kCniNotInstalledOrRefused = 102;
constexpr std::uint32_t kCniNothingHeld = 103;
}  // namespace

std::uint32_t CniCode(ErrorCode code) {
  switch (code) {
    case ErrorCode::kIncompatibleVersion:
      return 1;
    case ErrorCode::kEnvironment:
      return 4;
    case ErrorCode::kIo:
      return 5;
    case ErrorCode::kDecode:
    case ErrorCode::kUnauthenticated:
      return 6;
    case ErrorCode::kInvalid:
    case ErrorCode::kNotFound:
    case ErrorCode::kAlreadyExists:
      return 7;
    case ErrorCode::kInvalidNetns:
      return 8;
    case ErrorCode::kConflict:
    case ErrorCode::kGone:
    case ErrorCode::kTimeout:
    case ErrorCode::kUnavailable:
    case ErrorCode::kUnknownOutcome:
      return kCniTryAgainLater;
    case ErrorCode::kNotReady:
      return 50;
    case ErrorCode::kExhausted:
      return 100;
    case ErrorCode::kAddressTaken:
      return 101;
    case ErrorCode::kForbidden:
    case ErrorCode::kNotInstalled:
      return kCniNotInstalledOrRefused;
    case ErrorCode::kNothingHeld:
      return kCniNothingHeld;
    case ErrorCode::kInternal:
      return 999;
  }
  return 999;
}

std::string_view ToString(ErrorCode code) {
  switch (code) {
    case ErrorCode::kIncompatibleVersion:
      return "IncompatibleVersion";
    case ErrorCode::kEnvironment:
      return "Environment";
    case ErrorCode::kIo:
      return "Io";
    case ErrorCode::kDecode:
      return "Decode";
    case ErrorCode::kInvalid:
      return "Invalid";
    case ErrorCode::kInvalidNetns:
      return "InvalidNetns";
    case ErrorCode::kNotReady:
      return "NotReady";
    case ErrorCode::kNotFound:
      return "NotFound";
    case ErrorCode::kAlreadyExists:
      return "AlreadyExists";
    case ErrorCode::kConflict:
      return "Conflict";
    case ErrorCode::kGone:
      return "Gone";
    case ErrorCode::kExhausted:
      return "Exhausted";
    case ErrorCode::kAddressTaken:
      return "AddressTaken";
    case ErrorCode::kNothingHeld:
      return "NothingHeld";
    case ErrorCode::kUnauthenticated:
      return "Unauthenticated";
    case ErrorCode::kForbidden:
      return "Forbidden";
    case ErrorCode::kNotInstalled:
      return "NotInstalled";
    case ErrorCode::kTimeout:
      return "Timeout";
    case ErrorCode::kUnavailable:
      return "Unavailable";
    case ErrorCode::kUnknownOutcome:
      return "UnknownOutcome";
    case ErrorCode::kInternal:
      return "Internal";
  }
  return "Internal";
}

Error Error::Within(std::string_view context) const {
  Error with_context = *this;
  with_context.message = std::string(context) + ": " + message;
  return with_context;
}

std::string Quoted(std::string_view foreign) {
  constexpr std::size_t kBytesMax = 200;
  constexpr std::string_view kHexDigits = "0123456789abcdef";
  constexpr unsigned kHexDigitBits = 4;
  std::string quoted = "\"";
  for (const char c : foreign.substr(0, kBytesMax)) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (c >= ' ' && c <= '~') {
      quoted += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      quoted += "\\x";
      quoted += kHexDigits[byte >> kHexDigitBits];
      quoted += kHexDigits[byte & 0xfU];
    }
  }
  return quoted + (foreign.size() > kBytesMax ? "...\"" : "\"");
}

}  // namespace berth
