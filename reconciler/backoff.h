// SPDX-License-Identifier: Apache-2.0
// Backoff: how long the controller waits after a failure before it tries an object again. NodePatches: limits how many
// patches of Nodes the controller sends.
#pragma once

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "base/error.h"

namespace berth::reconciler {

class Backoff {
 public:
  using Time = std::chrono::steady_clock::time_point;

  [[nodiscard]] bool MayTry(const std::string& key, Time now) const;
  // When the key's wait ends; Time::min() if the key does not wait.
  [[nodiscard]] Time NotBefore(const std::string& key) const;
  // True if the key's last request failed.
  [[nodiscard]] bool HasFailed(const std::string& key) const;
  // Makes the key wait at least until `now` + `pause`.
  void Pause(const std::string& key, std::chrono::milliseconds pause, Time now);
  // Notes a failure and returns the wait: 50 ms, doubled with each failure up to 1 s after kConflict, kNotFound or
  // kAlreadyExists (the watch will show the newer state soon) and up to 30 s after any other error, but at least
  // error.retry_after. If the wait is 1 s or longer, it ends at the next whole second of the clock, up to 1 s later
  // than returned. So the controller tries thousands of refused objects again in one pass. Without the common second,
  // each object would cost a pass of its own.
  std::chrono::milliseconds Failed(const std::string& key, const Error& error, Time now);
  void Succeeded(const std::string& key);

  // The first time after `now` at which a key's wait ends.
  [[nodiscard]] std::optional<Time> Next(Time now) const;
  // Forgets each key whose wait ended more than 5 minutes ago, so that keys of deleted objects do not pile up. Keeps
  // the keys in `wanted`: their objects wait for their turn, however long this takes.
  void Forget(Time now, const std::set<std::string>& wanted);

 private:
  struct Wait {
    int failures = 0;
    Time not_before = Time::min();
  };
  std::map<std::string, Wait> waits_;
};

class NodePatches {
 public:
  using Time = std::chrono::steady_clock::time_point;

  explicit NodePatches(int per_second = 20)
      : interval_(std::chrono::nanoseconds(std::chrono::seconds(1)) / per_second) {}

  // Call before each patch. False: the limit is reached, so the patch must wait.
  [[nodiscard]] bool Take(Time now) {
    next_ = std::max(next_, now - (kBurst - 1) * interval_);
    if (now < next_) return false;
    next_ += interval_;
    return true;
  }

 private:
  static constexpr int kBurst = 100;

  std::chrono::nanoseconds interval_;
  Time next_ = Time::min();  // when the next patch would be due without bursts
};

}  // namespace berth::reconciler
