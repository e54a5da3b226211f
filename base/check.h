// SPDX-License-Identifier: Apache-2.0
// BERTH_CHECK: assertions against programming errors, also in release builds.
//
// Never use BERTH_CHECK for data from outside (API objects, stdin, environment, files, sockets): such data causes an
// Error. If an assertion fails, the process aborts: a process with a broken invariant could give one address to two
// pods.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace berth {

[[noreturn]] inline void CheckFailed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "berth: check failed: %s at %s:%d\n", condition, file, line);
  std::abort();
}

}  // namespace berth

#define BERTH_CHECK(condition) \
  ((condition) ? static_cast<void>(0) : ::berth::CheckFailed(#condition, __FILE__, __LINE__))
