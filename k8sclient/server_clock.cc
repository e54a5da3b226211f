// SPDX-License-Identifier: Apache-2.0
// ServerClock keeps one number, the estimate. Every answer of the API server may correct the estimate.
#include "k8sclient/server_clock.h"

#include <algorithm>
#include <cstdint>
#include <sstream>

namespace berth::k8sclient {

namespace {

using std::chrono::duration_cast;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

// The estimate is right to about 1 s, and NTP keeps a clock right to milliseconds. So if the clocks differ by more than
// this, one of them is wrong.
constexpr seconds kDifferenceMax{5};
// A difference that exceeded kDifferenceMax counts as too large until it is at most this.
constexpr seconds kDifferenceRight{4};

}  // namespace

std::optional<nanoseconds> ServerClock::ServerTime() {
  const Lock lock(mutex_);
  if (!estimate_) return {};
  return local_.SinceBoot() + *estimate_;
}

std::chrono::system_clock::time_point ServerClock::WallNow() {
  const auto time = ServerTime();
  return time ? std::chrono::system_clock::time_point(*time) : local_.WallNow();
}

void ServerClock::Learn(std::chrono::sys_seconds date, nanoseconds sent, nanoseconds received) {
  const nanoseconds second = date.time_since_epoch();
  std::string note;
  {
    const Lock lock(mutex_);
    const nanoseconds before = estimate_ ? *estimate_ : local_.WallNow().time_since_epoch() - local_.SinceBoot();
    // If the answer allows the estimate, keep the estimate; else use the nearest value that the answer allows.
    const nanoseconds after = std::clamp(before, second - received, second + seconds(1) - sent);
    if (estimate_ == after) return;
    estimate_ = after;
    note = std::to_string(after.count()) + ' ' + std::to_string(local_.SinceBoot().count());
  }
  if (leave_note_) leave_note_(note);
}

std::optional<milliseconds> ServerClock::Difference() {
  const auto time = ServerTime();
  if (!time) return {};
  return duration_cast<milliseconds>(local_.WallNow().time_since_epoch() - *time);
}

std::optional<ServerClock::News> ServerClock::TakeNews() {
  const auto difference = Difference();
  if (!difference) return {};
  const milliseconds distance = std::chrono::abs(*difference);
  const Lock lock(mutex_);
  const bool is_wrong = distance > (was_wrong_ ? kDifferenceRight : kDifferenceMax);
  if (is_wrong == was_wrong_) return {};
  was_wrong_ = is_wrong;
  if (!is_wrong) return News{.is_wrong = false, .text = "this machine's clock and the API server's clock agree again"};
  return News{.is_wrong = true,
              .text = "this machine's clock is " + std::to_string(duration_cast<seconds>(distance).count()) + " s " +
                      (*difference > milliseconds(0) ? "ahead of" : "behind") +
                      " the API server's clock: let NTP set the clocks of both machines"};
}

void ServerClock::Recall(const std::string& note) {
  std::istringstream text(note);
  std::int64_t estimate = 0;
  std::int64_t noted = 0;
  if (!(text >> estimate >> noted) || !(text >> std::ws).eof()) return;
  const Lock lock(mutex_);
  if (!estimate_ && nanoseconds(noted) <= local_.SinceBoot()) estimate_ = nanoseconds(estimate);
}

Expected<Response> DatedApi::Call(const Request& request, const CallOptions& options) {
  const nanoseconds sent = clock_.SinceBoot();
  return Learned(inner_.Call(request, options), sent);
}

Expected<Response> DatedApi::Watch(const Request& request, const WatchOptions& options, const WatchSink& sink) {
  const nanoseconds sent = clock_.SinceBoot();
  return Learned(inner_.Watch(request, options, sink), sent);
}

Expected<Response> DatedApi::Learned(Expected<Response> response, nanoseconds sent) {
  if (response && response->date) clock_.Learn(*response->date, sent, clock_.SinceBoot());
  return response;
}

}  // namespace berth::k8sclient
