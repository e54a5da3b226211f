// SPDX-License-Identifier: Apache-2.0
// Planted defects about pods that are gone, and about their addresses (plants.h).
#pragma once

#include <vector>

#include "sim/plants.h"

namespace berth::sim {

[[nodiscard]] std::vector<Plant> PlantsOfPods();

}  // namespace berth::sim
