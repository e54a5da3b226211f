// SPDX-License-Identifier: Apache-2.0
// ServerClock: the API server's wall clock, as its answers tell it (header Date).
//
// Programs of many machines write times into objects and compare them: when an address has cooled, since when a pod has
// one. If each program took its own machine's wall clock, a machine with a wrong clock would be early or late by its
// error. So all of them take the API server's.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/mutex.h"
#include "k8sclient/api.h"
#include "k8sclient/clock.h"

namespace berth::k8sclient {

// One answer tells this of the server's wall clock. Times of this machine are since boot.
struct DatedAnswer {
  std::chrono::sys_seconds date;         // the server's time at some moment of the call, rounded down
  std::chrono::nanoseconds sent{0};      // before the request was sent
  std::chrono::nanoseconds received{0};  // after the answer came
};

// The server's UNIX time minus this machine's time since boot. `estimate` if the answer may be right about it, else
// what is nearest to it.
[[nodiscard]] std::chrono::nanoseconds Corrected(std::chrono::nanoseconds estimate, const DatedAnswer& answer);

// Any thread.
class ServerClock final : public Clock {
 public:
  // A note for the next process on this machine (Recall), called by Learn whenever there is another one.
  using LeaveNote = std::function<void(const std::string& note)>;

  // local must outlive this. leave_note may be empty.
  explicit ServerClock(Clock& local, LeaveNote leave_note = nullptr)
      : local_(local), leave_note_(std::move(leave_note)) {}

  // These are of the local clock.
  [[nodiscard]] std::chrono::steady_clock::time_point Now() override { return local_.Now(); }
  [[nodiscard]] std::chrono::nanoseconds SinceBoot() override { return local_.SinceBoot(); }
  bool Sleep(std::chrono::milliseconds duration, const std::stop_token& stop) override {
    return local_.Sleep(duration, stop);
  }
  [[nodiscard]] double Random() override { return local_.Random(); }

  // The server's, right to about a second. Before the first answer it is the local clock's; from then on what is done
  // to the local wall clock does not change it.
  [[nodiscard]] std::chrono::system_clock::time_point WallNow() override;

  void Learn(const DatedAnswer& answer);

  // The local wall clock minus the server's. Empty before the first answer.
  [[nodiscard]] std::optional<std::chrono::milliseconds> Difference();

  // Whether the clocks differ by more than five seconds, once after each change; for the log.
  struct News {
    bool is_wrong = false;
    std::string text = {};
  };
  [[nodiscard]] std::optional<News> TakeNews();

  // Takes over what an earlier process knew. Does nothing if there was an answer before, or if the note is older than
  // the machine's start or not understood.
  void Recall(std::string_view note);

 private:
  // The server's UNIX time.
  [[nodiscard]] std::optional<std::chrono::nanoseconds> ServerTime();

  Clock& local_;
  const LeaveNote leave_note_;
  Mutex mutex_;
  std::optional<std::chrono::nanoseconds> estimate_ BERTH_GUARDED_BY(mutex_);  // as Corrected has it
  bool was_wrong_ BERTH_GUARDED_BY(mutex_) = false;
};

// An Api from whose answers a ServerClock learns.
class DatedApi final : public Api {
 public:
  // Both must outlive this.
  DatedApi(Api& inner, ServerClock& clock) : inner_(inner), clock_(clock) {}

  [[nodiscard]] Expected<Response> Call(const Request& request, const CallOptions& options) override;
  [[nodiscard]] Expected<Response> Watch(const Request& request, const WatchOptions& options,
                                         const WatchSink& sink) override;

 private:
  void Learn(const Expected<Response>& response, std::chrono::nanoseconds sent);

  Api& inner_;
  ServerClock& clock_;
};

}  // namespace berth::k8sclient
