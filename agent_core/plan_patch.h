// SPDX-License-Identifier: Apache-2.0
// PlanPatch makes the next patch of a block from the block's newest known version and the changes of a round.
//
// The patch contains the entries to restore, the handed-out addresses, each change of the round that can be applied,
// and a new choice of addresses on standby.
#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "agent_core/block_state.h"

namespace berth::agent_core {

struct PlanOptions {
  std::size_t standby = 0;  // how many addresses the patch keeps on standby
  std::string agent = {};   // new value of the block's field `agent`; empty: the patch keeps the value
};

struct Plan {
  ipam::BlockView before;
  ipam::Block after;
  std::vector<PendingChange> applied = {};                    // changes of the round that the patch contains
  std::vector<std::pair<PendingChange, Error>> refused = {};  // the other changes, which cannot be applied
  ipam::OffsetSet carried = {};                               // handed-out addresses that the patch carries
  ipam::OffsetSet leaving = {};
  std::set<ipam::Attachment> touched = {};         // attachments whose entries the patch adds, changes or removes
  std::vector<ipam::BlockOffset> given_back = {};  // offsets in `to_restore` that have no entry after the patch
  std::optional<ipam::StandbyPlan> standby_plan;   // the new value of BlockState::standby_plan
};

[[nodiscard]] Plan PlanPatch(const BlockState& state, const Round& round, const PlanOptions& options);

}  // namespace berth::agent_core
