// SPDX-License-Identifier: Apache-2.0
// The real clock.
#include "k8sclient/clock.h"

#include <condition_variable>
#include <ctime>
#include <random>

#include "base/mutex.h"

namespace berth::k8sclient {
namespace {

class SystemClock final : public Clock {
 public:
  std::chrono::steady_clock::time_point Now() override { return std::chrono::steady_clock::now(); }
  std::chrono::nanoseconds SinceBoot() override {
    timespec now{};
    clock_gettime(CLOCK_BOOTTIME, &now);
    return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
  }
  std::chrono::system_clock::time_point WallNow() override { return std::chrono::system_clock::now(); }

  bool Sleep(std::chrono::milliseconds duration, const std::stop_token& stop) override {
    Mutex mutex;
    std::condition_variable_any never_notified;
    Lock lock(mutex);
    never_notified.wait_for(lock.native(), stop, duration, [] { return false; });
    return !stop.stop_requested();
  }

  double Random() override {
    thread_local std::minstd_rand generator{std::random_device{}()};
    return std::uniform_real_distribution<double>(0, 1)(generator);
  }
};

}  // namespace

Clock& RealClock() {
  static SystemClock clock;
  return clock;
}

}  // namespace berth::k8sclient
