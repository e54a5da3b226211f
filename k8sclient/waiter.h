// SPDX-License-Identifier: Apache-2.0
// Waiter: waits for sockets until they are ready, a time limit is reached, or stop is requested.
#pragma once

#include <chrono>
#include <optional>
#include <poll.h>
#include <span>
#include <stop_token>

#include "ipam/error.h"

namespace berth::k8sclient {

class Waiter {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  Waiter(TimePoint deadline, std::stop_token stop);
  ~Waiter();
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;

  // Fills in revents. Returns the number of ready ones; 0 if `until` came first. One thread at a time.
  // Errors: kTimeout (the deadline, or stop).
  [[nodiscard]] ipam::Expected<int> Wait(std::span<pollfd> sockets, TimePoint until = TimePoint::max());

  // Errors: kTimeout. Without waiting: is it over already?
  [[nodiscard]] ipam::Expected<void> Check() const;

  [[nodiscard]] TimePoint deadline() const { return deadline_; }
  // A limit within the deadline, such as for connecting.
  void set_deadline(TimePoint deadline) { deadline_ = deadline; }

 private:
  struct WakeUp {
    int event;
    void operator()() const;
  };

  TimePoint deadline_;
  std::stop_token stop_;
  int event_ = -1;  // an eventfd that a stop request makes readable; -1 where none can come
  std::optional<std::stop_callback<WakeUp>> callback_;
};

}  // namespace berth::k8sclient
