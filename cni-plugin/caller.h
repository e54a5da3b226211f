// SPDX-License-Identifier: Apache-2.0
// Caller: whether the process that waits for an ADD's answer is still there (docs/agent-protocol.md).
//
// Runtimes end a call that takes too long with SIGKILL to the interface plugin only; its IPAM plugin lives on with
// another parent. Two signs are looked at, because each is blind where the other sees: the parent's process ID says
// nothing if the parent died before the first look (process 1 may be the real parent, or the adopter of an orphan), and
// a pipe without a reader is there to see from the first moment on, but stdout may be a file. Not PR_SET_PDEATHSIG: it
// has the same gap at the start, fires when the *thread* that started the plugin ends, which in Go is no sign of
// anything, and would kill a process that still has something to give back.
#pragma once

#include <unistd.h>

namespace berth::cni_plugin {

class Caller {
 public:
  // To be called as early as possible.
  Caller() : parent_(getppid()) {}

  [[nodiscard]] bool IsGone() const;

 private:
  pid_t parent_;
};

}  // namespace berth::cni_plugin
