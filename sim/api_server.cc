// SPDX-License-Identifier: Apache-2.0
// Fills the cache, and decides which requests the cache answers.
#include "sim/api_server.h"

#include <algorithm>
#include <memory>
#include <thread>
#include <utility>

namespace berth::sim {

using k8sclient::Method;
using k8sclient::Request;
using k8sclient::Response;
using k8sclient::testing::Parameter;
using k8sclient::testing::ToVersion;

namespace {

constexpr std::chrono::seconds kVersionWait{3};

}  // namespace

ApiServer::ApiServer(k8sclient::testing::ModelApi& store, const std::string& name) : store_(store) {
  Spawn(std::make_shared<Process>(name), [this] { Fill(); });
}

std::chrono::sys_seconds ApiServer::Date() const {
  return std::chrono::sys_seconds(std::chrono::floor<std::chrono::seconds>(Calendar() + clock_error_));
}

void ApiServer::Learn(std::shared_ptr<const Change> change) {
  const std::scoped_lock lock(mutex_);
  unseen_.push_back(std::move(change));
  happened_.notify_all();
}

void ApiServer::Fill() {
  while (true) {
    {
      std::unique_lock lock(mutex_);
      happened_.wait(lock, [this] { return !unseen_.empty(); });
    }
    const auto most = static_cast<std::uint64_t>(std::max<Nanos::rep>(lag_.count(), 1));
    std::this_thread::sleep_for(Nanos(Below(4) == 0 ? Below(most) : Below(most / 100 + 1)));
    const std::scoped_lock lock(mutex_);
    SeeAll();
  }
}

void ApiServer::SeeAll() {
  for (const auto& change : std::exchange(unseen_, {})) {
    ++seen_;
    if (!change->after.is_null()) {
      cache_.Put(change->collection, change->after);
      continue;
    }
    cache_.Remove(change->collection, k8sclient::testing::KeyOf(change->before));
  }
  happened_.notify_all();
}

void ApiServer::Restart() {
  const std::scoped_lock lock(mutex_);
  SeeAll();
  cache_.Restore(*cache_.TakeBackup());
}

void ApiServer::Reload(const k8sclient::testing::ModelApi::Backup& now) {
  const std::scoped_lock lock(mutex_);
  unseen_.clear();
  cache_.Restore(now);
  seen_ = now.version;
}

void ApiServer::AwaitVersion(std::uint64_t version) {
  std::unique_lock lock(mutex_);
  happened_.wait_for(lock, kVersionWait, [&] { return seen_ >= version; });
}

Expected<Response> ApiServer::Call(const Request& request, const k8sclient::CallOptions& options) {
  auto response = Answer(request, options);
  if (response) response->date = Date();
  return response;
}

Expected<Response> ApiServer::Answer(const Request& request, const k8sclient::CallOptions& options) {
  const std::string version = Parameter(request, "resourceVersion");
  const bool is_exact = Parameter(request, "resourceVersionMatch") == "Exact";
  if (request.method != Method::kGet || version.empty() || is_exact) return store_.Call(request, options);
  AwaitVersion(ToVersion(version).value_or(0));
  return cache_.Call(request, options);
}

Expected<Response> ApiServer::Watch(const Request& request, const k8sclient::WatchOptions& options,
                                    const k8sclient::WatchSink& sink) {
  const auto began = Date();
  auto response = cache_.Watch(request, options, sink);
  if (response) response->date = began;
  return response;
}

}  // namespace berth::sim
