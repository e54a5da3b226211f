// SPDX-License-Identifier: Apache-2.0
// The fault `refused-block`: the API server executes no write of one block, because of its admission or its database.
#include <algorithm>
#include <array>
#include <memory>
#include <thread>
#include <utility>

#include <spdlog/fmt/fmt.h>

#include "crds/names.h"
#include "sim/scheduler.h"
#include "sim/world.h"

namespace berth::sim {

using namespace std::chrono_literals;
using nlohmann::json;
using std::chrono::milliseconds;

void World::RefuseBlock() {
  // A deleted pool waits for the refused block, and after a restore each block must be writable.
  if (was_refused_ || may_replace_pool_ || has_backups_) return;
  const auto blocks = store_.Objects(std::string(crds::kBlocksPath));
  if (blocks.empty()) return;
  was_refused_ = true;
  const json& block = blocks[Below(blocks.size())];
  refused_block_ = block["metadata"]["name"];
  constexpr std::uint64_t kMoreMs = 10'800'000;  // three hours
  // A plant is found sooner without such a refusal.
  const Nanos time = plant_ == nullptr && May("refused-for-hours") ? 2h + Nanos(milliseconds(Below(kMoreMs)))
                     : Below(2) == 0                               ? Nanos(1h)
                                                                   : Nanos(milliseconds(Below(600'000)));
  Spawn(outside_, [this, block, time] {
    RefuseBlockFor(block, time);
    refused_block_.clear();
  });
}

void World::RefuseBlockFor(const json& block, Nanos time) {
  struct Refusal {
    int status;
    const char* message;  // with the place of kRefusal
  };
  constexpr std::array kRefusals{
      Refusal{403, "admission webhook \"{}\" denied the request: no"},
      Refusal{422, "admission webhook \"{}\" denied the request: no"},
      Refusal{500, "Internal error occurred: failed calling webhook \"{}\": failed to call webhook: no endpoints"},
      Refusal{500, "etcdserver: mvcc: database space exceeded ({})"},
  };
  // By this time no other fault happens any more (World::Main).
  constexpr Nanos kApart = 50min;
  constexpr Nanos kMoreEvery = 5min;
  constexpr Nanos kTakenOver = 70s;
  constexpr Nanos kRestEvery = 1h;
  const Refusal& refusal = kRefusals.at(Below(kRefusals.size()));
  const std::string message = fmt::format(fmt::runtime(refusal.message), kRefusal);
  story_.Tell(
      fmt::format("writes of {} are refused for {} s with {} {}", refused_block_, time / 1s, refusal.status, message));
  network_.RefuseWritesOf(refused_block_, refusal.status, message);
  const Nanos end = Now() + time;
  bool was_checked = false;
  Nanos next_rest = Now() + kRestEvery;
  while (Now() < end) {
    std::this_thread::sleep_for(std::min(kMoreEvery, end - Now()));
    if (Now() < end) StartMore(*machines_[Below(machines_.size())], 0s);
    if (Now() < kApart) continue;
    if (!std::exchange(was_checked, true)) CheckApart(block);
    if (Now() < next_rest || end - Now() < kRestEvery) continue;
    CheckRestWhileRefused(block, /*is_in_doubt=*/refusal.status == 500);
    next_rest = Now() + kRestEvery;
  }
  story_.Tell("writes of " + refused_block_ + " are accepted again");
  network_.RefuseWritesOf({});
  // An agent that could not take over the block tries again each minute.
  std::this_thread::sleep_for(kTakenOver);
}

void World::CheckRestWhileRefused(const json& refused, bool is_in_doubt) {
  constexpr Nanos kEndedMax = 40min;
  // These send requests or start pods meanwhile.
  if (thief_ != nullptr || has_scheduler_) return;
  for (const auto& machine : machines_) machine->kubelet.NeverHang();
  const auto is_busy = [](const auto& machine) { return machine->churning > 0 || machine->kubelet.IsEnding(); };
  const Nanos end = Now() + kEndedMax;
  // A DEL of berth-direct fails as long as the block is refused, and the kubelet repeats it.
  do {
    for (const auto& machine : machines_) machine->kubelet.EndSettled();
    if (Now() > end) return story_.Tell("containers wait for the refused block");
    std::this_thread::sleep_for(1s);
  } while (std::ranges::any_of(machines_, is_busy));
  story_.Tell("all containers have ended, except in the refused block");
  const json now = FindBlock(refused["metadata"]["name"]);
  // Each of them may have a change that waits: a DEL, or the entry of an address that was on standby.
  const std::size_t addresses =
      now.is_null() ? 0 : now["allocations"].size() + now.value("standby", json::array()).size();
  // If writes are in doubt, the DEL of an ADD that got no answer waits, too, and finds no entry.
  std::size_t waiting = 0;
  for (const auto& machine : machines_) waiting += is_in_doubt ? machine->node.WaitingDels() : 0;
  bounds_.CheckQuiet(pools_.cooldown(), addresses + waiting);
  bounds_.CheckGrowth(addresses + waiting);
}

void World::CheckApart(const json& refused) {
  constexpr int kContainers = 6;
  constexpr Nanos kMost = 5min;
  // A Shared block concerns all nodes, so the rule does not apply to it.
  if (!refused["spec"].contains("node")) return;
  for (const auto& machine : machines_) {
    if (machine->node.name() == refused["spec"].value("node", "")) continue;
    const std::uint64_t refused_before = machine->kubelet.refused();
    machine->kubelet.NeverHang();
    const auto are_through = std::make_shared<bool>(false);
    ++machine->churning;
    Spawn(machine->kubelet.process(), [&machine = *machine, are_through] {
      machine.kubelet.Churn(machine.node.called() + "apart", kContainers);
      --machine.churning;
      *are_through = true;
    });
    const Nanos end = Now() + kMost;
    while (!*are_through && Now() < end) std::this_thread::sleep_for(1s);
    if (!*are_through || machine->kubelet.refused() > refused_before) {
      story_.Break("apart", machine->node.name() + " does not go on while another node's block is refused");
    }
  }
}

}  // namespace berth::sim
