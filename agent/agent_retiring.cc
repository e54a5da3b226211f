// SPDX-License-Identifier: Apache-2.0
// Retire: an agent leaves its node to berth-direct (docs/adr/0007).
#include <utility>
#include <variant>

#include "agent/agent.h"
#include "agent/call_runtime.h"
#include "ipam/entry.h"
#include "node/del_queue.h"
#include "node/direct_store.h"
#include "node/node_mode.h"
#include "node/recent_view.h"

namespace berth::agent {

namespace {

constexpr std::chrono::seconds kRetirePause{1};

// Returns the block without names of network namespaces: without `ns=` in held entries, and without the freed entries
// that the controller appended to cooling entries for the node's agent.
ipam::Block WithoutNetns(const ipam::Block& block) {
  ipam::Block after = block;
  for (auto& [offset, text] : after.allocations) {
    ipam::Entry entry = ipam::ParseEntry(text);
    auto* const held = std::get_if<ipam::HeldEntry>(&entry);
    auto* const cooling = std::get_if<ipam::CoolingEntry>(&entry);
    const bool has_netns = held != nullptr && !held->netns.empty();
    const bool has_freed = cooling != nullptr && !cooling->freed.empty();
    if (has_netns) held->netns.clear();
    if (has_freed) cooling->freed.clear();
    // FormatEntry fails only for entries that are too long, and this entry has become shorter.
    if (has_netns || has_freed) text = ipam::FormatEntry(entry).value_or(text);
  }
  return after;
}

// No agent looks for network namespaces in direct mode. If a name of a network namespace were left in a block, the
// controller would wait for an agent for ever, and would not delete the block.
Expected<void> RemoveNetns(k8sclient::Api& api, const OwnBlocks& own) {
  for (const ipam::BlockView& block : own.Snapshot()) {
    const ipam::Block after = WithoutNetns(*block);
    if (after.allocations == block->allocations) continue;
    const auto written = node::PatchBlock(api, *block, after, k8sclient::CallOptions::Within(kRequestMax));
    if (!written && written.error().code != ErrorCode::kNotFound) return std::unexpected(written.error());
  }
  return {};
}

}  // namespace

Expected<void> Agent::Retire(std::chrono::milliseconds limit) {
  const SteadyTime end = clock_.Now() + limit;
  view_.Start();
  flusher_ = std::jthread([this] { own_.RunFlusher(); });
  while (true) {
    auto retired = RetireOnce(end);
    if (retired || own_.stopped() || clock_.Now() + kRetirePause >= end) return retired;
    static_cast<void>(clock_.Sleep(kRetirePause, {}));
  }
}

Expected<void> Agent::RetireOnce(SteadyTime end) {
  auto loaded = has_taken_over_ ? Expected<void>() : TakeOver();
  if (loaded) loaded = LoadOnce();
  if (!loaded) return loaded;
  own_.WriteHandedOut();
  own_.AwaitDeferred(end);
  // From here on no other agent can take over the node, and no DEL can be queued.
  const auto ownership = directory_.HoldNodeOwnership(own_.instance());
  if (!ownership) return std::unexpected(ownership.error());
  const auto queue = node::DelQueue::Lock(state_, /*deadline=*/0);
  if (!queue) return std::unexpected(queue.error());
  const auto queued = queue->Calls();
  if (!queued) return std::unexpected(queued.error());
  if (const auto quarantined = quarantine_.Names(); !quarantined.empty()) {
    return Fail(ErrorCode::kUnavailable,
                "block " + *quarantined.begin() + " is quarantined: the agent cannot read or write it",
                "correct or delete the block: the log says what is wrong with it");
  }
  const std::size_t dels = journal_->Size() + queued->size();
  const std::size_t adds = own_.HandedOut().size();
  if (dels > 0 || adds > 0) {
    return Fail(
        ErrorCode::kUnavailable,
        std::to_string(dels) + " DELs and " + std::to_string(adds) + " ADDs that were answered are not written yet",
        "check the API server: the log has its answers");
  }
  if (auto removed = RemoveNetns(api_, own_); !removed) return removed;
  // The version and the recent view of direct mode are older than this agent's writes.
  directory_.WriteVersion("");
  node::RecentView(directory_, /*is_kept=*/true).Forget();
  return node::WriteMode(state_, node::NodeMode::kDirect);
}

}  // namespace berth::agent
