// SPDX-License-Identifier: Apache-2.0
// Plants: defects on purpose, by which the simulator shows that it would find them.
//
// The code under test has no switches. A plant takes away what a mechanism of berth's rests on (its file, its lock, the
// answer that it waits for), so that the world is as if that mechanism were not there.
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
  std::string_view what;  // is defective then
  // --plants looks for the plant with these faults; if there are none, each seed draws some.
  std::set<std::string> faults = {};
  std::function<void(const std::string& node_folder)> before_start = nullptr;
  std::function<void(const std::string& node_folder)> before_call = nullptr;  // of an agent's
  Network::Lies lies = {};
  std::function<void(nlohmann::json& call)> call = nullptr;  // changes what an agent is handed
  bool gives_back_in_use = false;                            // the finalizer of a block goes though it is in use
  bool gives_back_blindly = false;        // a block goes although something came into it since it was looked at
  bool frees_without_allocation = false;  // an entry goes with its IPAllocation
  bool admits_all = false;                // no policy is in force
  bool elects = false;                    // two controllers that elect a leader
  bool has_rivals = false;                // all controllers that may be, and two pools of one subnet
  bool lists_without_end = false;         // each node with an agent
  bool renews_when_cut_off = false;       // the Lease of a node whose kubelet hears nothing
  bool ignores_syncs = false;             // of agents
  bool counts = false;                    // there is a scheduler in every history
  Nanos lag_of_scheduler{0};              // its watch of Nodes tells of each change so late
};

[[nodiscard]] const std::vector<Plant>& AllPlants();
// Of these (plants_of_networks.cc).
[[nodiscard]] std::vector<Plant> PlantsOfNetworks();
// Of these some, for AllPlants.
[[nodiscard]] std::vector<Plant> PlantsOfLeadersAndThieves();
[[nodiscard]] std::vector<Plant> PlantsOfEnds();

}  // namespace berth::sim
