// SPDX-License-Identifier: Apache-2.0
// Calls flock(2) with a time limit.
#include "node/held_file.h"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <string>
#include <sys/file.h>
#include <sys/time.h>

namespace berth::node {

namespace {

// While an Alarm exists, a signal comes every 50 ms and interrupts a blocking flock(2), so that the caller can check
// the deadline: flock(2) itself has no time limit. After an interruption the caller calls flock(2) again, and the
// kernel puts it at the end of the lock's queue. A loop with LOCK_NB and a sleep would find a free lock later.
class Alarm {
 public:
  Alarm() {
    struct sigaction action = {};
    action.sa_handler = [](int) {};
    sigaction(SIGALRM, &action, nullptr);
    constexpr itimerval kEvery = {.it_interval = {.tv_sec = 0, .tv_usec = 50'000},
                                  .it_value = {.tv_sec = 0, .tv_usec = 50'000}};
    setitimer(ITIMER_REAL, &kEvery, nullptr);
  }
  Alarm(const Alarm&) = delete;
  Alarm& operator=(const Alarm&) = delete;
  // The handler stays: in a process with several threads, the last signal may arrive after the timer has stopped.
  ~Alarm() {
    constexpr itimerval kNever = {};
    setitimer(ITIMER_REAL, &kNever, nullptr);
  }
};

}  // namespace

Expected<bool> LockExclusively(const HeldFile& file, BootNanos deadline) {
  if (flock(file.descriptor(), LOCK_EX | LOCK_NB) == 0) return true;
  if (BootTimeNow() >= deadline) return false;
  const Alarm alarm;
  while (flock(file.descriptor(), LOCK_EX) != 0) {
    if (errno != EINTR) return Fail(ErrorCode::kIo, std::string("lock a file: ") + std::strerror(errno));
    if (BootTimeNow() >= deadline) return false;
  }
  return true;
}

}  // namespace berth::node
