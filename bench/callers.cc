// SPDX-License-Identifier: Apache-2.0
// Threads, a barrier, and a counter per share.
#include "bench/callers.h"

#include <atomic>
#include <barrier>
#include <chrono>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <semaphore>
#include <stop_token>
#include <thread>
#include <utility>

namespace berth::bench {

using std::chrono::steady_clock;

namespace {

ipam::Expected<void> Do(Contender& contender, Operation operation, const std::string& id) {
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

}  // namespace

// One thread that waits for work.
class Callers::Caller {
 public:
  Caller() : thread_([this](const std::stop_token& stop) { Work(stop); }) {}
  ~Caller() {
    thread_.request_stop();
    go_.release();
  }
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;

  void Begin(std::function<void()> work) {
    work_ = std::move(work);
    go_.release();
  }
  void Await() { idle_.acquire(); }

 private:
  void Work(const std::stop_token& stop) {
    while (true) {
      go_.acquire();
      if (stop.stop_requested()) return;
      std::exchange(work_, nullptr)();
      idle_.release();
    }
  }

  std::binary_semaphore go_{0};
  std::binary_semaphore idle_{0};
  std::function<void()> work_;  // handed over by go_
  std::jthread thread_;         // last: it uses the others
};

Callers::Callers() = default;
Callers::~Callers() = default;

OpSamples Callers::Run(Operation operation, const std::vector<Share>& shares, int per_share) {
  const std::size_t count = shares.size() * static_cast<std::size_t>(per_share);
  while (callers_.size() < count) callers_.emplace_back();

  OpSamples all;
  std::mutex mutex;  // guards all
  std::deque<std::atomic<std::size_t>> next(shares.size());
  steady_clock::time_point begin;
  std::barrier start(static_cast<std::ptrdiff_t>(count), [&begin]() noexcept { begin = steady_clock::now(); });
  for (std::size_t caller = 0; caller < count; ++caller) {
    callers_[caller].Begin([&, index = caller % shares.size()] {
      start.arrive_and_wait();
      OpSamples own = WorkOff(operation, shares[index], next[index]);
      const std::lock_guard lock(mutex);
      all.Add(std::move(own));
    });
  }
  for (std::size_t caller = 0; caller < count; ++caller) callers_[caller].Await();
  all.wall = steady_clock::now() - begin;
  return all;
}

}  // namespace berth::bench
