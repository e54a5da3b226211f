// SPDX-License-Identifier: Apache-2.0
// The pools of a history: which pools networks name and pods request, selectors, and a pool that a person replaces by
// one with another block size while some nodes do not see the change.
#include <algorithm>
#include <array>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>
#include <spdlog/fmt/fmt.h>

#include "crds/names.h"
#include "ipam/entry.h"
#include "sim/scheduler.h"
#include "sim/world.h"

namespace berth::sim {

using namespace std::chrono_literals;
using nlohmann::json;
using std::chrono::milliseconds;

void World::ReplacePool(const Machine& machine) {
  if (!may_replace_pool_ || replacements_left_ == 0 || replacing_pool_ > 0) return;
  --replacements_left_;
  ++replacing_pool_;
  Spawn(outside_, [this, name = machine.kubelet.AnyPool()] {
    ReplacePoolNow(name);
    --replacing_pool_;
  });
}

void World::ReplacePoolNow(const std::string& name) {
  if (!pools_.IsThere(name)) return;  // replaced before, and this node does not use the new pool yet
  story_.Tell("drains pool " + name);
  const auto hold = [this](bool is_held) {
    for (const auto& machine : machines_) machine->kubelet.Hold(is_held);
  };
  hold(true);
  AwaitUnused(name);
  std::vector<Machine*> stale;
  std::vector<Machine*> others;
  for (const auto& machine : machines_) (Below(3) != 0 ? stale : others).push_back(machine.get());
  TroublePools(stale);
  if (Below(2) == 0) hold(false);
  // More containers start now, because in most histories all containers would have started by now.
  for (Machine* const machine : stale) StartMore(*machine, milliseconds(Below(5'000)));
  pools_.Delete(name);
  const bool is_impatient = May("give-back") && Below(4) != 0;
  while (pools_.IsThere(name)) {
    for (const auto& machine : machines_) machine->kubelet.EndSettled();
    ReleaseByHand();
    if (is_impatient) GiveBackBlocksOf(name);
    std::this_thread::sleep_for(milliseconds(Below(100)));
  }
  story_.Tell("pool " + name + " is gone");
  hold(false);
  for (Machine* const machine : stale) StartMore(*machine, milliseconds(Below(5'000)));
  if (Below(2) == 0) std::this_thread::sleep_for(milliseconds(Below(1'000)));
  const std::string next = pools_.MakeAgain(name);
  for (Machine* const machine : others) {
    machine->kubelet.RenamePool(name, next);
    StartMore(*machine, milliseconds(Below(1'000)));
  }
  for (Machine* const machine : stale) ComeToUse(*machine, name, next);
}

void World::AddIpv6(PodNetwork& network) const {
  network.families = 1;
  if (Below(4) == 0) return;
  network.families = 2;
  // A network may have Shared blocks of one family and blocks of its node of the other family.
  const char* const pool = May("shared") && Below(3) == 0 ? kSharedIpv6Pool : kIpv6Pool;
  network.pools.push_back(network.space == kSecondSpace ? kGreenIpv6Pool : pool);
  // If a person may replace a pool, this pool stays the first one.
  if (!may_replace_pool_ && Below(3) == 0) std::ranges::rotate(network.pools, network.pools.end() - 1);
}

void World::UseSecondSpace(PodNetwork& network) const {
  network.space = kSecondSpace;
  network.pools = {May("shared") && Below(3) == 0 ? kSharedGreenPool : kGreenPool};
}

std::function<Addresses(const PodNetwork&)> World::AnyRequests() const {
  if (!has_requests_) return nullptr;
  return [this](const PodNetwork& network) { return pools_.AnyRequest(network.pools); };
}

bool World::MayLoseBlocks() const {
  static const std::set<std::string> kHarmless = {
      "block-limit", "calendar",  "check",  "clocks",    "compact", "direct", "dual-stack", "edit",
      "gc",          "lag",       "no-del", "odd-pods",  "odd-uid", "pause",  "pools",      "requests",
      "sandbox",     "scheduler", "second", "selectors", "shared",  "spaces"};
  return !std::ranges::includes(kHarmless, extent_.faults);
}

void World::EditSelectors(const Machine& machine) {
  // Selectors would change the right address counts, and a restored backup would undo the edit.
  if (has_scheduler_ || has_backups_) return;
  const char* const value = kLabelValues.at(Below(kLabelValues.size()));
  switch (Below(3)) {
    case 0:
      return cluster_.LabelNode(machine.node.name(), kNodeLabel, value);
    case 1:
      return cluster_.LabelNamespace(kNamespaceLabel, value);
    default:
      return pools_.EditSelector();
  }
}

void World::StartMore(Machine& machine, Nanos after) {
  // Another machine has taken over this machine's name.
  if (machine.kubelet.process()->is_dead) return;
  constexpr std::uint64_t kContainers = 12;
  for (const char* const caller : {"a", "b"}) {
    ++machine.churning;
    Spawn(machine.kubelet.process(),
          [&machine, after, name = fmt::format("{}r{}{}", machine.node.called(), ++more_, caller)] {
            std::this_thread::sleep_for(after);
            machine.kubelet.Churn(name, static_cast<int>(1 + Below(kContainers)));
            --machine.churning;
          });
  }
}

void World::AwaitUnused(const std::string& pool) {
  const auto is_held = [](const json& text) { return !ipam::AttachmentOf(text.get_ref<const std::string&>()).empty(); };
  const auto is_used = [&](const json& block) {
    return block["spec"]["pool"] == pool && std::ranges::any_of(block["allocations"], is_held);
  };
  // An address without a DEL is freed after minutes. By then all containers of the history would have started.
  const Nanos end = Now() + 30s;
  while (Now() < end && std::ranges::any_of(store_.Objects(std::string(crds::kBlocksPath)), is_used)) {
    for (const auto& machine : machines_) machine->kubelet.EndSettled();
    std::this_thread::sleep_for(milliseconds(Below(300)));
  }
}

void World::GiveBackBlocksOf(const std::string& pool) {
  for (const json& block : store_.Objects(std::string(crds::kBlocksPath))) {
    if (block["spec"]["pool"] == pool) GiveBack(block);
  }
}

void World::TroublePools(const std::vector<Machine*>& machines) {
  constexpr std::array<std::uint64_t, 3> kFailed{0, 300, 900};
  for (Machine* const machine : machines) {
    machine->link.Set(Link::Trouble{.path = std::string(crds::kPoolsPath),
                                    .failed = kFailed.at(Below(kFailed.size())),
                                    .late = milliseconds(Below(2) == 0 ? 10 : 4'000),
                                    .is_held = Below(4) != 0});
  }
}

void World::ComeToUse(Machine& machine, const std::string& before, const std::string& pool) {
  ++replacing_pool_;
  Spawn(outside_, [this, &machine, before, pool] {
    std::this_thread::sleep_for(milliseconds(Below(20'000)));
    machine.kubelet.RenamePool(before, pool);
    std::this_thread::sleep_for(milliseconds(Below(Below(2) == 0 ? 100 : 10'000)));
    machine.link.Set(Link::Trouble());
    --replacing_pool_;
  });
}

}  // namespace berth::sim
