// SPDX-License-Identifier: Apache-2.0
// Mutex and Lock: std::mutex and std::unique_lock, with what clang needs to prove that whoever touches a field holds
// the lock that guards it (-Wthread-safety, an error in tools/check-tidy). They cost what the standard's cost.
//
// A field says BERTH_GUARDED_BY(mutex_), a function that its caller holds the lock for says BERTH_REQUIRES(mutex_). To
// wait:
//
//   changed_.wait(lock.native(), [this]() BERTH_REQUIRES(mutex_) { return is_done_; });
//
// Source: https://clang.llvm.org/docs/ThreadSafetyAnalysis.html
#pragma once

#include <mutex>

#ifdef __clang__
#define BERTH_ATTRIBUTE(x) __attribute__((x))
#else
#define BERTH_ATTRIBUTE(x)  // g++ does not check it
#endif
#define BERTH_GUARDED_BY(mutex) BERTH_ATTRIBUTE(guarded_by(mutex))
#define BERTH_REQUIRES(...) BERTH_ATTRIBUTE(requires_capability(__VA_ARGS__))
// Deadlock otherwise: it takes the lock itself.
#define BERTH_EXCLUDES(...) BERTH_ATTRIBUTE(locks_excluded(__VA_ARGS__))

namespace berth {

class BERTH_ATTRIBUTE(capability("mutex")) Mutex {
 private:
  friend class Lock;
  std::mutex mutex_;
};

// Holds the mutex from its construction to its end, but between unlock() and lock().
class BERTH_ATTRIBUTE(scoped_lockable) Lock {
 public:
  explicit Lock(Mutex& mutex) BERTH_ATTRIBUTE(acquire_capability(mutex)) : lock_(mutex.mutex_) {}
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;
  ~Lock() BERTH_ATTRIBUTE(release_capability()) = default;

  void lock() BERTH_ATTRIBUTE(acquire_capability()) { lock_.lock(); }
  void unlock() BERTH_ATTRIBUTE(release_capability()) { lock_.unlock(); }

  // For condition variables alone, which give the mutex back before they return.
  [[nodiscard]] std::unique_lock<std::mutex>& native() { return lock_; }

 private:
  std::unique_lock<std::mutex> lock_;
};

}  // namespace berth
