// SPDX-License-Identifier: Apache-2.0
// Watches pools, namespaces and the Node, and reads pools.
#include "agent/cluster_view.h"

#include <string_view>
#include <utility>
#include <variant>

#include <nlohmann/json.hpp>
#include <spdlog/spdlog.h>

#include "base/mutex.h"
#include "base/resource_version.h"
#include "crds/names.h"
#include "crds/object_meta.h"
#include "crds/pool.h"
#include "crds/quantity.h"
#include "k8sclient/verbs.h"

namespace berth::agent {

using nlohmann::json;

namespace {

// A pool that cannot be parsed counts as absent: an ADD then reads it, and reports the error.
ipam::PoolView ToPool(const json& object) {
  auto pool = crds::ParsePool(object);
  if (!pool) {
    spdlog::warn("pool not understood pool={} err=\"{}\"", crds::NameOf(object), pool.error().message);
    return nullptr;
  }
  return std::make_shared<const ipam::Pool>(*std::move(pool));
}

std::uint64_t VersionOf(const json& object) {
  const auto meta = crds::ParseObjectMeta(object, crds::kPoolKind);
  return meta ? ParseVersion(meta->resource_version) : 0;
}

}  // namespace

ClusterView::ClusterView(k8sclient::Api& api, k8sclient::Clock& clock, std::string node, std::function<void()> changed)
    : api_(api), clock_(clock), node_(std::move(node)), changed_(std::move(changed)) {
  WatchPools();
  WatchNamespaces();
  WatchNode();
}

void ClusterView::WatchPools() {
  WatchActions actions;
  actions.listed = [this](const std::set<std::string>& names) {
    {
      const Lock lock(mutex_);
      std::erase_if(pools_, [&names](const auto& known) { return !names.contains(known.first); });
      pools_listed_ = true;
      listed_.notify_all();
    }
    changed_();
  };
  actions.upsert = [this](const json& object) {
    {
      const Lock lock(mutex_);
      Learn(object);
    }
    changed_();
  };
  actions.remove = [this](const json& object) {
    const Lock lock(mutex_);
    // Drop the result of ReadLatest: a late list may show the deleted pool once more, and Pools must not return it.
    proofs_.erase(crds::NameOf(object));
    const auto known = pools_.find(crds::NameOf(object));
    // A newer pool of this name may be known.
    if (known != pools_.end() && known->second.version <= VersionOf(object)) pools_.erase(known);
  };
  watches_.push_back({.options = {.path = std::string(crds::kPoolsPath)}, .actions = std::move(actions)});
}

void ClusterView::WatchNamespaces() {
  WatchActions actions;
  actions.listed = [this](const std::set<std::string>& names) {
    const Lock lock(mutex_);
    std::erase_if(namespaces_, [&names](const auto& known) { return !names.contains(known.first); });
  };
  actions.upsert = [this](const json& object) {
    const Lock lock(mutex_);
    namespaces_[crds::NameOf(object)] = crds::LabelsOf(object);
  };
  actions.remove = [this](const json& object) {
    const Lock lock(mutex_);
    namespaces_.erase(crds::NameOf(object));
  };
  watches_.push_back({.options = {.path = "/api/v1/namespaces", .metadata_only = true}, .actions = std::move(actions)});
}

void ClusterView::WatchNode() {
  const auto put = [this](const ipam::Labels& labels, std::map<std::string, std::int64_t> numbers) {
    {
      const Lock lock(mutex_);
      node_labels_ = labels;
      for (const auto& [resource, number] : numbers) {
        const auto before = node_numbers_.find(resource);
        if (before == node_numbers_.end() || before->second < number) numbers_rose_ = true;
      }
      node_numbers_ = std::move(numbers);
      node_listed_ = true;
      listed_.notify_all();
    }
    changed_();
  };
  WatchActions actions;
  actions.listed = [put](const std::set<std::string>& names) {
    if (names.empty()) put({}, {});
  };
  actions.upsert = [put](const json& object) { put(crds::LabelsOf(object), crds::AllocatableUnits(object)); };
  actions.remove = [put](const json& /*object*/) { put({}, {}); };
  watches_.push_back(
      {.options = {.path = "/api/v1/nodes",
                   .field_selector = "metadata.name=" + node_,
                   .fields = {.members = {{"spec", {.skipped = {"taints"}}}, {"status", {.skipped = {"images"}}}}}},
       .actions = std::move(actions)});
}

void ClusterView::Start() {
  for (Watch& watch : watches_) {
    watch.thread = std::make_unique<WatchThread>(api_, clock_, watch.options, watch.actions);
  }
}

void ClusterView::ListAll(const std::stop_token& stop) {
  for (const Watch& watch : watches_) ListOnce(api_, clock_, watch.options, watch.actions, stop);
}

bool ClusterView::WaitUntilListed(std::chrono::milliseconds limit) {
  Lock lock(mutex_);
  return listed_.wait_for(
      lock.native(), limit, [this]() BERTH_REQUIRES(mutex_) { return pools_listed_ && node_listed_; });
}

void ClusterView::Learn(const json& object) {
  const std::string name = crds::NameOf(object);
  const std::uint64_t version = VersionOf(object);
  const auto known = pools_.find(name);
  if (known != pools_.end() && known->second.version > version) return;
  if (auto pool = ToPool(object)) {
    pools_[name] = {.pool = std::move(pool), .version = version};
  } else {
    pools_.erase(name);
  }
}

Expected<ipam::PoolView> ClusterView::ReadLatest(const std::string& name, const k8sclient::CallOptions& options) {
  std::uint64_t read = 0;
  {
    const Lock lock(mutex_);
    read = ++reads_;
    ++reading_;
  }
  const auto object = k8sclient::Get(api_, k8sclient::ObjectPath(crds::kPoolsPath, name), options);
  const Lock lock(mutex_);
  auto pool = Conclude(name, read, object);
  // Results without a UID matter only to GETs under way. Drop them afterwards: a tenant may invent any number of names.
  if (--reading_ == 0) std::erase_if(proofs_, [](const auto& item) { return item.second.uid.empty(); });
  return pool;
}

Expected<ipam::PoolView> ClusterView::Conclude(const std::string& name, std::uint64_t read,
                                               const Expected<json>& object) {
  Proof& proof = proofs_[name];
  if (!object && object.error().code == ErrorCode::kNotFound) {
    const auto known = pools_.find(name);
    proof = {.uid = known == pools_.end() ? proof.uid : known->second.pool->uid, .exists = false, .read = reads_};
    return nullptr;
  }
  auto pool = object ? crds::ParsePool(*object) : std::unexpected(object.error().Within("get ippool " + name));
  if (!pool) {
    // The pool could not be read, and may have got a new block meanwhile: the pool counts as not found.
    proof = {.uid = proof.exists ? std::string() : proof.uid, .exists = false, .read = reads_};
    return std::unexpected(pool.error());
  }
  Learn(*object);
  // Ignore a GET that started before the pool was seen missing.
  if (read > proof.read) proof = {.uid = pool->uid, .exists = true, .read = read};
  return std::make_shared<const ipam::Pool>(*std::move(pool));
}

bool ClusterView::IsProved(const ipam::Pool& pool, bool exists) const {
  const auto proof = proofs_.find(pool.name);
  return proof != proofs_.end() && proof->second.uid == pool.uid && proof->second.exists == exists;
}

void ClusterView::Distrust() {
  const Lock lock(mutex_);
  proofs_.clear();
  shared_listed_at_ = 0;
  for (auto& [name, known] : pools_) known.version = 0;
}

std::vector<ipam::PoolView> ClusterView::Pools(std::span<const std::string> names) const {
  std::vector<ipam::PoolView> pools;
  const Lock lock(mutex_);
  for (const std::string& name : names) {
    const auto found = pools_.find(name);
    if (found != pools_.end() && IsProved(*found->second.pool, true)) pools.push_back(found->second.pool);
  }
  return pools;
}

void ClusterView::NoteSharedWrite() {
  const Lock lock(mutex_);
  ++shared_writes_;
}

ipam::BlockView ClusterView::Reuse(ipam::BlockView block) {
  const Lock lock(mutex_);
  const auto known = shared_seen_.try_emplace(block->uid, SharedBlock{.read = reads_, .view = {}}).first;
  if (ipam::BlockView view = known->second.view.lock(); view != nullptr && *view == *block) return view;
  known->second.view = block;
  return block;
}

std::uint64_t ClusterView::SharedWrites() const {
  const Lock lock(mutex_);
  return shared_writes_;
}

void ClusterView::NoteShared(std::uint64_t writes, std::span<const ipam::BlockView> blocks) {
  std::set<ipam::Attachment> attachments;
  for (const ipam::BlockView& block : blocks) {
    for (const auto& [offset, text] : block->allocations) {
      const std::string_view attachment = ipam::AttachmentOf(text);
      if (!attachment.empty()) attachments.emplace(attachment);
    }
  }
  const Lock lock(mutex_);
  std::unordered_map<std::string, SharedBlock> seen;
  for (const ipam::BlockView& block : blocks) {
    const auto before = shared_seen_.find(block->uid);
    seen.emplace(block->uid,
                 before == shared_seen_.end() ? SharedBlock{.read = reads_, .view = block} : before->second);
  }
  shared_seen_ = std::move(seen);
  shared_listed_at_ = writes;
  shared_attachments_ = std::move(attachments);
}

bool ClusterView::HasNoneInShared(const ipam::Attachment& attachment) const {
  const Lock lock(mutex_);
  return shared_listed_at_ == shared_writes_ && !shared_attachments_.contains(attachment);
}

ipam::PoolView ClusterView::PoolOf(const ipam::Block& block) const {
  const Lock lock(mutex_);
  const auto known = pools_.find(block.pool);
  const auto seen = shared_seen_.find(block.uid);
  if (known == pools_.end() || known->second.pool->uid != block.pool_uid || seen == shared_seen_.end()) return nullptr;
  const bool is_proved = IsProved(*known->second.pool, true) && proofs_.at(block.pool).read > seen->second.read;
  return is_proved ? known->second.pool : nullptr;
}

std::size_t ClusterView::CountProofs() const {
  const Lock lock(mutex_);
  return proofs_.size();
}

std::vector<ipam::PoolView> ClusterView::AllPools() const {
  std::vector<ipam::PoolView> pools;
  const Lock lock(mutex_);
  for (const auto& [name, known] : pools_) {
    if (!IsProved(*known.pool, false)) pools.push_back(known.pool);
  }
  return pools;
}

ipam::Labels ClusterView::NodeLabels() const {
  const Lock lock(mutex_);
  return node_labels_;
}

std::optional<std::map<std::string, std::int64_t>> ClusterView::TakeRisenNumbers() {
  const Lock lock(mutex_);
  if (!std::exchange(numbers_rose_, false)) return std::nullopt;
  return node_numbers_;
}

std::optional<ipam::Labels> ClusterView::NamespaceLabels(const std::string& name) const {
  const Lock lock(mutex_);
  const auto found = namespaces_.find(name);
  if (found == namespaces_.end()) return std::nullopt;
  return found->second;
}

}  // namespace berth::agent
