// SPDX-License-Identifier: Apache-2.0
// ClaimCounts: what became of the POSTs of agents that claim blocks, counted where the requests leave the agents.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "k8sclient/api.h"

namespace berth::bench {

struct ClaimTotals {
  std::size_t created = 0;
  std::size_t taken = 0;   // 409: a block of that name exists already
  std::size_t failed = 0;  // any other answer, or no answer
  [[nodiscard]] std::size_t posts() const { return created + taken + failed; }
};

// Any thread may call any member.
class ClaimCounts {
 public:
  void Note(const Expected<k8sclient::Response>& answer);

  [[nodiscard]] ClaimTotals Totals() const;

 private:
  mutable std::mutex mutex_;
  ClaimTotals totals_;
};

// Passes requests on, and counts what becomes of the POSTs to one collection.
class CountedApi final : public k8sclient::Api {
 public:
  // `counts` must outlive this.
  CountedApi(std::unique_ptr<k8sclient::Api> api, std::string collection, ClaimCounts& counts)
      : api_(std::move(api)), collection_(std::move(collection)), counts_(counts) {}

  [[nodiscard]] Expected<k8sclient::Response> Call(const k8sclient::Request& request,
                                                   const k8sclient::CallOptions& options) override;
  [[nodiscard]] Expected<k8sclient::Response> Watch(const k8sclient::Request& request,
                                                    const k8sclient::WatchOptions& options,
                                                    const k8sclient::WatchSink& sink) override;

 private:
  std::unique_ptr<k8sclient::Api> api_;
  const std::string collection_;
  ClaimCounts& counts_;
};

}  // namespace berth::bench
