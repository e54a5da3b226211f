// SPDX-License-Identifier: Apache-2.0
// Threads, a barrier, and a counter for each share.
#include "bench/callers.h"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <pthread.h>
#include <semaphore.h>
#include <stop_token>
#include <thread>
#include <utility>

namespace berth::bench {

using std::chrono::steady_clock;

namespace {

Expected<void> Do(Contender& contender, Operation operation, const std::string& id) {
  return operation == Operation::kAdd ? contender.Add(id) : contender.Del(id);
}

OpSamples WorkOff(Operation operation, const Share& share, std::atomic<std::size_t>& next) {
  OpSamples own;
  for (std::size_t at = next++; at < share.container_ids.size(); at = next++) {
    const auto before = steady_clock::now();
    const auto done = Do(*share.contender, operation, share.container_ids[at]);
    const auto took = steady_clock::now() - before;
    if (done) {
      own.took.push_back(took);
    } else {
      ++own.failed;
      if (own.first_error.empty()) own.first_error = done.error().message;
    }
  }
  return own;
}

// A POSIX semaphore, because those of libstdc++ spin before they wait: with 10,000 threads, spinning takes CPU time
// from the operations that are measured.
class Semaphore {
 public:
  Semaphore() { sem_init(&semaphore_, /*pshared=*/0, 0); }
  ~Semaphore() { sem_destroy(&semaphore_); }
  Semaphore(const Semaphore&) = delete;
  Semaphore& operator=(const Semaphore&) = delete;

  void Release() { sem_post(&semaphore_); }
  void Acquire() {
    while (sem_wait(&semaphore_) != 0) {  // interrupted by a signal
    }
  }

 private:
  sem_t semaphore_{};
};

class Barrier {
 public:
  explicit Barrier(std::size_t threads) { pthread_barrier_init(&barrier_, nullptr, static_cast<unsigned>(threads)); }
  ~Barrier() { pthread_barrier_destroy(&barrier_); }
  Barrier(const Barrier&) = delete;
  Barrier& operator=(const Barrier&) = delete;

  void Wait() { pthread_barrier_wait(&barrier_); }

 private:
  pthread_barrier_t barrier_{};
};

}  // namespace

// A thread that waits for work.
class Callers::Caller {
 public:
  Caller() : thread_([this](const std::stop_token& stop) { Work(stop); }) {}
  ~Caller() {
    thread_.request_stop();
    go_.Release();
  }
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;

  void Begin(std::function<void()> work) {
    work_ = std::move(work);
    go_.Release();
  }
  void Await() { idle_.Acquire(); }

 private:
  void Work(const std::stop_token& stop) {
    while (true) {
      go_.Acquire();
      if (stop.stop_requested()) return;
      std::exchange(work_, nullptr)();
      idle_.Release();
    }
  }

  Semaphore go_;
  Semaphore idle_;
  std::function<void()> work_;  // handed over with go_
  std::jthread thread_;         // last, because it uses the others
};

Callers::Callers() = default;
Callers::~Callers() = default;

OpSamples Callers::Run(Operation operation, const std::vector<Share>& shares, int per_share) {
  const std::size_t count = shares.size() * static_cast<std::size_t>(per_share);
  while (callers_.size() < count) callers_.emplace_back();

  OpSamples all;
  std::mutex mutex;  // guards `all`
  std::deque<std::atomic<std::size_t>> next(shares.size());
  Semaphore arrived;
  Barrier start(count + 1);
  for (std::size_t caller = 0; caller < count; ++caller) {
    callers_[caller].Begin([&, index = caller % shares.size()] {
      arrived.Release();
      start.Wait();
      OpSamples own = WorkOff(operation, shares[index], next[index]);
      const std::lock_guard lock(mutex);
      all.Add(std::move(own));
    });
  }
  for (std::size_t caller = 0; caller < count; ++caller) arrived.Acquire();
  const auto begin = steady_clock::now();
  start.Wait();
  for (std::size_t caller = 0; caller < count; ++caller) callers_[caller].Await();
  all.wall = steady_clock::now() - begin;
  return all;
}

}  // namespace berth::bench
