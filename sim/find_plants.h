// SPDX-License-Identifier: Apache-2.0
// Searches for plants: counts the histories until a checker finds each planted defect.
#pragma once

#include <cstdint>

#include "sim/plants.h"
#include "sim/runner.h"

namespace berth::sim {

struct PlantSearch {
  // If .plant is set, only this plant is searched. If .draws_faults is set, a plant that names faults gets these
  // faults, and no controllers if it needs none.
  Case like = {};
  RunOptions run = {};      // options of one try: limits after which the plant counts as not found
  std::uint64_t tries = 1;  // number of tries, whose first seeds are far apart
};

// Prints a row of the table in docs/simulation.md for each plant, with a seed whose history finds it, and then "N
// passed, N failed". A plant passes if at least nine of ten tries find it within their CPU time. Returns whether all
// plants pass.
[[nodiscard]] bool FindPlants(const PlantSearch& search);

}  // namespace berth::sim
