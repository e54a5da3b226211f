// SPDX-License-Identifier: Apache-2.0
// Tries every order in which callers, the API server, other writers and a successor can act on one block, up to a
// number of moves. No two pods may ever have one address; without further faults, everything that was answered has to
// be written.
//
// BERTH_EXPLORE_MORE adds to the number of moves.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <optional>
#include <ostream>
#include <string>
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

// The states that a search has seen, by their hash, each with the number of moves that were left when it was seen. A
// table of numbers, because a search sees millions of states.
class SeenStates {
 public:
  enum class Is : std::uint8_t { kNew, kCloser, kKnown };
  // kCloser: the state is known, but more moves are left than before.
  Is Add(std::uint64_t hash, int left) {
    if (2 * (count_ + 1) > slots_.size()) Grow();
    const std::uint64_t wanted = (hash & ~kLeft) + (1U + static_cast<unsigned>(left));
    std::uint64_t& slot = SlotOf(wanted);
    if (slot != 0 && slot >= wanted) return Is::kKnown;
    const bool is_new = slot == 0;
    slot = wanted;
    count_ += is_new ? 1 : 0;
    return is_new ? Is::kNew : Is::kCloser;
  }
  [[nodiscard]] bool Has(std::uint64_t hash) { return SlotOf(hash) != 0; }
  [[nodiscard]] std::size_t count() const { return count_; }

 private:
  static constexpr std::uint64_t kLeft = 63;  // these bits of a slot are the moves left plus one; 0: an empty slot
  static constexpr unsigned kSpread = 20;

  std::uint64_t& SlotOf(std::uint64_t wanted) {
    std::size_t at = (wanted >> kSpread) & (slots_.size() - 1);
    while (slots_[at] != 0 && (slots_[at] & ~kLeft) != (wanted & ~kLeft)) at = (at + 1) & (slots_.size() - 1);
    return slots_[at];
  }
  void Grow() {
    const std::vector<std::uint64_t> before = std::exchange(slots_, std::vector<std::uint64_t>(2 * slots_.size()));
    for (const std::uint64_t one : before) {
      if (one != 0) SlotOf(one) = one;
    }
  }

  std::vector<std::uint64_t> slots_ = std::vector<std::uint64_t>(1024);
  std::size_t count_ = 0;
};

// Searches breadth first until it has kWorldsMax worlds, and from each of these depth first: so it keeps few worlds,
// and reaches most states first by their shortest way.
class Search {
 public:
  // Searches from `start`. Returns the moves that break a rule, and the rule; nullopt if no move breaks a rule.
  std::optional<std::string> Run(ExploredWorld start, int moves_max) {
    const TellsAtAbort teller([this] { return Describe(way_); });
    std::vector<Found> found;
    found.push_back({std::move(start), {}});
    seen_.Add(found[0].world.TakeFingerprint().whole, moves_max);
    int left = moves_max;
    for (; left > 0 && !found.empty() && found.size() < kWorldsMax; --left) {
      std::vector<Found> next;
      for (Found& one : found) {
        way_ = one.way;
        if (auto broken = GoOn(one.world, left, &next)) return broken;
      }
      found = std::move(next);
    }
    for (Found& one : found) {
      way_ = one.way;
      if (auto broken = GoOn(one.world, left, nullptr)) return broken;
    }
    return std::nullopt;
  }
  [[nodiscard]] std::size_t states() const { return seen_.count(); }

 private:
  static constexpr std::size_t kWorldsMax = 2'000;
  struct Found {
    ExploredWorld world;
    std::vector<ExploredMove> way;
  };

