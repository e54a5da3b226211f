// SPDX-License-Identifier: Apache-2.0
// World: waits until the address counts of Nodes are right, and lets many pods come at once.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include <spdlog/fmt/fmt.h>

#include "crds/names.h"
#include "ipam/prefix.h"
#include "reconciler/read_holders.h"
#include "sim/scheduler.h"
#include "sim/world.h"

namespace berth::sim {

using namespace std::chrono_literals;
using nlohmann::json;

void World::AwaitNumbers() {
  // A controller may first have to notice that its watch is deaf, which takes half a minute. Then it lowers an address
  // count after 5 s at the earliest, may remove it for 3 s first, and writes a calm Node at most once in 10 s.
  constexpr Nanos kNumbersMax = 90s;
  // The right counts may still change while addresses cool. After `last`, the counts have to be right even so.
  const Nanos last = Now() + pools_.cooldown() + 2 * kNumbersMax;
  auto expected = counted_.ExpectedOfNodes();
  Nanos end = Now() + kNumbersMax;
  std::string deviation;
  while (!(deviation = counted_.Deviation()).empty()) {
    if (Now() > std::min(end, last)) return story_.Break("counted", deviation);
    std::this_thread::sleep_for(1s);
    auto now_expected = counted_.ExpectedOfNodes();
    if (now_expected == expected) continue;
    expected = std::move(now_expected);
    end = Now() + kNumbersMax;
  }
}

void World::CheckBurst() {
  workload_.EndWaiting();
  AwaitScheduled();
  // When a pod ends, its address cools, but the count still includes it. Until the controller has lowered the count,
  // the scheduler may place one pod too many: wait until all addresses have cooled.
  std::this_thread::sleep_for(pools_.cooldown());
  AwaitNumbers();
  for (const auto& machine : machines_) machine->kubelet.BeginBurst();
  const auto unknown = UnknownBlocks();
  workload_.Burst("early", static_cast<int>(8 + Below(40)));
  if (Below(2) == 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(Below(6'000)));
  } else {
    AwaitNewBlock(6s);
  }
  workload_.EndWaiting();
  AwaitScheduled();
  AwaitKnown(unknown);
  // While the watch of pods hangs, the controller knows the pods of the burst only by consistent lists.
  // The sleeps below pass virtual time: chance decides when the person acts and how long the watch hangs.
  const bool is_watch_held = May("lag") && Below(2) == 0;
  controllers_.HoldPodWatches(is_watch_held);
  workload_.Burst("burst", static_cast<int>(8 + Below(40)));
  if (May("number") && Below(2) == 0) {
    // The scheduler places the pods of a burst within about two seconds.
    std::this_thread::sleep_for(std::chrono::milliseconds(Below(2'000)));
    cluster_.RemoveNumber(machines_[Below(machines_.size())]->node.name());
  }
  if (is_watch_held) {
    std::this_thread::sleep_for(std::chrono::seconds(5 + Below(20)));
    controllers_.HoldPodWatches(false);
  }
  AwaitPending();
  workload_.EndWaiting();
  AwaitScheduled();
  for (const auto& machine : machines_) machine->kubelet.EndBurst();
}

// Waits at most `most` for a new block. The caller then deletes the pods for which the controller has just created a
// block, so no pod starts on the block's node, and the node's agent learns of the block from the Node's address count
// alone.
void World::AwaitNewBlock(Nanos most) {
  const auto count = [this] { return store_.Objects(std::string(crds::kBlocksPath)).size(); };
  const Nanos end = Now() + most;
  const std::size_t before = count();
  while (Now() < end && count() <= before) std::this_thread::sleep_for(50ms);
}

std::map<std::string, std::string> World::UnknownBlocks() const {
  std::map<std::string, std::string> found;
  std::map<std::string, std::int64_t> numbers;
  for (const json& node : store_.Objects(std::string(reconciler::kNodesPath))) {
    numbers[node["metadata"]["name"]] = NumberOf(node).value_or(0);
  }
  for (const auto& machine : machines_) {
    const std::string& name = machine->node.name();
    if (!machine->node.has_agents() || !machine->node.IsServing()) continue;
    const std::set<std::string> known = machine->node.KnownBlocks();
    std::int64_t addresses = 0;  // addresses of the blocks that the agent knows
    std::string unknown;
    for (const json& block : store_.Objects(std::string(crds::kBlocksPath))) {
      if (block["spec"].value("node", "") != name || block["metadata"].contains("deletionTimestamp")) continue;
      if (SpaceOf(block) != ipam::kDefaultSpace) continue;  // not in NumberOf
      const bool is_known = known.contains(block["metadata"]["name"]);
      if (!is_known) unknown = block["metadata"]["name"];
      if (is_known)
        addresses += std::int64_t{1} << (32 - ipam::Prefix::Parse(block["spec"]["cidr"].get<std::string>())->length());
    }
    if (!unknown.empty() && numbers[name] > addresses)
      found[name] = fmt::format("{} shows {}, and its agent does not know its block {}", name, numbers[name], unknown);
  }
  return found;
}

void World::AwaitKnown(const std::map<std::string, std::string>& before) {
  // The controller raises the count within ten seconds after it has created a block. The agent looks within a second.
  const Nanos end = Now() + 20s;
  const auto find = [&] {
    const auto unknown = UnknownBlocks();
    // Skip the nodes of `before`: their counts did not rise, so they told their agents nothing.
    const auto found = std::ranges::find_if(unknown, [&](const auto& one) { return !before.contains(one.first); });
    return found == unknown.end() ? std::string() : found->second;
  };
  std::string unknown;
  while (!(unknown = find()).empty()) {
    if (Now() > end) return story_.Break("known", unknown);
    std::this_thread::sleep_for(1s);
  }
}

void World::AwaitPending() {
  AwaitNumbers();
  const Nanos end = Now() + 2min;
  std::string pending;
  while (!(pending = counted_.PendingThatFits()).empty()) {
    if (Now() > end) return story_.Break("pending", pending);
    std::this_thread::sleep_for(1s);
  }
  for (const auto& machine : machines_) RestartKubelet(*machine);
}

}  // namespace berth::sim
