// SPDX-License-Identifier: Apache-2.0
// RunChild: runs one program to its end, keeps its output, and limits its time and its output.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "k8sclient/api.h"

namespace berth::k8sclient {

struct ChildCommand {
  std::string program;  // searched in PATH if it contains no slash
  std::vector<std::string> args = {};
  std::vector<std::string> environment = {};  // "NAME=value"; nothing is inherited
  std::size_t output_bytes_max = std::size_t{1} << 20;
};

struct ChildResult {
  int exit_code = 0;  // 128 + signal number if a signal ended the program
  std::string output = {};
  std::string error_output = {};  // the last 4 KiB of stderr
};

// Blocks until the program has ended. The program's stdin is /dev/null. The program leads a process group of its own.
// RunChild kills the whole group at the deadline or a stop, when the program has printed too much, and when the program
// has ended, because children of the program may be left.
// Errors: kNotFound (no such program), kIo (the program could not be started), kTimeout (deadline or stop), kInvalid
// (the program printed more than output_bytes_max bytes).
[[nodiscard]] Expected<ChildResult> RunChild(const ChildCommand& command, const CallOptions& options);

}  // namespace berth::k8sclient
