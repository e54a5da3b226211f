// SPDX-License-Identifier: Apache-2.0
// For tests only: TestDisk counts the calls of fdatasync(2), and can make them fail. It can also make each write(2) to
// the folder of a journal or below the run folder fail. journal_test.cc replaces the C library's functions.
#pragma once

#include <atomic>

namespace berth::agent {

struct TestDisk {
  static inline std::atomic<bool> syncs_fail = false;
  static inline std::atomic<bool> is_full = false;      // each write in the folder of a journal fails with ENOSPC
  static inline std::atomic<bool> is_run_full = false;  // each write to a file below AgentTest::run_dir() fails
  static inline std::atomic<int> syncs = 0;
};

}  // namespace berth::agent
