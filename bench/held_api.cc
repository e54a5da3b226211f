// SPDX-License-Identifier: Apache-2.0
// A lock before the call, a wait in place of the watch.
#include "bench/held_api.h"

#include <condition_variable>

namespace berth::bench {

using ipam::Expected;

Expected<k8sclient::Response> HeldApi::Call(const k8sclient::Request& request, const k8sclient::CallOptions& options) {
  const bool is_post = request.method == k8sclient::Method::kPost && request.path == collection_;
  if (is_post) ++posts_.sent;
  const std::lock_guard lock(mutex_);
  auto response = api_->Call(request, options);
  constexpr int kCreated = 201;
  constexpr int kConflict = 409;
  if (is_post && response && response->status == kCreated) ++posts_.created;
  if (is_post && response && response->status == kConflict) ++posts_.refused;
  return response;
}

Expected<k8sclient::Response> HeldApi::Watch(const k8sclient::Request& /*request*/,
                                             const k8sclient::WatchOptions& options,
                                             const k8sclient::WatchSink& /*sink*/) {
  std::mutex mutex;
  std::condition_variable_any stopped;
  std::unique_lock lock(mutex);
  stopped.wait(lock, options.stop, [] { return false; });
  return ipam::Fail(ipam::ErrorCode::kTimeout, "stopped");
}

}  // namespace berth::bench
