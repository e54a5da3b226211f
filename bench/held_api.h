// SPDX-License-Identifier: Apache-2.0
// HeldApi: an API server's client for many agents in one process that have no watches.
//
// Requests of all that share it take turns on one connection and are counted; a watch shows nothing and lasts until it
// is stopped. So thousands of agents can be started on one machine, to see what their requests alone do.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "k8sclient/api.h"

namespace berth::bench {

struct PostCounts {
  std::atomic<std::size_t> sent = 0;
  std::atomic<std::size_t> created = 0;
  std::atomic<std::size_t> refused = 0;  // the name was taken
};

class HeldApi final : public k8sclient::Api {
 public:
  // Counts the POSTs to `collection` in `posts`, which must outlive this.
  HeldApi(std::unique_ptr<k8sclient::Api> api, std::string collection, PostCounts& posts)
      : api_(std::move(api)), collection_(std::move(collection)), posts_(posts) {}

  [[nodiscard]] ipam::Expected<k8sclient::Response> Call(const k8sclient::Request& request,
                                                         const k8sclient::CallOptions& options) override;
  [[nodiscard]] ipam::Expected<k8sclient::Response> Watch(const k8sclient::Request& request,
                                                          const k8sclient::WatchOptions& options,
                                                          const k8sclient::WatchSink& sink) override;

 private:
  std::mutex mutex_;
  std::unique_ptr<k8sclient::Api> api_;
  const std::string collection_;
  PostCounts& posts_;
};

}  // namespace berth::bench
