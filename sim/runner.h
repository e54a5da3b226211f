// SPDX-License-Identifier: Apache-2.0
// Runner: histories in processes of their own, several at a time; and the smallest world in which one still fails.
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
  bool draws_faults = false;  // RunMany takes Extent::DrawFaults of each seed, not what stands in `extent`
};

struct Report {
  Case of;
  Outcome outcome;  // a history that crashed has a broken rule "crash"
};

struct RunOptions {
  std::uint64_t first = 1;
  std::uint64_t runs = 1;
  unsigned jobs = 1;
  std::chrono::seconds time = std::chrono::hours(24);  // none begins after that
  bool stops_at_failure = false;
};

// In this process: for --trace, and for the child that Runner makes.
[[nodiscard]] Outcome RunHere(const Case& one, bool is_told);

// Each in a child. Called with each report as it comes, which is not in the order of the seeds if jobs > 1.
void RunMany(const Case& like, const RunOptions& options, const std::function<void(const Report&)>& report);
[[nodiscard]] Report RunApart(const Case& one);

// CPU seconds of all histories that have ended in children.
[[nodiscard]] double ChildrensCpuSeconds();

// A case of less extent in which the same rule is broken: fewer kinds of fault, nodes, agents, callers, containers.
// Takes some minutes.
[[nodiscard]] Case Shrink(const Case& failing, const std::string& rule, unsigned jobs);

// What to type to see it again.
[[nodiscard]] std::string CommandOf(const Case& one);

}  // namespace berth::sim
