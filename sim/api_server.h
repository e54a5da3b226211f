// SPDX-License-Identifier: Apache-2.0
// ApiServer: one of several API servers in front of one store. Its watch cache may lag behind the store.
//
// The store answers writes and consistent reads, and the cache answers watches and reads with a resourceVersion, as in
// a real API server. If the cache has not seen this version yet, the read waits for up to three seconds. Answers have a
// Date in seconds by the server's own wall clock (ClockIsWrongBy).
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
  // The store must outlive this, and be new. Starts the thread that fills the cache.
  ApiServer(k8sclient::testing::ModelApi& store, const std::string& name);

  // A change of the store (ModelApi::OnStore), which several servers share.
  struct Change {
    std::string collection;
    nlohmann::json before;
    nlohmann::json after;
  };
  // Called with each change of the store, in order.
  void Learn(std::shared_ptr<const Change> change);
  // From now on the Date of each answer is wrong by `error`.
  void ClockIsWrongBy(Nanos error) { clock_error_ = error; }
  // The cache sees each change at most `most` later, and often sooner.
  void Lag(Nanos most) { lag_ = most; }
  // All watches end, and the new cache knows nothing of the past.
  void Restart();
  // From now on no watch may begin at a version that the cache has now or had before.
  void Compact() { cache_.Compact(); }
  // Like Restart, after the store was restored from a backup (ModelApi::OnRestore).
  void Reload(const k8sclient::testing::ModelApi::Backup& now);

  Expected<k8sclient::Response> Call(const k8sclient::Request& request, const k8sclient::CallOptions& options) override;
  Expected<k8sclient::Response> Watch(const k8sclient::Request& request, const k8sclient::WatchOptions& options,
                                      const k8sclient::WatchSink& sink) override;

 private:
  [[nodiscard]] Expected<k8sclient::Response> Answer(const k8sclient::Request& request,
                                                     const k8sclient::CallOptions& options);
  [[nodiscard]] std::chrono::sys_seconds Date() const;
  void Fill();
  // Lets the cache see all changes of the store. Requires: the caller holds mutex_.
  void SeeAll();
  // Waits until the cache has seen the version, at most three seconds.
  void AwaitVersion(std::uint64_t version);

  k8sclient::testing::ModelApi& store_;
  // Holds what the cache has seen. The cache counts versions as the store does, because it gets the same changes.
  k8sclient::testing::ModelApi cache_;
  Nanos lag_{0};
  Nanos clock_error_{0};
  std::mutex mutex_;
  std::condition_variable happened_;
  std::deque<std::shared_ptr<const Change>> unseen_;
  std::uint64_t seen_ = k8sclient::testing::ModelApi::kFirstVersion;
};

}  // namespace berth::sim
