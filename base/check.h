// SPDX-License-Identifier: Apache-2.0
// BERTH_CHECK: assertions against programmers' errors, on in release builds too.
//
// Never for data from outside (API objects, stdin, environment, files, sockets): those give an Error. A process that
// computes with a broken invariant could hand out an address twice, so it ends instead.
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
