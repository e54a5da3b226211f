// SPDX-License-Identifier: Apache-2.0
// WarmBlocks: claims a block before ADDs need it, where a pool has too few free addresses on this node, and a first one
// of each counted pool, whatever its warmAddresses: a Node without one would show the number 0.
//
// An ADD claims by itself where it finds none, and waits for that: this is what makes it rare.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <vector>

#include "agent/agent_store.h"
#include "agent/metrics.h"
#include "ipam/block.h"
#include "ipam/pool.h"
#include "k8sclient/clock.h"

namespace berth::agent {

class WarmBlocks {
 public:
  // A node that uses nothing of a small pool looks at a moment within looks_within whether it may claim. All must
  // outlive this.
  WarmBlocks(AgentStoreParts parts, k8sclient::Clock& clock, Metrics& metrics, std::chrono::milliseconds looks_within)
      : parts_(parts), clock_(clock), metrics_(metrics), looks_within_(looks_within) {}

  // A round over all pools, of one thread. False: the answer to a claim was lost, so a block may be there that nobody
  // tells of.
  [[nodiscard]] bool Claim();

  // After an ADD has taken an address, from any thread: whether a round has something to look at.
  [[nodiscard]] bool NeedsRound() { return spare_.fetch_sub(1) <= 0 || HasNews(); }
  // Blocks have come or gone since the last round began.
  [[nodiscard]] bool HasNews() const { return parts_.own.Generation() != generation_; }
  // The last round found too few free addresses in a pool, whether it claimed a block or could not.
  [[nodiscard]] bool lacks() const { return spare_ < 0; }

 private:
  // How many addresses there are beyond those to be kept ready; 0 or less: a block was claimed, or cannot be.
  std::int64_t ClaimFor(const ipam::Pool& pool, const std::vector<ipam::BlockView>& blocks);
  [[nodiscard]] bool MayClaimMore(const ipam::Pool& pool, bool is_used, AgentStore& store);

  AgentStoreParts parts_;
  k8sclient::Clock& clock_;
  Metrics& metrics_;
  const std::chrono::milliseconds looks_within_;
  // So many ADDs make no round necessary, as long as no block comes or goes.
  std::atomic<std::int64_t> spare_ = 0;
  std::atomic<std::uint64_t> generation_ = 0;
  bool is_lost_ = false;  // the answer to a claim of this round
};

}  // namespace berth::agent
