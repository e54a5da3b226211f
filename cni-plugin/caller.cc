// SPDX-License-Identifier: Apache-2.0
// Checks the parent's process ID, and the reading end of stdout.
#include "cni-plugin/caller.h"

#include <poll.h>

namespace berth::cni_plugin {

bool Caller::IsGone() const {
  if (getppid() != parent_) return true;
  // poll(2) always reports POLLERR. For a pipe, POLLERR means that the last reader has closed it.
  pollfd output{.fd = STDOUT_FILENO, .events = 0, .revents = 0};
  return poll(&output, 1, 0) == 1 && (output.revents & POLLERR) != 0;
}

}  // namespace berth::cni_plugin
