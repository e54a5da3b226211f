// SPDX-License-Identifier: Apache-2.0
// Plants: defects that the simulator makes on purpose, to show that it would find them.
//
// The code under test has no switches for this. A plant takes away what a mechanism of berth needs (its file, its lock,
// the answer for which it waits), so that the mechanism has no effect.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "sim/network.h"
#include "sim/scheduler.h"

namespace berth::sim {

struct Plant {
  std::string_view name;
  std::string_view what;  // the defect, in words
  // --plants searches for the plant with these faults; if there are none, each seed draws its faults.
  std::set<std::string> faults = {};
  bool has_controllers = true;  // false: --plants also does without controllers, which takes a fraction of the time
  std::function<void(const std::string& node_folder)> before_start = nullptr;
  std::function<void(const std::string& node_folder)> before_call = nullptr;  // before each call of a runtime
  Network::Lies lies = {};
  std::function<void(nlohmann::json& call)> call = nullptr;  // changes each call before berth gets it
  bool gives_back_in_use = false;                            // the world also gives back blocks in use
  bool gives_back_blindly = false;                           // the world deletes blocks whatever their version is
  bool frees_without_allocation = false;                     // a deletion of an IPAllocation also frees its entry
  bool admits_all = false;                                   // no policy is in force
  bool elects = false;                                       // at least two controllers, which elect a leader
  bool has_rivals = false;         // as many controllers as allowed, which do not elect, and two pools with one subnet
  bool lists_without_end = false;  // on each machine, a thread lists blocks without end
  bool renews_when_cut_off = false;  // a kubelet that is cut off renews its Lease
  bool ignores_syncs = false;        // syncs of agents do nothing
  bool counts = false;               // every history has a scheduler
  Nanos lag_of_scheduler{0};         // its watch of Nodes shows each change this much later
};

[[nodiscard]] const std::vector<Plant>& AllPlants();
// Plants of plants_of_networks.cc.
[[nodiscard]] std::vector<Plant> PlantsOfNetworks();
// Plants of plants_hostile.cc and of plants_of_ends.cc.
[[nodiscard]] std::vector<Plant> PlantsOfLeadersAndThieves();
[[nodiscard]] std::vector<Plant> PlantsOfEnds();

}  // namespace berth::sim
