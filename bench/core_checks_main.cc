// SPDX-License-Identifier: Apache-2.0
// berth-core-checks: what the checks of the agent's core cost (CheckAtEnd in agent_core/block_state.h).
//
// A cycle gives a pod an address on standby, writes it, frees it, and writes that. The program measures cycles, and
// cycles in which each check is made twice. The difference is what the checks cost. The medians of many turns are
// compared.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "agent_core/core.h"
#include "agent_core/core_test_setup.h"

namespace berth::bench {
namespace {

using agent_core::Core;
using agent_core::News;
using agent_core::Now;

class CoreCycles {
 public:
  explicit CoreCycles(std::size_t held) {
    News news;
    core_.TakeProof(now_.since_boot, /*is_kept=*/true, now_, news);
    ipam::Block block = agent_core::EmptyBlock(*pool_, "10.55.0.0/26");
    for (std::size_t i = 0; i < held; ++i) {
      block.allocations[static_cast<ipam::BlockOffset>(i)] = agent_core::EntryText("b" + std::to_string(i + 1));
    }
    const auto view = std::make_shared<const ipam::Block>(std::move(block));
    core_.Insert(view, view, now_, news);
    state_ = core_.Find(view->name);
    core_.SubmitDeferred(*state_, {.standby = ipam::StandbyPlan{.pool = pool_}}, agent_core::kSendNow, now_);
    Write();
  }

  // Returns nanoseconds of the processor per cycle.
  double Run(int cycles, bool checks_twice) {
    checks_twice_ = checks_twice;
    const std::clock_t begin = std::clock();
    for (int i = 0; i < cycles; ++i) {
      handed_out_ += core_.HandOut(*state_, add_, now_) ? 1U : 0U;
      CheckAgain(2);  // of HandOut, and of SubmitDeferred in it
      Write();
      core_.SubmitDeferred(*state_, del_, agent_core::kLinger, now_);
      CheckAgain(1);
      Write();
    }
    return 1e9 * static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC / cycles;
  }
  [[nodiscard]] std::size_t handed_out() const { return handed_out_; }

 private:
  void CheckAgain(int times) {
    for (int i = 0; checks_twice_ && i < times; ++i) broken_ += FindBrokenInvariant(*state_) ? 1U : 0U;
  }
  void Write() {
    News news;
    state_->is_sending = true;
    core_.Begin(*state_, agent_core::SteadyTime::max());
    CheckAgain(1);
    for (;;) {
      const agent_core::Step step = core_.Next(*state_, now_, news);
      CheckAgain(1);
      const auto* write = std::get_if<agent_core::Write>(&step);
      if (write == nullptr) break;
      ipam::Block stored = write->after;
      stored.resource_version = std::to_string(++version_);
      core_.Answer(*state_, std::make_shared<const ipam::Block>(std::move(stored)), now_, now_, news);
      CheckAgain(1);
    }
    static_cast<void>(Core::End(*state_));
    CheckAgain(1);
  }

  ipam::PoolView pool_ = agent_core::TestPoolView("10.55.0.0/16", "10.55.0.0/26");
  ipam::Change add_ = agent_core::Taking(pool_, "a1");
  ipam::Change del_ = agent_core::Releasing("a1");
  Now now_{.steady = agent_core::SteadyTime(std::chrono::hours(1)), .since_boot = std::chrono::hours(1)};
  Core core_{{.self = {.node = "n1", .instance = "m-me"}, .standby = 16}};
  Core::StatePointer state_;
  std::uint64_t version_ = 1;
  std::size_t handed_out_ = 0;
  std::size_t broken_ = 0;
  bool checks_twice_ = false;
};

void Compare(std::size_t held) {
  constexpr int kTurns = 41;
  constexpr int kCycles = 50;
  CoreCycles cycles(held);
  std::vector<double> once;
  std::vector<double> twice;
  for (int i = 0; i < kTurns; ++i) {
    once.push_back(cycles.Run(kCycles, false));
    twice.push_back(cycles.Run(kCycles, true));
  }
  std::ranges::sort(once);
  std::ranges::sort(twice);
  const double with = once[kTurns / 2];
  const double checks = twice[kTurns / 2] - with;
  std::printf(
      "%zu held of 64: a cycle takes %.1f us, its checks %.2f us: with checks / without checks = %.3f (%zu of %d "
      "given)\n",
      held,
      with / 1000,
      checks / 1000,
      with / (with - checks),
      cycles.handed_out(),
      2 * kTurns * kCycles);
}

}  // namespace
}  // namespace berth::bench

int main() {
  for (const std::size_t held : {1, 16, 40}) berth::bench::Compare(held);
  return 0;
}
