// SPDX-License-Identifier: Apache-2.0
// Figures of this process from /proc, compared with getrusage(2) and with plausible sizes.
#include "bench/process_figures.h"

#include <unistd.h>

#include <gtest/gtest.h>

namespace berth::bench {
namespace {

TEST(ProcessFigures, CpuIsThatOfGetrusageButForTheClockTick) {
  while (CpuOf(getpid()) < std::chrono::milliseconds(30)) {
  }
  EXPECT_LT(std::chrono::abs(CpuOf(getpid()) - OwnCpu()), std::chrono::milliseconds(30));
}

TEST(ProcessFigures, MemoryIsOfPlausibleSize) {
  EXPECT_GT(ResidentBytesOf(getpid()), 500'000U);
  EXPECT_LT(ResidentBytesOf(getpid()), 1'000'000'000U);
}

TEST(ProcessFigures, NoProcessHasNone) {
  constexpr pid_t kNobody = 1 << 23;  // above the kernel's largest process ID
  EXPECT_EQ(CpuOf(kNobody), std::chrono::nanoseconds(0));
  EXPECT_EQ(ResidentBytesOf(kNobody), 0U);
}

}  // namespace
}  // namespace berth::bench
