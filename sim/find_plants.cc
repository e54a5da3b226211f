// SPDX-License-Identifier: Apache-2.0
// Runs the tries, and prints a row for each plant.
#include "sim/find_plants.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <spdlog/fmt/fmt.h>
#include <spdlog/fmt/ranges.h>

namespace berth::sim {

namespace {

constexpr std::uint64_t kSeedsApart = 1'000'000;

struct Try {
  std::optional<std::string> rule = {};  // the rule that found the plant; nothing: none did
  std::uint64_t seed = 0;                // seed of the history that found the plant
  std::uint64_t histories = 0;
  double cpu_seconds = 0;
};

Try TryOnce(const Case& like, const RunOptions& run) {
  Try result;
  const double begin = ChildrensCpuSeconds();
  RunMany(like, run, [&](const Report& report) {
    ++result.histories;
    if (result.rule || report.outcome.broken.empty()) return;
    result.rule = report.outcome.broken.front().rule;
    result.seed = report.of.seed;
  });
  result.cpu_seconds = ChildrensCpuSeconds() - begin;
  return result;
}

std::string RowOf(const Plant& plant, std::vector<Try> tries, std::size_t found) {
  std::set<std::string> rules;
  for (const Try& one : tries) {
    if (one.rule) rules.insert("`" + *one.rule + "`");
  }
  std::ranges::sort(tries, {}, &Try::histories);
  const Try& middle = tries[tries.size() / 2];
  const auto first = std::ranges::find_if(tries, [](const Try& one) { return one.rule.has_value(); });
  return fmt::format("| `{}` | {} of {} | {} | {} | {:.1f} | {} | {} |",
                     plant.name,
                     found,
                     tries.size(),
                     middle.histories,
                     tries.back().histories,
                     middle.cpu_seconds,
                     fmt::join(rules, ", "),
                     first == tries.end() ? "" : std::to_string(first->seed));
}

// Says what to do about a plant that too few tries found.
std::string WhyFailed(const Plant& plant, const std::vector<Try>& tries, std::size_t found, const RunOptions& run) {
  double most = 0;
  for (const Try& one : tries) most = std::max(most, one.cpu_seconds);
  const std::string runs = run.runs == UINT64_MAX ? "any number of" : fmt::format("at most {}", run.runs);
  return fmt::format(
      "FAILED: {} of {} searches found the planted defect {}. A search has {} histories and {} s of CPU; these took up "
      "to "
      "{:.1f} s. If other seeds find the defect sooner, write such a seed to sim/plants.txt (tools/sim-test --plants). "
      "If "
      "not, a change has weakened the simulator",
      found,
      tries.size(),
      plant.name,
      runs,
      run.cpu_time.count(),
      most);
}

}  // namespace

bool FindPlants(const PlantSearch& search) {
  std::printf(
      "| plant | found | histories, median | most | seconds of CPU, median | found by rule | for example by seed |\n");
  std::printf("|---|---|---|---|---|---|---|\n");
  std::uint64_t passed = 0;
  std::uint64_t failed = 0;
  for (const Plant& plant : AllPlants()) {
    if (search.like.plant != nullptr && search.like.plant != &plant) continue;
    Case like = search.like;
    like.plant = &plant;
    if (like.draws_faults && !plant.faults.empty()) {
      like.extent.faults = plant.faults;
      like.draws_faults = false;
      if (!plant.has_controllers) like.extent.controllers = 0;
    }
    RunOptions run = search.run;
    run.stops_at_failure = true;
    std::vector<Try> tries;
    for (std::uint64_t i = 0; i < search.tries; ++i) {
      run.first = search.run.first + i * kSeedsApart;
      tries.push_back(TryOnce(like, run));
    }
    const double budget = std::chrono::duration<double>(run.cpu_time).count();
    const auto found = static_cast<std::size_t>(std::ranges::count_if(
        tries, [budget](const Try& one) { return one.rule.has_value() && one.cpu_seconds <= budget; }));
    const bool is_found = found * 10 >= tries.size() * 9;
    ++(is_found ? passed : failed);
    if (!is_found) std::printf("%s\n", WhyFailed(plant, tries, found, run).c_str());
    std::printf("%s\n", RowOf(plant, std::move(tries), found).c_str());
    std::fflush(stdout);
  }
  std::printf("%lu passed, %lu failed\n", passed, failed);
  return failed == 0;
}

}  // namespace berth::sim
