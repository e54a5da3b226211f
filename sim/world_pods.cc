// SPDX-License-Identifier: Apache-2.0
// What people and Kubernetes do to the pods of a node.
#include <thread>

#include <spdlog/fmt/fmt.h>

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
    // Its kubelet starts pods before the Node is Ready: static ones, and those that tolerate all taints.
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

}  // namespace berth::sim
