// SPDX-License-Identifier: Apache-2.0
// Bounds: limits for requests to the API server, whatever faults happen, and for files and memory when nothing is held.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/controllers.h"
#include "sim/machine.h"
#include "sim/network.h"
#include "sim/story.h"

namespace berth::sim {

class Bounds {
 public:
  // All must outlive this.
  Bounds(Story& story, const Network& network, const Machines& machines, const Controllers& controllers)
      : story_(story), network_(network), machines_(machines), controllers_(controllers) {}

  // Checks the rule `storm` in each minute. Never returns.
  void WatchForStorms();
  // Checks the rule `quiet` in a minute without CNI calls. `refused`: number of addresses in a block whose writes the
  // API server refuses.
  void CheckQuiet(Nanos cooldown, std::size_t refused = 0);
  // BeginSteady and EndSteady check the rule `no-list`. Between the two calls, `containers` containers start and end on
  // each node, without faults.
  void BeginSteady();
  void EndSteady(int containers);
  // Checks the rule `growth`. Requires: no address is held, except `refused` addresses in a block whose writes the API
  // server refuses. Takes twelve minutes, until the programs have forgotten what they keep for a while.
  void CheckGrowth(std::size_t refused = 0);

 private:
  [[nodiscard]] std::uint64_t calls() const;
  [[nodiscard]] std::size_t starts() const;
  // Number of machines and controllers.
  [[nodiscard]] std::size_t programs() const { return machines_.size() + controllers_.count(); }

  Story& story_;
  const Network& network_;
  const Machines& machines_;
  const Controllers& controllers_;
  // Number of LISTs that the machine has sent, without those that its agent sends before it answers that a pool is
  // exhausted.
  [[nodiscard]] static std::int64_t ListsOf(const Machine& machine);
  std::vector<std::int64_t> lists_;  // LISTs of each machine at BeginSteady
};

}  // namespace berth::sim
