// SPDX-License-Identifier: Apache-2.0
// Runner: runs several histories at a time, each in a child process, and searches for the smallest world in which a
// history still fails.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sim/world.h"

namespace berth::sim {

struct Case {
  std::uint64_t seed = 0;
  Extent extent = {};
  const Plant* plant = nullptr;
  bool draws_faults = false;  // RunMany uses Extent::DrawFaults of each seed instead of extent.faults
};

struct Report {
  Case of;
  Outcome outcome;  // if the history crashed, it broke the rule "crash"
};

struct RunOptions {
  std::uint64_t first = 1;
  std::uint64_t runs = 1;
  unsigned jobs = 1;
  std::chrono::seconds time = std::chrono::hours(24);      // no history begins after this time
  std::chrono::seconds cpu_time = std::chrono::hours(24);  // no history begins after this CPU time of all histories
  bool stops_at_failure = false;
};

// Runs the history in this process: for --trace, and in the child processes.
[[nodiscard]] Outcome RunHere(const Case& one, bool is_told);

// Runs each history in a child process, and calls `report` when a history ends. With jobs > 1, reports do not come in
// the order of the seeds.
void RunMany(const Case& like, const RunOptions& options, const std::function<void(const Report&)>& report);
[[nodiscard]] Report RunApart(const Case& one);

// CPU seconds of all child processes that have ended.
[[nodiscard]] double ChildrensCpuSeconds();

// Returns a smaller case that breaks the same rule: fewer faults, nodes, agents, callers, containers. Takes some
// minutes.
[[nodiscard]] Case Shrink(const Case& failing, const std::string& rule, unsigned jobs);

// The command that runs the case again.
[[nodiscard]] std::string CommandOf(const Case& one);

}  // namespace berth::sim
