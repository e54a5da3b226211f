// SPDX-License-Identifier: Apache-2.0
// The cache, and who is answered from it.
#include "sim/api_server.h"

#include <algorithm>
#include <charconv>
#include <memory>
#include <string_view>
#include <thread>
#include <utility>

namespace berth::sim {

using k8sclient::Method;
using k8sclient::Request;
using k8sclient::Response;
using nlohmann::json;

namespace {

constexpr std::chrono::seconds kVersionWait{3};

// The store keeps a kind's objects in one collection, whatever their namespace.
Request InStore(Request request) {
  constexpr std::string_view kNamespaces = "/namespaces/";
  const std::size_t begin = request.path.find(kNamespaces);
  if (begin == std::string::npos) return request;
  const std::size_t end = request.path.find('/', begin + kNamespaces.size());
  if (end != std::string::npos) request.path.erase(begin, end - begin);
  return request;
}

std::string QueryValue(const Request& request, const std::string& key) {
  const auto found = std::ranges::find(request.query, key, [](const auto& item) { return item.first; });
  return found == request.query.end() ? "" : found->second;
}

std::uint64_t ToNumber(const std::string& text) {
  std::uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

Response Gone(const std::string& why) {
  const json status = {
      {"kind", "Status"}, {"status", "Failure"}, {"code", 410}, {"reason", "Expired"}, {"message", why}};
  return {.status = 410, .body = status.dump()};
}

Response TooLarge() {
  const json causes = {{{"reason", "ResourceVersionTooLarge"}, {"message", "Too large resource version"}}};
  const json status = {{"kind", "Status"},
                       {"status", "Failure"},
                       {"code", 504},
                       {"reason", "Timeout"},
                       {"details", {{"causes", causes}, {"retryAfterSeconds", 1}}}};
  return {.status = 504, .body = status.dump()};
}

}  // namespace

ApiServer::ApiServer(k8sclient::testing::ModelApi& store, const std::string& name) : store_(store) {
  Spawn(std::make_shared<Process>(name), [this] { Fill(); });
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
    const json& metadata = change->before["metadata"];
    const std::string path = change->collection + "/" + metadata["name"].get<std::string>();
    // What is being deleted goes with its last finalizer.
    const bool is_going = metadata.contains("deletionTimestamp");
    const json last = {{"metadata", {{"finalizers", nullptr}}}};
    static_cast<void>(cache_.Call({.method = is_going ? Method::kPatch : Method::kDelete,
                                   .path = path,
                                   .body = is_going ? last.dump() : std::string()},
                                  {}));
  }
  happened_.notify_all();
}

void ApiServer::Restart() {
  const std::scoped_lock lock(mutex_);
  SeeAll();
  forgotten_ = seen_;
  cache_.Restore(*cache_.TakeBackup());
}

bool ApiServer::AwaitVersion(std::uint64_t version) {
  std::unique_lock lock(mutex_);
  return happened_.wait_for(lock, kVersionWait, [&] { return seen_ >= version; });
}

ipam::Expected<Response> ApiServer::Call(const Request& sent, const k8sclient::CallOptions& options) {
  const Request request = InStore(sent);
  const std::string version = QueryValue(request, "resourceVersion");
  if (request.method != Method::kGet || version.empty()) return store_.Call(request, options);
  if (QueryValue(request, "resourceVersionMatch") == "Exact") {
    return Gone("the resourceVersion is too old");
  }
  if (!AwaitVersion(ToNumber(version))) return TooLarge();
  return cache_.Call(request, options);
}

ipam::Expected<Response> ApiServer::Watch(const Request& sent, const k8sclient::WatchOptions& options,
                                          const k8sclient::WatchSink& sink) {
  const Request request = InStore(sent);
  const std::uint64_t version = ToNumber(QueryValue(request, "resourceVersion"));
  if (version < forgotten_) return Gone("too old resource version");
  if (!AwaitVersion(version)) return TooLarge();
  return cache_.Watch(request, options, sink);
}

}  // namespace berth::sim
