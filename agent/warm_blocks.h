// SPDX-License-Identifier: Apache-2.0
// WarmBlocks claims a block of a pool before ADDs need it, in two cases: the node has fewer free addresses of the pool
// than spec.warmAddresses; or the pool has spec.resource and no block on the node, so the Node shows no address of it.
//
// An ADD that finds no free address claims a block itself, and waits for the claim. WarmBlocks makes such ADDs rare.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <vector>

#include "agent/agent_store.h"
#include "agent/metrics.h"
#include "agent_core/retry_pause.h"
#include "ipam/block.h"
#include "ipam/pool.h"
#include "k8sclient/clock.h"

namespace berth::agent {

class WarmBlocks {
 public:
  // `looks_within`: see AgentOptions. The references must outlive this object.
  WarmBlocks(AgentStoreParts parts, k8sclient::Clock& clock, Metrics& metrics, std::chrono::milliseconds looks_within)
      : parts_(parts), clock_(clock), metrics_(metrics), looks_within_(looks_within) {}

  // Claims the blocks that the node needs. Called by the maintenance loop. Returns false if the answer to a claim was
  // lost, so that a block may exist that this agent does not know. After that, waits before the next claim as
  // RetryPause says.
  [[nodiscard]] bool Claim();

  // Call NeedsRound once after each ADD that has taken an address, from any thread. Returns whether Claim has to run.
  [[nodiscard]] bool NeedsRound() { return spare_.fetch_sub(1) <= 0 || HasNews(); }
  // Whether blocks were added or forgotten since the last Claim began.
  [[nodiscard]] bool HasNews() const { return parts_.own.Generation() != generation_; }
  // Whether the last Claim found too few free addresses in a pool, even if it claimed a block.
  [[nodiscard]] bool lacks() const { return spare_ < 0; }

 private:
  // Returns the node's free addresses minus warmAddresses. A negative number: a block was claimed, or cannot be
  // claimed. The largest number: addresses are missing, but the node must not claim a block now (MayClaimMore).
  std::int64_t ClaimFor(const ipam::Pool& pool, const std::vector<ipam::BlockView>& blocks);
  [[nodiscard]] bool MayClaimMore(const ipam::Pool& pool, bool is_used, AgentStore& store);

  AgentStoreParts parts_;
  k8sclient::Clock& clock_;
  Metrics& metrics_;
  const std::chrono::milliseconds looks_within_;
  // This many ADDs need no Claim, as long as no block is added or forgotten.
  std::atomic<std::int64_t> spare_ = 0;
  std::atomic<std::uint64_t> generation_ = 0;
  bool is_lost_ = false;  // the last Claim may have created a block that is not in memory
  agent_core::RetryPause pause_;
};

}  // namespace berth::agent
