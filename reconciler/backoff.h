// SPDX-License-Identifier: Apache-2.0
// Backoff: what failed is not tried again at once, object by object.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>

#include "base/error.h"

namespace berth::reconciler {

class Backoff {
 public:
  using Time = std::chrono::steady_clock::time_point;

  [[nodiscard]] bool MayTry(const std::string& key, Time now) const { return NotBefore(key) <= now; }
  // Long ago for what has not failed.
  [[nodiscard]] Time NotBefore(const std::string& key) const;
  // Not before now + pause, whatever happened before.
  void Pause(const std::string& key, std::chrono::milliseconds pause, Time now);
  // 50 ms, doubled up to 1 s after a conflict, as the newer version is on its way, and up to 30 s after anything else.
  // Returns how long. What the server asked for is kept. Waits of a second and more end with a second of the clock, so
  // that thousands that are refused are tried again in one round and not in one each: up to a second later.
  std::chrono::milliseconds Failed(const std::string& key, const Error& error, Time now);
  void Succeeded(const std::string& key);

  // When the next key that has to wait now may be tried.
  [[nodiscard]] std::optional<Time> Next(Time now) const;
  // Forgets what may be tried since long ago, so that keys of objects that are gone do not pile up.
  void Forget(Time now);

 private:
  struct Wait {
    int failures = 0;
    Time not_before;
  };
  std::map<std::string, Wait> waits_;
};

}  // namespace berth::reconciler
