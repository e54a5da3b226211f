// SPDX-License-Identifier: Apache-2.0
// Timestamps as the Kubernetes API writes them (RFC 3339), to and from UNIX time in milliseconds.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"

namespace berth::crds {

// "2027-01-31T12:00:00Z", with fractions of a second and offsets such as +02:00; what is finer than a millisecond is
// cut off. Errors: kInvalid, with the text quoted: malformed, no such day, a leap second, a year beyond 9999.
[[nodiscard]] Expected<std::int64_t> ParseTimestamp(std::string_view text);

// In seconds, UTC, as metav1.Time: "2027-01-31T12:00:00Z". Requires: a year from 0 to 9999.
[[nodiscard]] std::string FormatTimestamp(std::int64_t unix_ms);

// With six digits behind the second, as metav1.MicroTime, which Leases use.
[[nodiscard]] std::string FormatMicroTimestamp(std::int64_t unix_ms);

}  // namespace berth::crds
