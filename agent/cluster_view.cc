// SPDX-License-Identifier: Apache-2.0
// The watches of pools, namespaces and the node.
#include "agent/cluster_view.h"

#include <nlohmann/json.hpp>
#include <spdlog/spdlog.h>

#include "agent/watch_thread.h"
#include "crds/names.h"
#include "crds/pool.h"

namespace berth::agent {

using nlohmann::json;

class ClusterView::Watch {
 public:
  Watch(k8sclient::Api& api, k8sclient::Clock& clock, k8sclient::ReflectorOptions options, WatchActions actions)
      : api_(api), clock_(clock), options_(std::move(options)), actions_(std::move(actions)) {}
  void Start() { thread_ = std::make_unique<WatchThread>(api_, clock_, options_, actions_); }
  void List(const std::stop_token& stop) { ListOnce(api_, clock_, options_, actions_, stop); }

 private:
  k8sclient::Api& api_;
  k8sclient::Clock& clock_;
  k8sclient::ReflectorOptions options_;
  WatchActions actions_;
  std::unique_ptr<WatchThread> thread_;
};

namespace {

// An object that cannot be understood counts as absent: an ADD then reads it and says what is wrong with it.
std::shared_ptr<const ipam::Pool> ToPool(const json& object) {
  auto pool = crds::ParsePool(object);
  if (!pool) {
    spdlog::warn("pool not understood pool={} err=\"{}\"", NameOf(object), pool.error().message);
    return nullptr;
  }
  return std::make_shared<const ipam::Pool>(*std::move(pool));
}

}  // namespace

ClusterView::ClusterView(k8sclient::Api& api, k8sclient::Clock& clock, std::string node, std::function<void()> changed)
    : node_(std::move(node)), changed_(std::move(changed)) {
  WatchPools(api, clock);
  WatchNamespaces(api, clock);
  WatchNode(api, clock);
}

void ClusterView::WatchPools(k8sclient::Api& api, k8sclient::Clock& clock) {
  WatchActions actions;
  actions.replace = [this](const std::vector<json>& objects) {
    std::map<std::string, std::shared_ptr<const ipam::Pool>> pools;
    for (const json& object : objects) {
      if (auto pool = ToPool(object)) pools[pool->name] = std::move(pool);
    }
    {
      const std::scoped_lock lock(mutex_);
      pools_ = std::move(pools);
      pools_listed_ = true;
      listed_.notify_all();
    }
    changed_();
  };
  actions.upsert = [this](const json& object) {
    auto pool = ToPool(object);
    {
      const std::scoped_lock lock(mutex_);
      if (pool == nullptr) {
        pools_.erase(NameOf(object));
      } else {
        pools_[pool->name] = std::move(pool);
      }
    }
    changed_();
  };
  actions.remove = [this](const json& object) {
    const std::scoped_lock lock(mutex_);
    pools_.erase(NameOf(object));
  };
  watches_.push_back(std::make_unique<Watch>(
      api, clock, k8sclient::ReflectorOptions{.path = std::string(crds::kPoolsPath)}, std::move(actions)));
}

void ClusterView::WatchNamespaces(k8sclient::Api& api, k8sclient::Clock& clock) {
  WatchActions actions;
  actions.replace = [this](const std::vector<json>& objects) {
    std::map<std::string, ipam::Labels> namespaces;
    for (const json& object : objects) namespaces[NameOf(object)] = LabelsOf(object);
    const std::scoped_lock lock(mutex_);
    namespaces_ = std::move(namespaces);
  };
  actions.upsert = [this](const json& object) {
    const std::scoped_lock lock(mutex_);
    namespaces_[NameOf(object)] = LabelsOf(object);
  };
  actions.remove = [this](const json& object) {
    const std::scoped_lock lock(mutex_);
    namespaces_.erase(NameOf(object));
  };
  watches_.push_back(
      std::make_unique<Watch>(api,
                              clock,
                              k8sclient::ReflectorOptions{.path = "/api/v1/namespaces", .metadata_only = true},
                              std::move(actions)));
}

void ClusterView::WatchNode(k8sclient::Api& api, k8sclient::Clock& clock) {
  const auto put = [this](const ipam::Labels& labels) {
    {
      const std::scoped_lock lock(mutex_);
      node_labels_ = labels;
      node_listed_ = true;
      listed_.notify_all();
    }
    changed_();
  };
  WatchActions actions;
  actions.replace = [put](const std::vector<json>& objects) {
    put(objects.empty() ? ipam::Labels{} : LabelsOf(objects.front()));
  };
  actions.upsert = [put](const json& object) { put(LabelsOf(object)); };
  actions.remove = [put](const json& /*object*/) { put({}); };
  watches_.push_back(std::make_unique<Watch>(
      api,
      clock,
      k8sclient::ReflectorOptions{
          .path = "/api/v1/nodes", .field_selector = "metadata.name=" + node_, .metadata_only = true},
      std::move(actions)));
}

ClusterView::~ClusterView() = default;

void ClusterView::Start() {
  for (const auto& watch : watches_) watch->Start();
}

void ClusterView::ListAll(const std::stop_token& stop) {
  for (const auto& watch : watches_) watch->List(stop);
}

bool ClusterView::IsListed() const {
  const std::scoped_lock lock(mutex_);
  return pools_listed_ && node_listed_;
}

bool ClusterView::WaitUntilListed(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  return listed_.wait_for(lock, limit, [this] { return pools_listed_ && node_listed_; });
}

std::vector<ipam::Pool> ClusterView::Pools(std::span<const std::string> names) const {
  std::vector<ipam::Pool> pools;
  const std::scoped_lock lock(mutex_);
  for (const std::string& name : names) {
    const auto found = pools_.find(name);
    if (found != pools_.end()) pools.push_back(*found->second);
  }
  return pools;
}

std::vector<ipam::Pool> ClusterView::AllPools() const {
  std::vector<ipam::Pool> pools;
  const std::scoped_lock lock(mutex_);
  for (const auto& [name, pool] : pools_) pools.push_back(*pool);
  return pools;
}

std::optional<ipam::Labels> ClusterView::NodeLabels() const {
  const std::scoped_lock lock(mutex_);
  if (!node_listed_) return std::nullopt;
  return node_labels_;
}

std::optional<ipam::Labels> ClusterView::NamespaceLabels(const std::string& name) const {
  const std::scoped_lock lock(mutex_);
  const auto found = namespaces_.find(name);
  if (found == namespaces_.end()) return std::nullopt;
  return found->second;
}

}  // namespace berth::agent
