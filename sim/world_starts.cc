// SPDX-License-Identifier: Apache-2.0
// Agents that are replaced, and agents that start while some of their requests fail (fault `starting`).
#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>
#include <spdlog/fmt/fmt.h>

#include "crds/names.h"
#include "reconciler/read_holders.h"
#include "sim/files.h"
#include "sim/scheduler.h"
#include "sim/world.h"

namespace berth::sim {

using std::chrono::milliseconds;

void World::ReplaceAgent(Machine& machine, bool overlaps) {
  if (agents_left_ == 0) return;
  --agents_left_;
  ++kills_;
  if (overlaps) return machine.node.StartAgent();
  machine.node.KillAgent();
  std::this_thread::sleep_for(milliseconds(Below(2) == 0 ? 0 : Below(500)));
  machine.node.StartAgent();
}

std::vector<std::string> World::BlocksOf(const std::string& node) const {
  std::vector<std::string> names;
  for (const nlohmann::json& block : store_.Objects(std::string(crds::kBlocksPath))) {
    if (block["spec"].value("node", "") == node) names.push_back(block["metadata"]["name"]);
  }
  return names;
}

void World::TroubleStart(Machine& machine) {
  const auto blocks = BlocksOf(machine.node.name());
  const bool may_be = May("starting") && !blocks.empty() && troubled_starts_left_ > 0 && !is_editing_;
  if (!may_be || machine.is_starting || machine.link.trouble() != Link::Trouble()) return;
  // The fault is more likely if an earlier agent left notes of unwritten addresses, which a defect in the start would
  // lose.
  const bool has_notes =
      !FilesIn(fmt::format("{}/run/nodes/{}/handed-out", machine.folder, machine.node.name())).empty();
  if (!has_notes && Below(4) != 0) return;
  --troubled_starts_left_;
  // If a list fails, the agent begins again after 20 s; if a patch fails, after 1 s.
  constexpr Nanos kBeginsAgain = std::chrono::seconds(20);
  const bool is_list = blocks.size() == 1 || Below(2) == 0;
  Link::Trouble trouble{.path = std::string(Below(2) == 0 ? crds::kPoolsPath : reconciler::kNodesPath), .failed = 1000};
  if (!is_list) {
    // Either all patches of one block fail, or half of the patches of all blocks.
    trouble = {.path = std::string(crds::kBlocksPath), .method = k8sclient::Method::kPatch, .failed = 500};
    if (Below(2) == 0) trouble.path += "/" + blocks[Below(blocks.size())], trouble.failed = 1000;
  }
  const Nanos at_least = is_list ? kBeginsAgain : Nanos(0);
  const Nanos more = milliseconds(1 + Below(is_list ? 40'000 : 20'000));
  const Nanos time = at_least + more;
  const Nanos killed_after = at_least + Nanos(Below(static_cast<std::uint64_t>(more.count())));
  const Nanos until_killed = Below(4) == 0 ? Nanos::max() : killed_after;
  story_.Tell(fmt::format("{} of {} by {} fail", ToString(trouble.method), trouble.path, machine.node.name()));
  machine.is_starting = true;
  machine.link.Set(trouble);
  Spawn(outside_, [this, &machine, trouble, time, until_killed] {
    std::this_thread::sleep_for(std::min(until_killed, time));
    if (until_killed <= time && !machine.node.is_off() && !is_editing_) {
      ++kills_;
      machine.node.KillAgent();
      machine.node.StartAgent();
    }
    std::this_thread::sleep_for(time - std::min(until_killed, time));
    // A person may replace a pool meanwhile, which sets another trouble.
    if (machine.link.trouble() == trouble) machine.link.Set(Link::Trouble());
    machine.is_starting = false;
  });
}

bool World::ReplaceMeanwhile(Machine& machine, std::uint64_t one_in) {
  const bool may_be = meanwhiles_left_ > 0 && !is_editing_ && !machine.is_left_alone() && !machine.node.is_off();
  if (!may_be || Below(one_in) != 0) return false;
  --meanwhiles_left_;
  ++kills_;
  Spawn(outside_, [this, &machine, overlaps = May("overlap") && Below(2) == 0] {
    std::this_thread::sleep_for(std::chrono::microseconds(Below(Below(4) == 0 ? 100'000 : 1'000)));
    if (machine.node.is_off() || is_editing_) return;
    if (!overlaps) machine.node.KillAgent();
    machine.node.StartAgent();
  });
  return true;
}

// If the agent were killed or replaced before it notices the loss, another pod could get an address that is not written
// yet (docs/failures.md).
void World::EmptyRun(Machine& machine) {
  if (!machine.node.has_agents() || !machine.node.IsServing() || machine.node.living() != 1) return;
  is_editing_ = true;
  machine.node.EmptyRun();
  const Nanos end = Now() + 2min;
  while (machine.node.IsServing()) {
    if (Now() > end) return story_.Break("emptied", machine.node.called() + "'s agent serves without its files");
    std::this_thread::sleep_for(50ms);
  }
  is_editing_ = false;
}

}  // namespace berth::sim
