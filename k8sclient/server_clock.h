// SPDX-License-Identifier: Apache-2.0
// ServerClock: the API server's wall clock, learned from the header Date of its answers.
//
// Programs on many machines write times into objects and compare them: when the cooldown of a freed address ends, and
// since when a pod has an address. If each program used its own machine's wall clock, a program with a wrong clock
// would act too early or too late. So all programs use the API server's clock.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/mutex.h"
#include "k8sclient/api.h"
#include "k8sclient/clock.h"

namespace berth::k8sclient {

// Any thread may call.
class ServerClock final : public Clock {
 public:
  // Stores a note for the next process on this machine (Recall). Learn calls LeaveNote when the estimate changes.
  using LeaveNote = std::function<void(const std::string& note)>;

  // local must outlive this. leave_note may be empty.
  explicit ServerClock(Clock& local, LeaveNote leave_note = nullptr)
      : local_(local), leave_note_(std::move(leave_note)) {}

  // These functions use the local clock.
  [[nodiscard]] std::chrono::steady_clock::time_point Now() override { return local_.Now(); }
  [[nodiscard]] std::chrono::nanoseconds SinceBoot() override { return local_.SinceBoot(); }
  bool Sleep(std::chrono::milliseconds duration, const std::stop_token& stop) override {
    return local_.Sleep(duration, stop);
  }
  [[nodiscard]] double Random() override { return local_.Random(); }

  // The server's time, right to about 1 s. Before the first answer, WallNow returns the local wall clock's time. After
  // the first answer, a change of the local wall clock does not change WallNow.
  [[nodiscard]] std::chrono::system_clock::time_point WallNow() override;

  // Learns from one answer. `date`: the server's time at some moment of the call, rounded down. `sent`, `received`:
  // this machine's times since boot, before the request was sent and after the answer came.
  void Learn(std::chrono::sys_seconds date, std::chrono::nanoseconds sent, std::chrono::nanoseconds received);

  // The local wall clock minus the server's. Empty before the first answer.
  [[nodiscard]] std::optional<std::chrono::milliseconds> Difference();

  struct News {
    bool is_wrong = false;
    std::string text = {};
  };
  // For the log. Returns News once when the clocks begin to differ by more than 5 s, and once when the difference is at
  // most 4 s again.
  [[nodiscard]] std::optional<News> TakeNews();

  // Takes over the estimate in an earlier process's note. Does nothing after the first answer, if the note is
  // malformed, or if its time since boot is in the future: then the note is from before a reboot.
  void Recall(const std::string& note);

 private:
  // The server's UNIX time.
  [[nodiscard]] std::optional<std::chrono::nanoseconds> ServerTime();

  Clock& local_;
  const LeaveNote leave_note_;
  Mutex mutex_;
  // The server's UNIX time minus this machine's time since boot.
  std::optional<std::chrono::nanoseconds> estimate_ BERTH_GUARDED_BY(mutex_);
  bool was_wrong_ BERTH_GUARDED_BY(mutex_) = false;
};

// Passes requests to another Api, and lets a ServerClock learn from the answers.
class DatedApi final : public Api {
 public:
  // inner and clock must outlive this.
  DatedApi(Api& inner, ServerClock& clock) : inner_(inner), clock_(clock) {}

  [[nodiscard]] Expected<Response> Call(const Request& request, const CallOptions& options) override;
  [[nodiscard]] Expected<Response> Watch(const Request& request, const WatchOptions& options,
                                         const WatchSink& sink) override;

 private:
  // Lets the clock learn from the answer, and returns it.
  [[nodiscard]] Expected<Response> Learned(Expected<Response> response, std::chrono::nanoseconds sent);

  Api& inner_;
  ServerClock& clock_;
};

}  // namespace berth::k8sclient
