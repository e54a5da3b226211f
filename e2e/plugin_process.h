// SPDX-License-Identifier: Apache-2.0
// PluginProcess: runs a CNI plugin as a runtime does, with environment and stdin, and collects stdout, stderr and its
// end.
//
// A test can also treat the plugin badly: a stdin that never ends, a stdout without a reader, a signal at any time. The
// test's process must ignore SIGPIPE.
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
  kFlood,      // `input`, and then the letter x until the plugin closes stdin
  kClosed,     // no descriptor 0
  kDirectory,  // a descriptor whose read fails
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
  std::size_t chunk_bytes = 65536;  // `input` is written in pieces of this size
};

struct PluginOutcome {
  int exit_code = -1;  // -1: ended by a signal, or still running
  int signal = 0;
  bool timed_out = false;  // the limit passed, and Wait killed the plugin
  std::string out = {};
  std::string err = {};
  std::chrono::milliseconds took{0};
};

class PluginProcess {
 public:
  // Starts the plugin. Throws std::system_error on failure, because the test cannot continue.
  explicit PluginProcess(PluginCall call);
  PluginProcess(const PluginProcess&) = delete;
  PluginProcess& operator=(const PluginProcess&) = delete;
  // Kills the plugin if it still runs.
  ~PluginProcess();

  [[nodiscard]] pid_t pid() const { return pid_; }

  // Whether the plugin still runs. May be called while another thread is in Wait.
  [[nodiscard]] bool IsRunning() const { return !ended_; }

  // Sends the signal only to the plugin, as runtimes do. If the plugin has ended, does nothing.
  void Signal(int number) const;

  // Waits until the plugin reads stdin, and so until its main has begun. False: `limit` has passed.
  [[nodiscard]] bool AwaitReading(std::chrono::milliseconds limit = std::chrono::seconds(10)) const;

  // Writes stdin and collects stdout and stderr until the plugin has ended; kills it after `limit`. Requires: not
  // called before.
  [[nodiscard]] PluginOutcome Wait(std::chrono::milliseconds limit = std::chrono::seconds(300));

 private:
  void Feed(std::size_t& written);

  PluginCall call_;
  std::chrono::steady_clock::time_point started_;
  pid_t pid_ = -1;
  int end_fd_ = -1;  // a pidfd: its signals cannot reach another process with the same number
  std::atomic<bool> ended_ = false;
  int stdin_fd_ = -1;
  int stdout_fd_ = -1;
  int stderr_fd_ = -1;
};

// Starts the plugin and waits for its end.
[[nodiscard]] PluginOutcome RunPlugin(PluginCall call, std::chrono::milliseconds limit = std::chrono::seconds(300));

}  // namespace berth::e2e
