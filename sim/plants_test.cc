// SPDX-License-Identifier: Apache-2.0
// `make test` searches for each plant, except for those that docs/simulation.md calls rare.
#include "sim/plants.h"

#include <fstream>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "base/places.h"

namespace berth::sim {
namespace {

TEST(Plants, AreAllInTheListThatMakeTestSearches) {
  std::set<std::string> searched = {
      "lease-of-a-node-that-is-cut-off", "not-ready-is-ready", "two-leaders-accept-two-pools"};
  std::ifstream file(SourceDir() + "/sim/plants.txt");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with('#')) searched.insert(line.substr(0, line.find(' ')));
  }
  std::set<std::string> all;
  for (const Plant& plant : AllPlants()) all.emplace(plant.name);
  EXPECT_EQ(searched, all);
}

}  // namespace
}  // namespace berth::sim
