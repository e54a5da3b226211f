// SPDX-License-Identifier: Apache-2.0
// Search for plants: how many histories it takes until a checker notices each defect that was made on purpose.
#pragma once

#include <cstdint>

#include "sim/plants.h"
#include "sim/runner.h"

namespace berth::sim {

struct PlantSearch {
  // .plant set: that one alone. .draws_faults: a plant's own faults where it names some.
  Case like = {};
  RunOptions run = {};      // of one try: the limits after which the plant counts as missed
  std::uint64_t tries = 1;  // with first seeds far apart
};

// Prints a row of the table in docs/simulation.md for each plant, with a seed whose history finds it, and last
// "N passed, N failed". A plant passes that was found in nine of ten tries. Returns whether all did.
[[nodiscard]] bool FindPlants(const PlantSearch& search);

}  // namespace berth::sim
