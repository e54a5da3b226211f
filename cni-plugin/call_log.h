// SPDX-License-Identifier: Apache-2.0
// CallLog: one line per call for the person on call, to stderr; with ipam.logFile, all of stderr goes there.
//
// Written with one write(2) to a file opened for appending, so that lines of processes that run at once do not mix. Not
// spdlog: loading it takes longer than this plugin may take for everything (docs/libraries.md).
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
  // Empty file: stderr as it is. So too where it cannot be opened, and stderr says so.
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
