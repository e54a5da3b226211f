// SPDX-License-Identifier: Apache-2.0
// Every order in which callers, the API server, other writers and a successor can act on one block, up to a number of
// moves: no two pods have one address, and once there are no faults any more, what was answered is written.
//
// BERTH_EXPLORE_MOVES sets the number of moves, for a longer search.
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "agent_core/explore_world_test_setup.h"

namespace berth::agent_core {
namespace {

class Search {
 public:
  // Returns the moves that lead to a broken rule, and the rule; nothing: no rule is broken.
  std::optional<std::string> Run(const ExploredFaults& faults, int moves_max) {
    std::vector<Found> found;
    found.push_back({ExploredWorld(faults), 0});
    history_ = {{0, {}}};
    seen_ = {found[0].world.Fingerprint()};
    for (int i = 0; i < moves_max; ++i) {
      std::vector<Found> next;
      for (const Found& one : found) {
        if (auto broken = GoOn(one, next)) return broken;
      }
      found = std::move(next);
      std::cout << i + 1 << " moves: " << seen_.size() << " states\n";
    }
    return std::nullopt;
  }
  [[nodiscard]] std::size_t states() const { return seen_.size(); }

 private:
  struct Found {
    ExploredWorld world;
    std::size_t at;  // in the history
  };
  struct Made {
    std::size_t from;
    ExploredMove move;
  };

  std::optional<std::string> GoOn(const Found& one, std::vector<Found>& next) {
    for (const ExploredMove& move : one.world.Moves()) {
      ExploredWorld world = one.world;
      const auto broken = world.Do(move);
      if (broken) return Told(one.at, move) + *broken;
      if (!seen_.insert(world.Fingerprint()).second) continue;
      ExploredWorld calm = world;
      if (const auto unrest = calm.ComeToRest()) return Told(one.at, move) + "then rest: " + *unrest;
      history_.push_back({one.at, move});
      next.push_back({std::move(world), history_.size() - 1});
    }
    return std::nullopt;
  }

  std::string Told(std::size_t at, const ExploredMove& last) const {
    std::string told = Describe(last) + "\n";
    for (; at != 0; at = history_[at].from) told.insert(0, Describe(history_[at].move) + "\n");
    return told;
  }

  std::unordered_set<std::string> seen_;
  std::vector<Made> history_;
};

int MovesMax(int usual) {
  const char* const asked = std::getenv("BERTH_EXPLORE_MOVES");
  return asked == nullptr ? usual : std::atoi(asked);
}

TEST(Explore, NoOrderOfEventsBreaksARule) {
  Search search;
  const auto broken = search.Run({}, MovesMax(6));
  EXPECT_EQ(broken, std::nullopt) << *broken;
  EXPECT_GT(search.states(), 1000U);
}

}  // namespace
}  // namespace berth::agent_core
