// SPDX-License-Identifier: Apache-2.0
// Waiter: poll, with an eventfd for stop requests.
#include "k8sclient/waiter.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <sys/eventfd.h>
#include <unistd.h>

#include "ipam/check.h"

namespace berth::k8sclient {

using ipam::ErrorCode;
using ipam::Expected;
using ipam::Fail;

constexpr std::chrono::milliseconds kLookForStop{100};

void Waiter::WakeUp::operator()() const {
  const std::uint64_t one = 1;
  // It can only fail if the counter is full, and then it is readable already.
  [[maybe_unused]] const ssize_t written = write(event, &one, sizeof(one));
}

Waiter::Waiter(TimePoint deadline, std::stop_token stop) : deadline_(deadline), stop_(std::move(stop)) {
  if (!stop_.stop_possible()) return;
  event_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (event_ >= 0) callback_.emplace(stop_, WakeUp{event_});
}

Waiter::~Waiter() {
  callback_.reset();
  if (event_ >= 0) close(event_);
}

Expected<void> Waiter::Check() const {
  if (stop_.stop_requested()) return Fail(ErrorCode::kTimeout, "stopped");
  if (std::chrono::steady_clock::now() >= deadline_) return Fail(ErrorCode::kTimeout, "the time limit passed");
  return {};
}

Expected<int> Waiter::Wait(std::span<pollfd> sockets, TimePoint until) {
  constexpr std::size_t kSocketsMax = 16;
  BERTH_CHECK(sockets.size() < kSocketsMax);
  std::array<pollfd, kSocketsMax> polled{};
  std::ranges::copy(sockets, polled.begin());
  polled[sockets.size()] = {.fd = event_, .events = POLLIN, .revents = 0};
  while (true) {
    if (const Expected<void> in_time = Check(); !in_time) return std::unexpected(in_time.error());
    const auto now = std::chrono::steady_clock::now();
    if (now >= until) return 0;
    // Without an eventfd (there are no descriptors left) nothing wakes us: then we look for ourselves.
    const bool woken = event_ >= 0 || !stop_.stop_possible();
    const std::chrono::steady_clock::duration longest = woken ? std::chrono::minutes(1) : kLookForStop;
    const auto left = std::min({longest, deadline_ - now, until - now});
    const int wait_ms = static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(left).count());
    const int ready = poll(polled.data(), sockets.size() + 1, wait_ms);
    BERTH_CHECK(ready >= 0 || errno == EINTR);
    if (ready <= 0 || polled[sockets.size()].revents != 0) continue;
    for (std::size_t i = 0; i < sockets.size(); ++i) sockets[i].revents = polled[i].revents;
    return ready;
  }
}

}  // namespace berth::k8sclient
