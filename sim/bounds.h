// SPDX-License-Identifier: Apache-2.0
// Bounds: how much may be asked of the API server, in whatever weather, and how much of what is over may be kept.
// Minutes are virtual; a bound for a time can't be awaited by a condition.
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

  // Rule `storm`: of each minute, for ever.
  void WatchForStorms();
  // Rule `quiet`: of a minute in which nobody calls.
  void CheckQuiet(Nanos cooldown);
  // Rule `no-list`: of so many containers of each node that come and go while nothing goes wrong.
  void BeginSteady();
  void EndSteady(int containers);
  // Rule `growth`. Requires: nothing is held. Takes twelve minutes: until all is forgotten that is kept for a while.
  void CheckGrowth();

 private:
  [[nodiscard]] std::uint64_t calls() const;
  [[nodiscard]] std::size_t starts() const;
  // Each machine and each controller counts.
  [[nodiscard]] std::size_t programs() const { return machines_.size() + controllers_.count(); }

  Story& story_;
  const Network& network_;
  const Machines& machines_;
  const Controllers& controllers_;
  // Of one machine: LISTs that it sent, less those that an agent sends before it says that a pool is exhausted.
  [[nodiscard]] static std::int64_t ListsOf(const Machine& machine);
  std::vector<std::int64_t> lists_;  // of each machine, before
};

}  // namespace berth::sim
