// SPDX-License-Identifier: Apache-2.0
// berth-sim: histories of a simulated cluster, one from each seed; see docs/simulation.md.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include "sim/find_plants.h"
#include "sim/runner.h"
#include "sim/scheduler.h"
#include "sim/script_world.h"

namespace {

using namespace berth::sim;

// After this time, a plant counts as not found.
constexpr std::uint64_t kPlantSeconds = 600;

struct Options {
  Case like;
  RunOptions run;
  bool is_told = false;
  bool shows_logs = false;
  bool shows_stacks = false;
  bool runs_twice = false;
  bool shrinks = false;
  bool looks_for_plants = false;
  std::uint64_t seconds = 0;
  std::uint64_t tries = 1;
  std::string plant;
  std::string faults;
  std::string script;
};

const Plant* FindPlant(const std::string& name) {
  const auto found = std::ranges::find(AllPlants(), name, &Plant::name);
  return found == AllPlants().end() ? nullptr : &*found;
}

void Describe(CLI::App& app, Options& options) {
  app.add_option("--seed", options.run.first, "the first seed")->capture_default_str();
  app.add_option("--runs", options.run.runs, "number of seeds, one after the other")->capture_default_str();
  app.add_option(
      "--seconds",
      options.seconds,
      "start no new seed after this many seconds, with --plants of CPU time for each of --jobs; with --runs, "
      "whichever limit comes first");
  app.add_option("--jobs", options.run.jobs, "number of seeds that run at the same time")
      ->check(CLI::Range(1U, 256U))
      ->capture_default_str();
  app.add_option("--servers", options.like.extent.servers, "largest number of API servers")->check(CLI::Range(1, 10));
  app.add_option("--controllers", options.like.extent.controllers, "largest number of controllers")
      ->check(CLI::Range(0, 10));
  app.add_option("--nodes", options.like.extent.nodes, "largest number of nodes")->check(CLI::Range(1, 100));
  app.add_option("--agents", options.like.extent.agents, "largest number of restarts of agents")
      ->check(CLI::Range(1, 100));
  app.add_option("--callers", options.like.extent.callers, "largest number of callers on a node")
      ->check(CLI::Range(1, 100));
  app.add_option("--containers", options.like.extent.containers, "largest number of containers of a caller")
      ->check(CLI::Range(1, 1000));
  std::string known;
  for (const std::string& fault : Extent::KnownFaults()) known += (known.empty() ? "" : ",") + fault;
  app.add_option(
      "--faults",
      options.faults,
      "faults that may happen, separated by commas, or none; default: each seed draws some, or all, of " + known);
  std::string plants = "make this defect on purpose, to see whether it is found:";
  for (const Plant& plant : AllPlants()) plants += "\n" + std::string(plant.name) + ": " + std::string(plant.what);
  app.add_option("--plant", options.plant, plants);
  app.add_flag("--plants",
               options.looks_for_plants,
               "count the seeds until each plant is found: at most --runs of them, or for --seconds, or ten minutes");
  app.add_option("--tries", options.tries, "with --plants: search so often for each, with other seeds")
      ->check(CLI::Range(1U, 1000U))
      ->capture_default_str();
  app.add_option("--script", options.script, "run this script instead of a seed, and print it with what is seen")
      ->check(CLI::ExistingFile);
  app.add_flag("--trace", options.is_told, "print the history of --seed or of --script: virtual second, who, what");
  app.add_flag("--logs", options.shows_logs, "with --trace: also print what the programs log");
  app.add_flag("--stacks", options.shows_stacks, "with --trace: also print where every thread waits at the end");
  app.add_flag("--twice", options.runs_twice, "run each seed twice, and compare the hashes of the two histories");
  app.add_flag("--shrink", options.shrinks, "stop at the first failure, and look for a smaller world with it");
}

// False: an option is wrong, and the error was printed.
bool Complete(Options& options, bool has_runs) {
  if (options.looks_for_plants && !has_runs && options.seconds == 0) options.seconds = kPlantSeconds;
  if (options.seconds > 0) {
    // A search for a plant takes as many histories on a busy machine as on an idle one.
    if (options.looks_for_plants) {
      options.run.cpu_time = std::chrono::seconds(options.seconds * options.run.jobs);
    } else {
      options.run.time = std::chrono::seconds(options.seconds);
    }
    if (!has_runs) options.run.runs = UINT64_MAX;
  }
  options.run.stops_at_failure = options.shrinks;
  if (!options.plant.empty()) {
    options.like.plant = FindPlant(options.plant);
    if (options.like.plant == nullptr) {
      std::fprintf(stderr, "berth-sim: there is no plant %s; see --help\n", options.plant.c_str());
      return false;
    }
  }
  options.like.draws_faults = options.faults.empty();
  if (options.faults.empty()) return true;
  auto& faults = options.like.extent.faults;
  faults.clear();
  if (options.faults == "none") return true;
  for (const std::string& fault : CLI::detail::split(options.faults, ',')) {
    if (!Extent::KnownFaults().contains(fault)) {
      std::fprintf(stderr, "berth-sim: there is no fault %s; see --help\n", fault.c_str());
      return false;
    }
    faults.insert(fault);
  }
  return true;
}

void Show(const Case& of, const Outcome& outcome) {
  for (const auto& broken : outcome.broken) {
    std::printf(
        "FAILED %s: %s\n       again: %s --trace\n", broken.rule.c_str(), broken.how.c_str(), CommandOf(of).c_str());
  }
}

int Tell(const Options& options) {
  if (options.shows_logs) spdlog::set_level(spdlog::level::debug);
  if (options.shows_stacks) RememberStacks();
  Case one = options.like;
  one.seed = options.run.first;
  if (one.draws_faults) one.extent.faults = Extent::DrawFaults(one.seed);
  const Outcome outcome = RunHere(one, /*is_told=*/true);
  if (options.shows_stacks) std::printf("%s\n", WhoWaitsWhere().c_str());
  Show(one, outcome);
  std::printf("seed %lu hash %016lx: %lu calls, %lu requests, %lu faults, %lu switches, %.1f virtual seconds\n",
              one.seed,
              outcome.hash,
              outcome.calls,
              outcome.requests,
              outcome.faults,
              outcome.switches,
              outcome.seconds);
  std::fflush(stdout);
  // The program ends without destructors, because killed processes left objects that nobody owns.
  _exit(outcome.broken.empty() ? 0 : 1);
}

int TellScript(const Options& options) {
  if (options.shows_logs) spdlog::set_level(spdlog::level::debug);
  std::ifstream file(options.script);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const auto shown = RunScript(options.script, text, options.is_told);
  std::printf("%s\n", (shown ? *shown : shown.error().message).c_str());
  std::fflush(stdout);
  // The program ends without destructors, as in Tell.
  _exit(shown && *shown == text ? 0 : 1);
}

int LookForPlants(const Options& options) {
  return FindPlants({.like = options.like, .run = options.run, .tries = options.tries}) ? 0 : 1;
}

int RunAll(const Options& options) {
  std::uint64_t passed = 0;
  std::uint64_t failed = 0;
  Outcome sum;
  std::optional<Report> first;
  const auto begin = std::chrono::steady_clock::now();
  RunMany(options.like, options.run, [&](const Report& report) {
    const Outcome& outcome = report.outcome;
    bool is_broken = !outcome.broken.empty();
    Show(report.of, outcome);
    if (options.runs_twice && !is_broken && RunApart(report.of).outcome.hash != outcome.hash) {
      std::printf("FAILED same-seed-same-history: seed %lu has two hashes\n", report.of.seed);
      is_broken = true;
    }
    ++(is_broken ? failed : passed);
    if (is_broken && !first) first = report;
    sum.calls += outcome.calls;
    sum.requests += outcome.requests;
    sum.faults += outcome.faults;
    sum.seconds += outcome.seconds;
    sum.hash ^= outcome.hash * (2 * report.of.seed + 1);
  });
  const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::printf(
      "seeds from %lu: %lu in %.1f s, %.1f for each second of CPU; %lu calls, %lu requests, %lu faults, %.1f virtual "
      "hours; hash %016lx\n",
      options.run.first,
      passed + failed,
      took,
      static_cast<double>(passed + failed) / ChildrensCpuSeconds(),
      sum.calls,
      sum.requests,
      sum.faults,
      sum.seconds / 3600,
      sum.hash);
  if (first && options.shrinks) {
    const Case less = Shrink(first->of, first->outcome.broken.front().rule, options.run.jobs);
    std::printf("smaller: %s --trace\n", CommandOf(less).c_str());
  }
  std::printf("%lu passed, %lu failed\n", passed, failed);
  return failed == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, const char* const* argv) {
  Options options;
  CLI::App app{
      "Runs agents, controllers and berth-direct in a simulated cluster with random faults, and checks that no address "
      "is "
      "given twice or lost. Each seed makes one history, which it repeats exactly.",
      "berth-sim"};
  app.footer("Examples:\n  berth-sim --runs 100 --jobs 2\n  berth-sim --seed 17 --trace");
  Describe(app, options);
  CLI11_PARSE(app, argc, argv);
  if (!Complete(options, app.count("--runs") > 0)) return 2;
  // The logger has no lock, so the history is the same whether logs are shown or not.
  spdlog::set_default_logger(std::make_shared<spdlog::logger>("", std::make_shared<spdlog::sinks::stdout_sink_st>()));
  spdlog::set_pattern("                          [%l] %v");
  spdlog::set_level(spdlog::level::off);
  if (!options.script.empty()) return TellScript(options);
  if (options.looks_for_plants) return LookForPlants(options);
  return options.is_told ? Tell(options) : RunAll(options);
}
