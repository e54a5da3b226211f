// SPDX-License-Identifier: Apache-2.0
// ApiServer: one of several before one store. Its watch cache comes after the store, and may lag far behind.
//
// As in the real one, writes and consistent reads are the store's; a read with a resourceVersion and every watch are
// the cache's. A read that names a version waits for it, for three seconds. Answers have a Date, in seconds: the wall
// clocks of API servers are right.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>

#include <nlohmann/json.hpp>

#include "k8sclient/api.h"
#include "k8sclient/testing/model_api.h"
#include "sim/scheduler.h"

namespace berth::sim {

class ApiServer final : public k8sclient::Api {
 public:
  // The store must outlive this, and be new. Spawns what fills the cache.
  ApiServer(k8sclient::testing::ModelApi& store, const std::string& name);

  // What the store told (ModelApi::OnStore); several servers share it.
  struct Change {
    std::string collection;
    nlohmann::json before;
    nlohmann::json after;
  };
  // To be called with each change of the store, in order.
  void Learn(std::shared_ptr<const Change> change);
  // From now on the Date of its answers is wrong by this.
  void ClockIsWrongBy(Nanos error) { clock_error_ = error; }
  // The cache sees each change so late at most; it is often faster.
  void Lag(Nanos most) { lag_ = most; }
  // All watches end; the new cache knows nothing of the past.
  void Restart();
  // No watch begins any more at a version that it has now or had before.
  void Compact() { cache_.Compact(); }
  // As Restart, since the store was restored from a backup (ModelApi::OnRestore).
  void Reload(const k8sclient::testing::ModelApi::Backup& now);

  Expected<k8sclient::Response> Call(const k8sclient::Request& request, const k8sclient::CallOptions& options) override;
  Expected<k8sclient::Response> Watch(const k8sclient::Request& request, const k8sclient::WatchOptions& options,
                                      const k8sclient::WatchSink& sink) override;

 private:
  [[nodiscard]] Expected<k8sclient::Response> Answer(const k8sclient::Request& request,
                                                     const k8sclient::CallOptions& options);
  [[nodiscard]] std::chrono::sys_seconds Date() const;
  void Fill();
  // Requires: mutex_.
  void SeeAll();
  // Or until it is too late.
  void AwaitVersion(std::uint64_t version);

  k8sclient::testing::ModelApi& store_;
  // What the cache has seen. It counts versions as the store does, for it goes through the same changes.
  k8sclient::testing::ModelApi cache_;
  Nanos lag_{0};
  Nanos clock_error_{0};
  std::mutex mutex_;
  std::condition_variable happened_;
  std::deque<std::shared_ptr<const Change>> unseen_;
  std::uint64_t seen_ = k8sclient::testing::ModelApi::kFirstVersion;
};

}  // namespace berth::sim
