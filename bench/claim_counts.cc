// SPDX-License-Identifier: Apache-2.0
// Counters behind one mutex, which is enough for thousands of requests.
#include "bench/claim_counts.h"

namespace berth::bench {

void ClaimCounts::Note(const Expected<k8sclient::Response>& answer) {
  constexpr int kCreated = 201;
  constexpr int kConflict = 409;
  const std::scoped_lock lock(mutex_);
  if (answer && answer->status == kCreated) {
    ++totals_.created;
  } else if (answer && answer->status == kConflict) {
    ++totals_.taken;
  } else {
    ++totals_.failed;
  }
}

ClaimTotals ClaimCounts::Totals() const {
  const std::scoped_lock lock(mutex_);
  return totals_;
}

Expected<k8sclient::Response> CountedApi::Call(const k8sclient::Request& request,
                                               const k8sclient::CallOptions& options) {
  auto response = api_->Call(request, options);
  if (request.method == k8sclient::Method::kPost && request.path == collection_) counts_.Note(response);
  return response;
}

Expected<k8sclient::Response> CountedApi::Watch(const k8sclient::Request& request,
                                                const k8sclient::WatchOptions& options,
                                                const k8sclient::WatchSink& sink) {
  return api_->Watch(request, options, sink);
}

}  // namespace berth::bench
