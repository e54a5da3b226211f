// SPDX-License-Identifier: Apache-2.0
// Time on CLOCK_BOOTTIME: the clock by which all processes of a node order their calls.
#pragma once

#include <cstdint>
#include <ctime>

namespace berth::node {

// Nanoseconds on CLOCK_BOOTTIME. All processes of a node can compare these times, and the clock also counts while the
// machine is suspended.
using BootNanos = std::int64_t;
inline constexpr BootNanos kNanosPerSecond = 1'000'000'000;

[[nodiscard]] inline BootNanos BootTimeNow() {
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<BootNanos>(now.tv_sec) * kNanosPerSecond + now.tv_nsec;
}

}  // namespace berth::node
