// SPDX-License-Identifier: Apache-2.0
// Faults for which people and Kubernetes delete the pods of a node.
#include <thread>
#include <variant>

#include <nlohmann/json.hpp>
#include <spdlog/fmt/fmt.h>

#include "crds/names.h"
#include "ipam/entry.h"
#include "reconciler/decide_orphans.h"
#include "sim/scheduler.h"
#include "sim/world.h"

namespace berth::sim {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

void World::TakeOutOfService(Machine& machine) {
  const std::string name = machine.node.name();
  if (outages_left_ == 0 || machine.kubelet.tells_odd_uids() || machine.has_double || !cluster_.GoDown(name)) return;
  --outages_left_;
  ++kills_;
  machine.is_gone = true;
  machine.kubelet.CountAsGone();
  machine.node.PowerOff();
  Spawn(outside_, [this, &machine, name] {
    cluster_.TakeOutOfService(name);
    std::this_thread::sleep_for(milliseconds(Below(180'000)));
    // The kubelet starts pods before the Node is Ready: static pods, and pods that tolerate all taints.
    cluster_.ComeUp(name);
    machine.node.PowerOn();
    machine.kubelet.Return();
    StartMore(machine, 0s);
    ++machine.churning;
    Spawn(machine.kubelet.process(), [&machine, name] {
      machine.kubelet.StartStatic(name + "first");
      --machine.churning;
    });
    std::this_thread::sleep_for(milliseconds(Below(10'000)));
    cluster_.BeReady(name);
    machine.is_gone = false;
    std::this_thread::sleep_for(milliseconds(Below(60'000)));
    cluster_.TakeIntoService(name);
  });
}

void World::CreateGhost(const Machine& machine) {
  // The thief's Node is gone at the end of the history.
  const std::string& name = machine.node.name();
  const std::string gone = cluster_.IsGone(name) ? name : "nowhere";
  cluster_.CreateGhost(thief_ != nullptr && Below(2) == 0 ? Thief::kNode : gone);
}

void World::Cascade(Machine& machine) {
  const bool by_force = Below(2) == 0;
  const bool forgets = May("no-del") && Below(2) == 0;
  const bool is_of_all = Below(2) == 0;
  story_.Tell(fmt::format("all pods are deleted{}", by_force ? " by force" : ""));
  // A controller that starts now has not seen the pods go.
  if (May("kill") && Below(2) == 0) controllers_.ReplaceOne(AnyClockError());
  for (const auto& one : machines_) {
    const bool is_its = is_of_all || one.get() == &machine;
    if (!is_its || one->is_left_alone() || one->kubelet.tells_odd_uids()) continue;
    one->kubelet.EndAllPods(by_force, forgets);
  }
}

void World::CheckBrake() {
  // A pool's status may be a little older than the state that it describes.
  constexpr Nanos kStatusMax = 30s;
  if (!pools_.IsBraked()) return;
  std::this_thread::sleep_for(kStatusMax);
  if (!pools_.IsBraked()) return;
  std::size_t held = 0;
  std::size_t gone = 0;
  for (const nlohmann::json& block : store_.Objects(std::string(crds::kBlocksPath))) {
    for (const nlohmann::json& text : block["allocations"]) {
      const auto entry = ipam::ParseEntry(text.get_ref<const std::string&>());
      if (!std::holds_alternative<ipam::HeldEntry>(entry)) continue;
      ++held;
      if (IsPodGone(text)) ++gone;
    }
  }
  if (gone >= reconciler::kBrakeMin && gone * reconciler::kBrakePart > held) return;
  story_.Break("braked", fmt::format("the controller frees nothing, and of {} entries {} name no pod", held, gone));
}

}  // namespace berth::sim
