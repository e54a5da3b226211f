// SPDX-License-Identifier: Apache-2.0
// Tries every order in which callers, the API server, other writers and a successor can act on one block, up to a
// number of moves. No two pods may ever have one address; without further faults, everything that was answered has to
// be written.
//
// BERTH_EXPLORE_MORE adds to the number of moves.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "agent_core/explore_world_test_setup.h"

namespace berth::agent_core {
namespace {

// A build with AddressSanitizer does not search the last move: it would take longer than all other tests of this
// folder.
#ifdef __SANITIZE_ADDRESS__
constexpr int kMovesLess = 1;
#else
constexpr int kMovesLess = 0;
#endif

class Search {
 public:
  // Searches from the world after the moves `before`. Returns the moves that break a rule, and the rule; nullopt if no
  // move breaks a rule.
  std::optional<std::string> Run(const ExploredFaults& faults, const std::vector<ExploredMove>& before, int moves_max) {
    std::vector<Found> found;
    found.push_back({ExploredWorld(faults), 0});
    for (const ExploredMove& move : before) EXPECT_EQ(found[0].world.Do(move), std::nullopt);
    found[0].world.TakeBackup();
    history_ = {{0, {}}};
    seen_ = {found[0].world.Fingerprint()};
    for (int i = 0; i < moves_max; ++i) {
      std::vector<Found> next;
      for (const Found& one : found) {
        if (auto broken = GoOn(one, next)) return broken;
      }
      found = std::move(next);
    }
    return std::nullopt;
  }
  [[nodiscard]] std::size_t states() const { return seen_.size(); }

 private:
  struct Found {
    ExploredWorld world;
    std::size_t at;  // index into history_
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
      if (rested_.insert(world.FingerprintAtRest()).second) {
        ExploredWorld calm = world;
        if (const auto unrest = calm.ComeToRest()) return Told(one.at, move) + "then rest: " + *unrest;
      }
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
  std::unordered_set<std::string> rested_;
  std::vector<Made> history_;
};

struct SearchCase {
  const char* name;
  ExploredFaults faults;
  std::vector<ExploredMove> before;
  int moves_max;
  friend void PrintTo(const SearchCase& one, std::ostream* out) { *out << one.name; }
};

// The first pod has an address, and the other address is on standby.
const std::vector<ExploredMove> kOneHolds = {{Move::kSubmit}, {Move::kBegin}, {Move::kWritten}};
// The second pod also has an address, whose entry is not written yet.
const std::vector<ExploredMove> kOneIsHandedOut = {
    {Move::kSubmit}, {Move::kBegin}, {Move::kWritten}, {Move::kHandOut, 1}};

const SearchCase kSearchCases[] = {
    {"FromAnEmptyBlock", {}, {}, 7},
    {"FromAHeldAddress", {}, kOneHolds, 6},
    {"FromAnAddressThatIsHandedOut", {}, kOneIsHandedOut, 6},
    {"LostAnswersAlone",
     {.losses = 3, .refusals = 0, .outages = 0, .removals = 0, .touches = 0, .limits = 1, .successors = 1},
     kOneIsHandedOut,
     8},
    {"RefusalsAlone",
     {.losses = 1, .refusals = 4, .outages = 0, .removals = 0, .touches = 0, .limits = 0, .successors = 0},
     kOneIsHandedOut,
     9},
    {"OthersAlone",
     {.losses = 0, .refusals = 0, .outages = 1, .removals = 3, .touches = 1, .limits = 0, .successors = 1},
     kOneHolds,
     8},
    {"ARestoredBackup",
     {.losses = 1,
      .refusals = 0,
      .outages = 0,
      .removals = 0,
      .touches = 1,
      .limits = 0,
      .successors = 1,
      .restores = 1},
     kOneIsHandedOut,
     8},
    {"NoFaults",
     {.losses = 0, .refusals = 0, .outages = 0, .removals = 0, .touches = 0, .limits = 0, .successors = 0},
     {},
     40},
};

class Explore : public testing::TestWithParam<SearchCase> {};

TEST_P(Explore, NoOrderOfEventsBreaksARule) {
  const char* const more = std::getenv("BERTH_EXPLORE_MORE");
  const int more_moves = more == nullptr ? 0 : static_cast<int>(std::strtol(more, nullptr, 10));
  const int moves_max = GetParam().moves_max - kMovesLess + more_moves;
  Search search;
  const auto broken = search.Run(GetParam().faults, GetParam().before, moves_max);
  EXPECT_FALSE(broken.has_value()) << *broken;
  EXPECT_GT(search.states(), 100U);
  std::printf("%zu states after up to %d moves\n", search.states(), moves_max);
}

INSTANTIATE_TEST_SUITE_P(Core, Explore, testing::ValuesIn(kSearchCases),
                         [](const auto& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace berth::agent_core
