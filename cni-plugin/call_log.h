// SPDX-License-Identifier: Apache-2.0
// CallLog: one log line per call on stderr. If ipam.logFile is set, all of stderr goes to this file.
//
// Each line is one write(2) to a file opened with O_APPEND, so lines of concurrent processes do not mix. CallLog does
// not use spdlog: loading it takes longer than the whole call may take (docs/libraries.md).
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "base/error.h"
#include "cni/config.h"
#include "cni/environment.h"

namespace berth::cni_plugin {

class CallLog {
 public:
  // If `file` is empty, leaves stderr unchanged. Creates the file, and its folder if only the folder is missing. If the
  // file cannot be opened, leaves stderr unchanged, too, and writes a line about it to stderr.
  CallLog(const std::string& file, cni::LogLevel level);
  CallLog(const CallLog&) = delete;
  CallLog& operator=(const CallLog&) = delete;

  void Succeeded(const cni::Environment& environment, const cni::NetworkConfig& config, std::string_view node,
                 std::string_view attachment, std::string_view answer);
  void Failed(const cni::Environment& environment, const cni::NetworkConfig& config, const Error& error);

 private:
  void Write(cni::LogLevel level, std::string_view message, const cni::Environment& environment,
             const cni::NetworkConfig& config, std::string_view more);

  cni::LogLevel level_;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace berth::cni_plugin
