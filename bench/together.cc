// SPDX-License-Identifier: Apache-2.0
// Threads, a barrier, and a counter per share.
#include "bench/together.h"

#include <atomic>
#include <barrier>
#include <chrono>
#include <cstddef>
#include <deque>
#include <mutex>
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

OpSamples RunTogether(Operation operation, const std::vector<Share>& shares, int callers) {
  OpSamples all;
  std::mutex mutex;  // guards all
  std::deque<std::atomic<std::size_t>> next(shares.size());
  steady_clock::time_point begin;
  std::barrier start(static_cast<std::ptrdiff_t>(shares.size()) * callers,
                     [&begin]() noexcept { begin = steady_clock::now(); });
  std::vector<std::jthread> threads;
  for (std::size_t index = 0; index < shares.size(); ++index) {
    for (int caller = 0; caller < callers; ++caller) {
      threads.emplace_back([&, index] {
        start.arrive_and_wait();
        OpSamples own = WorkOff(operation, shares[index], next[index]);
        const std::lock_guard lock(mutex);
        all.Add(std::move(own));
      });
    }
  }
  threads.clear();
  all.wall = steady_clock::now() - begin;
  return all;
}

}  // namespace berth::bench
