// SPDX-License-Identifier: Apache-2.0
// PlanPatch: from the newest version of a block and the changes that are due to the patch that is sent.
//
// The patch carries what is to be put back, what was handed out, each change of the round that can be applied, and a
// new choice of standby.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "agent_core/block_state.h"

namespace berth::agent_core {

struct PlanOptions {
  std::size_t standby = 0;  // so many addresses are kept on standby; 0: none
  std::string agent = {};   // `agent` of the block from now on; empty: as it is
};

struct Plan {
  ipam::BlockView before;
  ipam::Block after;
  std::vector<Waiting> applied;                    // of the round's changes
  std::vector<std::pair<Waiting, Error>> refused;  // the others, which cannot be applied
  std::map<ipam::BlockOffset, ipam::Attachment> carried;
  ipam::OffsetSet leaving;
  std::set<ipam::Attachment> touched;             // whose entries the patch adds, changes or takes out
  std::vector<ipam::BlockOffset> given_back;      // of what is to be put back: the changes free these addresses
  std::optional<ipam::StandbyPlan> standby_plan;  // as BlockState keeps it
};

[[nodiscard]] Plan PlanPatch(const BlockState& state, const Round& round, const PlanOptions& options);

}  // namespace berth::agent_core
