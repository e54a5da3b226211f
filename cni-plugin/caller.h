// SPDX-License-Identifier: Apache-2.0
// Caller: finds out whether the process that waits for an ADD's answer still exists (docs/agent-protocol.md).
//
// If a call takes too long, runtimes kill only the interface plugin (SIGKILL). The IPAM plugin then continues with
// another parent. Caller checks two things, because each check misses some cases. First check: the parent's process ID
// has changed. This check misses a parent that died before this process first read the ID: if the ID is 1, process 1
// may be the real parent, or may have adopted an orphan. Second check: stdout is a pipe without a reader. This check
// misses nothing at the start, but stdout may be a file. PR_SET_PDEATHSIG cannot be used: it misses the same deaths at
// the start; it also fires when the *thread* that started the plugin ends, which means nothing in Go; and it would kill
// a process that still has to free an address.
#pragma once

#include <unistd.h>

namespace berth::cni_plugin {

class Caller {
 public:
  // Construct as early as possible in the process.
  Caller() : parent_(getppid()) {}

  [[nodiscard]] bool IsGone() const;

 private:
  pid_t parent_;
};

}  // namespace berth::cni_plugin
