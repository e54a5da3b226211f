// SPDX-License-Identifier: Apache-2.0
// HeldFile: an open file, which the destructor closes, and the file's lock. The lock ends when the file closes or its
// process ends. This file also has the clock by which all processes of a node order their calls.
#pragma once

#include <cstdint>
#include <ctime>

#include "base/descriptor.h"
#include "base/error.h"

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

using HeldFile = Descriptor;

// Waits for the file's exclusive lock until `deadline`. A process that waits longer than 50 ms may lose its place in
// the kernel's queue. False: other processes held the lock until `deadline`. If `deadline` has passed already,
// LockExclusively does not wait. While it waits it uses SIGALRM, so only processes with one thread may wait.
// Errors: kIo.
[[nodiscard]] Expected<bool> LockExclusively(const HeldFile& file, BootNanos deadline);

}  // namespace berth::node
