// SPDX-License-Identifier: Apache-2.0
// Random walks of the core without files and threads: calls of several pods for two blocks, with lost answers, late
// patches, refusals, other writers, time limits, restored backups and takeovers. The rules are those of
// explore_test.cc, which tries every order of events, but of fewer events around one block.
//
// BERTH_SEED is the seed of the first walk, and BERTH_WALKS the number of walks.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "agent_core/explore_world_test_setup.h"
#include "ipam/seeded.h"

namespace berth::agent_core {
namespace {

#ifdef __SANITIZE_ADDRESS__
constexpr int kWalks = 500;
#else
constexpr int kWalks = 5000;
#endif

constexpr const char* kHowToRepeat =
    "\nTo repeat this walk, add the seed from the trace below to this command:\n"
    "BERTH_WALKS=1 build/test/agent_core_test --gtest_filter='CoreSeeds.*'";

ExploredFaults FaultsOf(ipam::SeededRandom& random) {
  constexpr int kMax = 3;
  const auto some = [&random] { return random.Between(0, kMax); };
  return {.losses = some(),
          .refusals = some(),
          .outages = some(),
          .removals = some(),
          .touches = some(),
          .limits = some(),
          .successors = some(),
          .restores = random.Between(0, 1)};
}

class Walk {
 public:
  explicit Walk(ipam::SeededRandom& random)
      : random_(random), world_(FaultsOf(random), {.blocks = 2, .block_length = 30, .pods = 7, .standby = 2}) {}

  // Returns the broken rule, if any.
  std::optional<std::string> Run() {
    const TellsAtAbort teller([this] { return Describe(way_); });
    const int moves = random_.Between(10, 60);
    const int backup_at = random_.Between(0, moves);
    for (int i = 0; i < moves; ++i) {
      if (i == backup_at) world_.TakeBackup();
      const std::vector<ExploredMove> possible = world_.Moves();
      if (possible.empty()) break;
      way_.push_back(Choose(possible));
      if (auto broken = world_.Do(way_.back())) return broken;
    }
    if (const auto unrest = world_.ComeToRest()) return "then rest: " + *unrest;
    return std::nullopt;
  }
  [[nodiscard]] const std::vector<ExploredMove>& way() const { return way_; }

 private:
  // Chooses faults less often, so that their number lasts for the whole walk.
  ExploredMove Choose(const std::vector<ExploredMove>& possible) {
    const ExploredMove one = possible[random_.Below(possible.size())];
    const bool is_usual = one.move <= Move::kWritten || one.move == Move::kRead || one.move == Move::kObserve;
    return is_usual || random_.OneIn(3) ? one : possible[random_.Below(possible.size())];
  }

  ipam::SeededRandom& random_;
  ExploredWorld world_;
  std::vector<ExploredMove> way_;
};

TEST(CoreSeeds, NoWalkBreaksARule) {
  const char* const given = std::getenv("BERTH_WALKS");
  const int walks = given == nullptr ? kWalks : static_cast<int>(std::strtol(given, nullptr, 10));
  std::size_t moves = 0;
  const std::clock_t begin = std::clock();
  ipam::ForSeeds(walks, [&](ipam::SeededRandom& random) {
    Walk walk(random);
    const auto broken = walk.Run();
    moves += walk.way().size();
    EXPECT_FALSE(broken.has_value()) << Describe(walk.way()) << *broken << kHowToRepeat;
  });
  const double took = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  std::printf("%d walks of %zu moves; %.0f walks in a second of the processor\n", walks, moves, walks / took);
}

}  // namespace
}  // namespace berth::agent_core