  // Tries each move, the last one in `from` itself. Adds the worlds to `next`; if that is null, goes on from each of
  // them until no move is left.
  std::optional<std::string> GoOn(ExploredWorld& from, int left, std::vector<Found>* next) {
    if (left == 0) return std::nullopt;
    // One world per number of moves left, because an assignment takes a fraction of the time of a copy.
    while (scratch_.size() <= static_cast<std::size_t>(left)) scratch_.push_back(from);
    const std::vector<ExploredMove> moves = from.Moves();
    for (const ExploredMove& move : moves) {
      way_.push_back(move);
      const bool is_last = &move == &moves.back();
      ExploredWorld& world = is_last ? from : scratch_[static_cast<std::size_t>(left)];
      if (!is_last) world = from;
      if (const auto broken = world.Do(move)) return Describe(way_) + *broken;
      const ExploredWorld::Fingerprint is = world.TakeFingerprint();
      const SeenStates::Is seen = seen_.Add(is.whole, left - 1);
      if (seen == SeenStates::Is::kNew && !rested_.Has(is.at_rest)) {
        if (const auto unrest = FindUnrest(world, is.at_rest)) return Describe(way_) + "then rest: " + *unrest;
      }
      if (seen != SeenStates::Is::kKnown && next == nullptr) {
        if (auto broken = GoOn(world, left - 1, nullptr)) return broken;
      } else if (seen != SeenStates::Is::kKnown && left > 1) {
        next->push_back({world, way_});
      }
      way_.pop_back();
    }
    return std::nullopt;
  }

  std::optional<std::string> FindUnrest(const ExploredWorld& world, std::uint64_t at_rest) {
    std::vector<std::uint64_t> passed = {at_rest};
    ExploredWorld& calm = scratch_[0];
    calm = world;
    auto unrest = calm.ComeToRest([&](std::uint64_t hash) {
      passed.push_back(hash);
      return rested_.Has(hash);
    });
    for (const std::uint64_t hash : passed) rested_.Add(hash, 0);
    return unrest;
  }

  SeenStates seen_;
  SeenStates rested_;              // states that come to rest with everything written that was answered
  std::vector<ExploredMove> way_;  // from the start to the world at hand
  std::deque<ExploredWorld> scratch_;
};

struct SearchCase {
  const char* name;
  ExploredFaults faults;
  std::vector<ExploredMove> before;
  int moves_max;
  ExploredShape shape = {};
  friend void PrintTo(const SearchCase& one, std::ostream* out) { *out << one.name; }
};

// The first pod has an address, and the other address is on standby.
const std::vector<ExploredMove> kOneHolds = {{Move::kSubmit}, {Move::kBegin}, {Move::kWritten}};
// The second pod also has an address, whose entry is not written yet.
const std::vector<ExploredMove> kOneIsHandedOut = {
    {Move::kSubmit}, {Move::kBegin}, {Move::kWritten}, {Move::kHandOut, 1}};

// Two processes with GTEST_TOTAL_SHARDS=2 take every second case each. In this order both take about as long.
const SearchCase kSearchCases[] = {
    {"FourAddressesAndFourPods", {}, kOneIsHandedOut, 5, {.block_length = 30, .pods = 4, .standby = 2}},
    {"FromAnEmptyBlock", {}, {}, 7},
    {"LostAnswersAlone",
     {.losses = 3, .refusals = 0, .outages = 0, .removals = 0, .touches = 0, .limits = 1, .successors = 1},
     kOneIsHandedOut,
     8},
    {"FromAHeldAddress", {}, kOneHolds, 6},
    {"RefusalsAlone",
     {.losses = 1, .refusals = 4, .outages = 0, .removals = 0, .touches = 0, .limits = 0, .successors = 0},
     kOneIsHandedOut,
     9},
    {"FromAnAddressThatIsHandedOut", {}, kOneIsHandedOut, 6},
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
    {"OthersAlone",
     {.losses = 0, .refusals = 0, .outages = 1, .removals = 3, .touches = 1, .limits = 0, .successors = 1},
     kOneHolds,
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
  ExploredWorld start(GetParam().faults, GetParam().shape);
  for (const ExploredMove& move : GetParam().before) ASSERT_EQ(start.Do(move), std::nullopt);
  start.TakeBackup();
  Search search;
  const auto broken = search.Run(std::move(start), moves_max);
  EXPECT_FALSE(broken.has_value()) << *broken;
  EXPECT_GT(search.states(), 100U);
  std::printf("%zu states after up to %d moves\n", search.states(), moves_max);
}

INSTANTIATE_TEST_SUITE_P(Core, Explore, testing::ValuesIn(kSearchCases),
                         [](const auto& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace berth::agent_core
