// SPDX-License-Identifier: Apache-2.0
// Retire: an agent leaves its node to berth-direct (docs/adr/0007).
#include <utility>

#include "agent/agent.h"
#include "agent/call_runtime.h"
#include "node/del_queue.h"
#include "node/node_mode.h"
#include "node/recent_view.h"

namespace berth::agent {

namespace {

constexpr std::chrono::seconds kRetirePause{1};

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
  // The version and the recent view of direct mode are older than this agent's writes.
  directory_.WriteVersion("");
  node::RecentView(directory_, /*is_kept=*/true).Forget();
  return node::WriteMode(state_, node::NodeMode::kDirect);
}

}  // namespace berth::agent
