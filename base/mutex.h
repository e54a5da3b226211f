// SPDX-License-Identifier: Apache-2.0
// Mutex and Lock: std::mutex and std::unique_lock with annotations for clang. With the annotations clang proves
// that code holds the right lock whenever it uses a guarded field (-Wthread-safety, an error in tools/check-tidy).
// Mutex and Lock cost as much as the types of the standard library.
//
// Mark a field with BERTH_GUARDED_BY(mutex_). Mark a function whose caller must hold the lock with
// BERTH_REQUIRES(mutex_). To wait for a condition variable:
//
//   changed_.wait(lock.native(), [this]() BERTH_REQUIRES(mutex_) { return is_done_; });
//
// Source: https://clang.llvm.org/docs/ThreadSafetyAnalysis.html
#pragma once

#include <mutex>

#ifdef __clang__
#define BERTH_ATTRIBUTE(x) __attribute__((x))
#else
#define BERTH_ATTRIBUTE(x)  // g++ does not know these attributes
#endif
#define BERTH_GUARDED_BY(mutex) BERTH_ATTRIBUTE(guarded_by(mutex))
#define BERTH_REQUIRES(...) BERTH_ATTRIBUTE(requires_capability(__VA_ARGS__))
// Mark a function that takes the lock itself with BERTH_EXCLUDES(mutex_): a caller that already holds the lock would
// wait forever.
#define BERTH_EXCLUDES(...) BERTH_ATTRIBUTE(locks_excluded(__VA_ARGS__))

namespace berth {

class BERTH_ATTRIBUTE(capability("mutex")) Mutex {
 private:
  friend class Lock;
  std::mutex mutex_;
};

// Holds the mutex from its constructor to its destructor, except between unlock() and lock().
class BERTH_ATTRIBUTE(scoped_lockable) Lock {
 public:
  explicit Lock(Mutex& mutex) BERTH_ATTRIBUTE(acquire_capability(mutex)) : lock_(mutex.mutex_) {}
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;
  ~Lock() BERTH_ATTRIBUTE(release_capability()) = default;

  void lock() BERTH_ATTRIBUTE(acquire_capability()) { lock_.lock(); }
  void unlock() BERTH_ATTRIBUTE(release_capability()) { lock_.unlock(); }

  // Condition variables use native(): they release the mutex while they wait, and hold it again when they return.
  [[nodiscard]] std::unique_lock<std::mutex>& native() { return lock_; }

 private:
  std::unique_lock<std::mutex> lock_;
};

}  // namespace berth
