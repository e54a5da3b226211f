// SPDX-License-Identifier: Apache-2.0
// PluginProcess: a CNI plugin as a runtime sees it: environment and stdin in, stdout, stderr and an end out.
//
// For tests that treat a plugin as a black box, badly if they like: a stdin that never ends, a reader that is gone, a
// signal in the middle. The caller's process must ignore SIGPIPE.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>

namespace berth::e2e {

enum class Stdin : std::uint8_t {
  kBytes,      // `input`, then end of file
  kNeverEnds,  // `input`, and no end of file
  kFlood,      // `input`, and the letter x until nobody reads any more
  kClosed,     // no descriptor 0
  kDirectory,  // a descriptor on which read fails
};

enum class Stdout : std::uint8_t {
  kCaptured,
  kReaderGone,  // a pipe without a reader: writing gives EPIPE
};

struct PluginCall {
  std::string binary;
  std::map<std::string, std::string> environment = {};  // nothing else is inherited
  std::string input = {};
  Stdin in = Stdin::kBytes;
  Stdout out = Stdout::kCaptured;
  std::size_t chunk_bytes = 65536;  // of input, written at a time
};

struct PluginOutcome {
  int exit_code = -1;  // -1: ended by a signal, or still running
  int signal = 0;
  bool timed_out = false;  // it had to be killed
  std::string out = {};
  std::string err = {};
  std::chrono::milliseconds took{0};
};

class PluginProcess {
 public:
  // Throws std::system_error if it cannot be started: a test cannot go on then.
  explicit PluginProcess(PluginCall call);
  PluginProcess(const PluginProcess&) = delete;
  PluginProcess& operator=(const PluginProcess&) = delete;
  // Kills it if it still runs.
  ~PluginProcess();

  [[nodiscard]] pid_t pid() const { return pid_; }

  // Whether it has not ended. May be called while another thread waits.
  [[nodiscard]] bool IsRunning() const { return !ended_; }

  // To the process alone, as runtimes do. Harmless when it has ended.
  void Signal(int number) const;

  // Waits until it reads stdin, so until its main has begun. False: it does not come to that in time.
  [[nodiscard]] bool AwaitReading(std::chrono::milliseconds limit = std::chrono::seconds(10)) const;

  // Feeds stdin and collects the streams until it has ended; kills it after `limit`. Requires: not called before.
  [[nodiscard]] PluginOutcome Wait(std::chrono::milliseconds limit = std::chrono::seconds(300));

 private:
  void Feed(std::size_t& written);

  PluginCall call_;
  std::chrono::steady_clock::time_point started_;
  pid_t pid_ = -1;
  int end_fd_ = -1;  // a pidfd: signals through it cannot reach another process that got the same number
  std::atomic<bool> ended_ = false;
  int stdin_fd_ = -1;
  int stdout_fd_ = -1;
  int stderr_fd_ = -1;
};

// Start and wait.
[[nodiscard]] PluginOutcome RunPlugin(PluginCall call, std::chrono::milliseconds limit = std::chrono::seconds(300));

}  // namespace berth::e2e
