// SPDX-License-Identifier: Apache-2.0
// What a history does about the numbers of addresses that Nodes show: it waits for them, and starts bursts of pods.
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
  // A controller may have to notice first that a watch is deaf, which takes half a minute. Then a number goes down
  // after 5 s at the earliest, without a number for 3 s, and at most once in 10 s.
  constexpr Nanos kNumbersMax = 90s;
  // What Nodes should show may still change as the rest of addresses ends, but not for longer than that.
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
  // No number foresees that the address of a pod that ends will rest: until it has gone down, one pod too many comes.
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

// People delete the pods for which the controller has just created a block. So no pod starts on the block's node, and
// the node's agent learns of the block from the Node's address count alone.
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
    std::int64_t addresses = 0;  // in blocks that it knows
    std::string unknown;
    for (const json& block : store_.Objects(std::string(crds::kBlocksPath))) {
      if (block["spec"].value("node", "") != name || block["metadata"].contains("deletionTimestamp")) continue;
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
  // The number rises up to ten seconds after a block was created, and the agent looks within a second.
  const Nanos end = Now() + 20s;
  const auto find = [&] {
    const auto unknown = UnknownBlocks();
    // A number that did not rise tells the agent nothing.
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
