// SPDX-License-Identifier: Apache-2.0
// Deadline: a time on CLOCK_BOOTTIME, by which all processes of a node order their calls, with conversion for poll(2).
#pragma once

#include <algorithm>
#include <chrono>
#include <compare>
#include <cstdint>
#include <ctime>

#include <climits>

namespace berth::cni_plugin {

// Nanoseconds since boot, including suspended time.
[[nodiscard]] inline std::int64_t BootNanosNow() {
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return std::chrono::nanoseconds(std::chrono::seconds(now.tv_sec)).count() + now.tv_nsec;
}

class Deadline {
 public:
  explicit Deadline(std::int64_t boot_nanos) : nanos_(boot_nanos) {}
  [[nodiscard]] static Deadline After(std::int64_t boot_nanos, std::chrono::nanoseconds duration) {
    return Deadline(boot_nanos + duration.count());
  }
  [[nodiscard]] static Deadline In(std::chrono::nanoseconds duration) { return After(BootNanosNow(), duration); }

  [[nodiscard]] std::chrono::nanoseconds Left() const {
    return std::chrono::nanoseconds(std::max<std::int64_t>(nanos_ - BootNanosNow(), 0));
  }
  [[nodiscard]] std::int64_t boot_nanos() const { return nanos_; }
  [[nodiscard]] bool Passed() const { return Left().count() == 0; }
  // Milliseconds left, rounded up. If they were rounded down, the last fraction of a millisecond would become 0, and a
  // caller would call poll(2) in a busy loop.
  [[nodiscard]] int PollMillis() const {
    const auto millis = std::chrono::ceil<std::chrono::milliseconds>(Left()).count();
    return static_cast<int>(std::min<std::int64_t>(millis, INT_MAX));
  }

  friend auto operator<=>(const Deadline&, const Deadline&) = default;

 private:
  std::int64_t nanos_;
};

}  // namespace berth::cni_plugin
