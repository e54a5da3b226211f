// SPDX-License-Identifier: Apache-2.0
// Timestamps in the form of the Kubernetes API (RFC 3339), from and to UNIX time in milliseconds.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"

namespace berth {

// Parses "2027-01-31T12:00:00Z", also with fractions of a second and offsets such as +02:00. Cuts digits after the
// millisecond. Errors: kInvalid, with the quoted text: malformed, no such day, a leap second, a year after 9999.
[[nodiscard]] Expected<std::int64_t> ParseTimestamp(std::string_view text);

// UTC with seconds, like metav1.Time: "2027-01-31T12:00:00Z". Requires: a year from 0 to 9999.
[[nodiscard]] std::string FormatTimestamp(std::int64_t unix_ms);

// Like FormatTimestamp, with six digits after the second, like metav1.MicroTime in Leases.
[[nodiscard]] std::string FormatMicroTimestamp(std::int64_t unix_ms);

}  // namespace berth
