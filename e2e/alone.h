// SPDX-License-Identifier: Apache-2.0
// IsAlone: whether tests check times that berth promises to users. BERTH_ALONE=1 says that the machine does nothing
// else (see also `promptly` in e2e/checks.sh).
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdlib>

namespace berth::e2e {

[[nodiscard]] inline bool IsAlone() {
  const char* const alone = std::getenv("BERTH_ALONE");  // NOLINT(concurrency-mt-unsafe): tests do not set variables
  return alone != nullptr && *alone != '\0';
}

// The limit for a time that berth promises: at least 60 s if the machine is busy.
[[nodiscard]] inline std::chrono::milliseconds Promised(std::chrono::milliseconds time) {
  return IsAlone() ? time : std::max(time, std::chrono::milliseconds(std::chrono::minutes(1)));
}

}  // namespace berth::e2e
