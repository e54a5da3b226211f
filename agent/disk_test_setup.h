// SPDX-License-Identifier: Apache-2.0
// For tests only: TestDisk counts the calls of fdatasync(2), and can make them fail. journal_test.cc replaces the C
// library's function.
#pragma once

#include <atomic>

namespace berth::agent {

struct TestDisk {
  static inline std::atomic<bool> syncs_fail = false;
  static inline std::atomic<int> syncs = 0;
};

}  // namespace berth::agent
