// SPDX-License-Identifier: Apache-2.0
// Compares and swaps like the API server, and injects faults.
#include "ipam/model_block_store.h"

#include <algorithm>

#include "base/check.h"

namespace berth::ipam {

Expected<BlockView> ModelCluster::Commit(const Block& block) {
  const auto existing = blocks.find(block.name);
  if (block.resource_version.empty()) {
    if (existing != blocks.end()) return Fail(ErrorCode::kAlreadyExists, "block " + block.name + " exists");
  } else {
    if (existing == blocks.end()) return Fail(ErrorCode::kNotFound, "block " + block.name + " does not exist");
    if (existing->second->resource_version != block.resource_version) {
      return Fail(ErrorCode::kConflict, "block " + block.name + " has changed");
    }
  }
  Block stored = block;
  // Like a merge patch: entries that the caller did not see stay as they are.
  for (auto& [offset, text] : stored.allocations) {
    if (text == kHiddenEntry) text = existing->second->allocations.at(offset);
  }
  // Like the real API server: if the content is equal, the version does not change.
  if (existing != blocks.end() && *existing->second == stored) return existing->second;
  stored.resource_version = std::to_string(++version);
  if (stored.uid.empty()) stored.uid = "uid-" + stored.resource_version;
  return blocks[block.name] = std::make_shared<const Block>(std::move(stored));
}

void ModelBlockStore::ReleaseLateWrites() {
  for (const Block& block : late_writes_) static_cast<void>(cluster_.Commit(block));
  late_writes_.clear();
}

Expected<std::vector<PoolView>> ModelBlockStore::ReadPools(std::span<const std::string> names, Freshness freshness) {
  ++reads;
  std::vector<PoolView> pools;
  const auto add = [&](const Pool& pool) {
    if (std::ranges::find(names, pool.name) != names.end()) pools.push_back(std::make_shared<const Pool>(pool));
  };
  if (freshness == Freshness::kHint && stale_pools) {
    std::ranges::for_each(*stale_pools, add);
  } else {
    for (const auto& [name, pool] : cluster_.pools) add(pool);
  }
  return pools;
}

Expected<Labels> ModelBlockStore::ReadNodeLabels() {
  ++reads;
  return cluster_.nodes[node_];
}

Expected<Labels> ModelBlockStore::ReadNamespaceLabels(const std::string& name) {
  ++reads;
  const auto found = cluster_.namespaces.find(name);
  if (found == cluster_.namespaces.end()) return Fail(ErrorCode::kNotFound, "namespace " + name + " does not exist");
  return found->second;
}

Expected<std::vector<BlockView>> ModelBlockStore::ReadBlocks(BlockScope scope, Freshness freshness) {
  ++reads;
  std::vector<BlockView> blocks;
  if (freshness == Freshness::kHint && stale_blocks) {
    blocks = *stale_blocks;
  } else {
    for (const auto& [name, block] : cluster_.blocks) blocks.push_back(block);
  }
  const std::string& wanted = scope == BlockScope::kOwn ? node_ : std::string();
  std::erase_if(blocks, [&wanted](const BlockView& block) { return block->node != wanted; });
  for (BlockView& block : blocks) block = Seen(*block);
  return blocks;
}

Expected<PoolView> ModelBlockStore::PoolOf(const PoolView& pool, const BlockView& /*block*/) {
  const auto found = cluster_.pools.find(pool->name);
  if (found != cluster_.pools.end() && found->second.uid == pool->uid)
    return std::make_shared<const Pool>(found->second);
  return Fail(ErrorCode::kInvalid, "pool " + pool->name + " was deleted meanwhile");
}

Expected<std::vector<Prefix>> ModelBlockStore::ReadBlockCidrs(const std::string& space) {
  ++reads;
  std::vector<Prefix> cidrs;
  for (const auto& [name, block] : cluster_.blocks) {
    if (block->space == space) cidrs.push_back(block->cidr);
  }
  return cidrs;
}

BlockView ModelBlockStore::Seen(Block block) const {
  HideEntriesOfOthers(block, node_);
  return std::make_shared<const Block>(std::move(block));
}

Expected<BlockView> ModelBlockStore::Write(const Block& block, const Attachment& attachment) {
  ++writes;
  const Fault fault = faults.empty() ? Fault::kNone : faults.front();
  if (!faults.empty()) faults.pop_front();
  const std::string id = attachment + "." + block.name;
  switch (fault) {
    case Fault::kUnavailable:
      return Fail(ErrorCode::kUnavailable, "API server away");
    case Fault::kLostAfterCommit:
      static_cast<void>(cluster_.Commit(block));
      break;
    case Fault::kLateCommit:
      late_writes_.push_back(block);
      break;
    case Fault::kNone: {
      auto committed = cluster_.Commit(block);
      const bool settles = committed || committed.error().code == ErrorCode::kAlreadyExists ||
                           committed.error().code == ErrorCode::kNotFound;
      if (settles) intents.erase(id);
      if (committed) return Seen(**committed);
      return committed;
    }
  }
  if (!attachment.empty()) intents[id] = {.id = id, .attachment = attachment, .block = block};
  return Fail(ErrorCode::kUnknownOutcome, "the answer was lost");
}

Expected<BlockView> ModelBlockStore::Edit(const BlockView& seen, const Change& change) {
  BlockView base = seen;
  while (true) {
    if (base->resource_version.empty()) {
      ++reads;
      const auto found = cluster_.blocks.find(base->name);
      if (found == cluster_.blocks.end()) return Fail(ErrorCode::kNotFound, "block " + base->name + " does not exist");
      base = Seen(*found->second);
    }
    Block changed = *base;
    if (auto applied = Apply(change, changed); !applied) {
      BERTH_CHECK(changed == *base);  // Apply changes nothing after an error
      return std::unexpected(applied.error());
    }
    if (changed == *base) {
      if (!change.fence) return base;
      Touch(changed);
    }
    auto written = Write(changed, change.attachment);
    if (written || written.error().code != ErrorCode::kConflict) return written;
    Block named = *base;
    named.resource_version.clear();
    base = std::make_shared<const Block>(std::move(named));
  }
}

Expected<BlockView> ModelBlockStore::Create(const Block& block) {
  BERTH_CHECK(block.allocations.empty());
  auto created = Write(block, /*attachment=*/"");
  if (created || created.error().code != ErrorCode::kAlreadyExists) return created;
  ++reads;
  BlockView existing = Seen(*cluster_.blocks.at(block.name));
  if (existing->node == block.node && existing->pool_uid == block.pool_uid) return existing;
  return created;
}

Expected<std::vector<OpenIntent>> ModelBlockStore::ReadOpenIntents(const Attachment& attachment) {
  std::vector<OpenIntent> open;
  for (const auto& [id, intent] : intents) {
    if (intent.attachment == attachment) open.push_back(intent);
  }
  return open;
}

Expected<void> ModelBlockStore::CloseIntent(const OpenIntent& intent) {
  intents.erase(intent.id);
  return {};
}

}  // namespace berth::ipam
