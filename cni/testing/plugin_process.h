// SPDX-License-Identifier: Apache-2.0
// PluginProcess: runs a CNI plugin as a runtime does, with environment and stdin, and collects stdout, stderr and its
// end.
//
// Tests and benchmarks start plugins with it. A test may treat a plugin badly: a stdin that never ends, a reader that
// is gone, a caller that is killed, a signal in the middle. The first PluginProcess makes this process ignore SIGPIPE.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>

namespace berth::cni_testing {

enum class Stdin : std::uint8_t {
  kBytes,       // `input`, then end of file
  kNeverEnds,   // `input`, and no end of file
  kFlood,       // `input`, and then the letter x until the plugin closes stdin
  kClosed,      // no descriptor 0
  kDirectory,   // a descriptor whose read fails
  kDescriptor,  // `descriptor`; nothing is written
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
  // True (only with kBytes): the first chunk of `input` is in the pipe before the plugin starts, and, if there is no
  // second chunk, the pipe's end of file, too. False: Wait writes all of `input`, and the plugin waits for it.
  bool is_fed_at_start = false;
  int descriptor = -1;
  Stdout out = Stdout::kCaptured;
  bool has_mortal_parent = false;   // see KillParent; requires is_fed_at_start
  std::size_t chunk_bytes = 65536;  // of `input` in one write; a pipe has room for as many
};

struct PluginOutcome {
  int exit_code = -1;  // -1: ended by a signal, or still running; 127: the plugin could not be started; see `err`
  int signal = 0;
  bool timed_out = false;  // the limit passed, and Wait killed the plugin
  std::string out = {};
  std::string err = {};
  std::chrono::milliseconds took{0};
};

class PluginProcess {
 public:
  // Starts the plugin. Throws std::system_error if the test's process has no file descriptors or processes left.
  explicit PluginProcess(PluginCall call);
  PluginProcess(const PluginProcess&) = delete;
  PluginProcess& operator=(const PluginProcess&) = delete;
  // Kills the plugin if it still runs.
  ~PluginProcess();

  // -1: the plugin could not be started, or has ended.
  [[nodiscard]] pid_t pid() const { return pid_; }

  // True if the plugin still runs. Another thread may be in Wait meanwhile.
  [[nodiscard]] bool IsRunning() const { return !ended_; }

  // Sends the signal only to the plugin, as runtimes do. If the plugin has ended, does nothing.
  void Signal(int number) const;

  // Ends the process that started the plugin, and returns when the plugin has another parent. Requires:
  // has_mortal_parent.
  void KillParent();

  // Closes the read end of the plugin's stdout: the plugin's next write fails with EPIPE.
  void CloseOutput();

  // Waits until the plugin reads stdin, and so until its main has begun. False: `limit` has passed.
  [[nodiscard]] bool AwaitReading(std::chrono::milliseconds limit = std::chrono::minutes(1)) const;

  // Writes stdin and collects stdout and stderr until the plugin has ended; kills it after `limit`. Requires: not
  // called before.
  [[nodiscard]] PluginOutcome Wait(std::chrono::milliseconds limit = std::chrono::seconds(300));

 private:
  void Start(int stdin_end, int stdout_end, int stderr_end);
  void Feed();

  PluginCall call_;
  std::chrono::steady_clock::time_point started_;
  pid_t pid_ = -1;
  pid_t parent_ = -1;
  std::string start_error_;  // empty: the plugin was started
  std::size_t written_ = 0;  // of `input`
  int end_fd_ = -1;          // a pidfd: signals through it cannot reach another process that got the same number
  std::atomic<bool> ended_ = false;
  int stdin_fd_ = -1;
  int stdout_fd_ = -1;
  int stderr_fd_ = -1;
};

// Starts the plugin and waits for its end.
[[nodiscard]] PluginOutcome RunPlugin(PluginCall call, std::chrono::milliseconds limit = std::chrono::seconds(300));

}  // namespace berth::cni_testing
