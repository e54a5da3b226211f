// SPDX-License-Identifier: Apache-2.0
// One program run to its end, with its output kept and its time limited.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "k8sclient/api.h"

namespace berth::k8sclient {

struct ChildCommand {
  std::string program;  // looked up in PATH if it holds no slash
  std::vector<std::string> args = {};
  std::vector<std::string> environment = {};  // "NAME=value", the whole of it
  std::size_t output_bytes_max = std::size_t{1} << 20;
};

struct ChildResult {
  int exit_code = 0;  // 128 + signal if a signal ended it
  std::string output = {};
  std::string error_output = {};  // at most its last 4 KiB
};

// Blocks. stdin is /dev/null. The program leads a process group of its own, which is killed when the time is over, when
// it printed too much, and after its end if some of it is left.
// Errors: kNotFound (there is no such program), kIo (it could not be started), kTimeout, kInvalid (it printed too
// much).
[[nodiscard]] Expected<ChildResult> RunChild(const ChildCommand& command, const CallOptions& options);

}  // namespace berth::k8sclient
