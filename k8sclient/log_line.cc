// SPDX-License-Identifier: Apache-2.0
// LogToStderr: writes a line to stderr.
#include "k8sclient/log_line.h"

#include <unistd.h>

namespace berth::k8sclient {

void LogToStderr(const std::string& line) {
  const std::string whole = line + "\n";
  // One write, so that lines of several processes do not mix.
  static_cast<void>(!write(STDERR_FILENO, whole.data(), whole.size()));
}

}  // namespace berth::k8sclient
