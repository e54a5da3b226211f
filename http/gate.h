// SPDX-License-Identifier: Apache-2.0
// Gate and PendingConnections: which requests get a worker, and which connections may wait without a request.
#pragma once

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <utility>

#include "base/mutex.h"
#include "http/http_server.h"

namespace berth::http {

// Gate assigns requests to free workers. If no worker is free, a request waits; urgent requests go first.
class Gate {
 public:
  using Work = std::function<void()>;
  Gate(boost::asio::thread_pool& workers, const HttpLimits& limits) : workers_(workers), limits_(limits) {}

  // A worker calls `work`, at once or when the request's turn comes. False: waiting_max requests of the same urgency
  // wait already.
  [[nodiscard]] bool Enter(bool is_urgent, Work work) BERTH_EXCLUDES(mutex_) {
    const Lock lock(mutex_);
    if (TakeWorker(is_urgent)) {
      boost::asio::post(workers_, std::move(work));
      return true;
    }
    auto& waiting = is_urgent ? urgent_ : others_;
    if (waiting.size() >= limits_.waiting_max) return false;
    waiting.push_back(std::move(work));
    return true;
  }

  // The caller must call Leave once for each `work` that a worker has called, when the request needs no worker any
  // more.
  void Leave(bool was_urgent) BERTH_EXCLUDES(mutex_) {
    const Lock lock(mutex_);
    --served_;
    if (!was_urgent) --others_served_;
    for (auto* waiting : {&urgent_, &others_}) {
      if (waiting->empty() || !TakeWorker(waiting == &urgent_)) continue;
      boost::asio::post(workers_, std::move(waiting->front()));
      return waiting->pop_front();
    }
  }

 private:
  [[nodiscard]] bool TakeWorker(bool is_urgent) BERTH_REQUIRES(mutex_) {
    constexpr std::size_t kOneInKept = 8;
    const std::size_t others_max = limits_.workers - limits_.workers / kOneInKept;
    if (served_ >= limits_.workers || (!is_urgent && others_served_ >= others_max)) return false;
    ++served_;
    if (!is_urgent) ++others_served_;
    return true;
  }

  boost::asio::thread_pool& workers_;
  const HttpLimits& limits_;
  Mutex mutex_;
  std::deque<Work> urgent_ BERTH_GUARDED_BY(mutex_);
  std::deque<Work> others_ BERTH_GUARDED_BY(mutex_);
  std::size_t served_ BERTH_GUARDED_BY(mutex_) = 0;
  std::size_t others_served_ BERTH_GUARDED_BY(mutex_) = 0;
};

// The state of a caller whose whole request has not come. kNew: TLS is not set up, or there is no TLS. kIdle: TLS is
// set up, and no head of a request has come. kSendsBody: the head has come over TLS.
enum class CallerState : std::uint8_t { kNew, kIdle, kSendsBody };

// PendingConnections contains the connections without a whole request. If there is one connection too many,
// PendingConnections ends the connection that is kNew for the longest time, else kIdle, else kSendsBody. Only the
// io_context's thread uses PendingConnections.
class PendingConnections {
 public:
  using Id = std::pair<CallerState, std::uint64_t>;  // the number counts the calls of Add
  using Abort = std::function<void()>;               // makes the session read no more; it calls Remove later
  explicit PendingConnections(boost::asio::io_context& io) : end_(io) {}

  [[nodiscard]] Id Add(CallerState state, std::size_t max, Abort abort) {
    if (is_over_) abort();
    if (!aborts_.empty() && aborts_.size() >= max) aborts_.extract(aborts_.begin()).mapped()();
    return aborts_.emplace(Id(state, ++count_), std::move(abort)).first->first;
  }
  void Remove(Id id) { aborts_.erase(id); }
  // Ends all connections without a whole request after 100 ms, so that requests under way can arrive.
  void End() {
    constexpr std::chrono::milliseconds kLastReadMax{100};
    is_ending_ = true;
    is_over_ = aborts_.empty();
    if (is_over_) return;
    end_.expires_after(kLastReadMax);
    end_.async_wait([this](const boost::system::error_code&) {
      is_over_ = true;
      for (const auto& [id, abort] : aborts_) abort();
    });
  }
  [[nodiscard]] bool is_ending() const { return is_ending_; }

 private:
  boost::asio::steady_timer end_;
  std::map<Id, Abort> aborts_;
  std::uint64_t count_ = 0;
  bool is_ending_ = false;
  bool is_over_ = false;
};

}  // namespace berth::http
