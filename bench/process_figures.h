// SPDX-License-Identifier: Apache-2.0
// CPU time and memory of a process, from the kernel (proc(5)).
#pragma once

#include <chrono>
#include <cstddef>
#include <sys/types.h>

namespace berth::bench {

// User and system time of all threads of the process, in steps of the kernel's clock tick (10 ms). Zero if there is no
// such process.
[[nodiscard]] std::chrono::nanoseconds CpuOf(pid_t pid);

// Zero if there is no such process.
[[nodiscard]] std::size_t ResidentBytesOf(pid_t pid);

// CPU time of this process (OwnCpu), and of all processes that it has started and waited for (ChildrenCpu); exact.
[[nodiscard]] std::chrono::nanoseconds OwnCpu();
[[nodiscard]] std::chrono::nanoseconds ChildrenCpu();

}  // namespace berth::bench
