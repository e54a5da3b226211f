// SPDX-License-Identifier: Apache-2.0
// Runs histories in child processes, which write their outcomes to pipes.
#include "sim/runner.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <map>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

#include <nlohmann/json.hpp>
#include <spdlog/fmt/fmt.h>
#include <spdlog/fmt/ranges.h>

#include "base/check.h"
#include "cni/attachment.h"
#include "crds/names.h"
#include "k8sclient/testing/model_schema.h"

namespace berth::sim {

using nlohmann::json;

namespace {

// Longest time of an attempt to shrink.
constexpr std::chrono::seconds kShrinkTime{10};

json ToJson(const Outcome& outcome) {
  json broken = json::array();
  for (const auto& one : outcome.broken) broken.push_back({one.rule, one.how});
  return {{"broken", broken},
          {"hash", outcome.hash},
          {"calls", outcome.calls},
          {"requests", outcome.requests},
          {"faults", outcome.faults},
          {"switches", outcome.switches},
          {"seconds", outcome.seconds}};
}

Outcome FromJson(const json& text) {
  Outcome outcome{.broken = {},
                  .hash = text["hash"],
                  .calls = text["calls"],
                  .requests = text["requests"],
                  .faults = text["faults"],
                  .switches = text["switches"],
                  .seconds = text["seconds"]};
  for (const json& one : text["broken"]) outcome.broken.push_back({.rule = one[0], .how = one[1]});
  return outcome;
}

struct Child {
  Case of;
  pid_t pid = 0;
  int results = -1;
};

Child Start(const Case& one) {
  std::array<int, 2> ends{};
  BERTH_CHECK(pipe(ends.data()) == 0);
  const pid_t pid = fork();
  BERTH_CHECK(pid >= 0);
  if (pid == 0) {
    close(ends[0]);
    const std::string result = ToJson(RunHere(one, /*is_told=*/false)).dump();
    const bool is_written = write(ends[1], result.data(), result.size()) == static_cast<ssize_t>(result.size());
    _exit(is_written ? 0 : 1);
  }
  close(ends[1]);
  return {.of = one, .pid = pid, .results = ends[0]};
}

Report Finish(const Child& child, int status) {
  std::string text;
  std::array<char, 4096> part{};
  ssize_t count = 0;
  while ((count = read(child.results, part.data(), part.size())) > 0)
    text.append(part.data(), static_cast<std::size_t>(count));
  close(child.results);
  const json result = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (status == 0 && result.is_object()) return {.of = child.of, .outcome = FromJson(result)};
  const std::string how =
      WIFSIGNALED(status) ? fmt::format("signal {}", WTERMSIG(status)) : fmt::format("status {}", status);
  return {.of = child.of, .outcome = {.broken = {{.rule = "crash", .how = how}}, .seconds = 0}};
}

// Creates before the first fork what each child would otherwise create for itself: the CRDs' schemas, and OpenSSL's
// tables.
void WarmUp() {
  for (const std::string_view path : {crds::kPoolsPath, crds::kBlocksPath, crds::kAllocationsPath})
    static_cast<void>(k8sclient::testing::ModelSchema::Of(std::string(path)));
  static_cast<void>(cni::MakeAttachment("net", "container", "eth0"));
}

}  // namespace

Outcome RunHere(const Case& one, bool is_told) {
  // The world is never destroyed: that would take a tenth of the time, and the process ends anyway.
  auto* const world =  // NOLINT(cppcoreguidelines-owning-memory)
      new World(one.seed, one.extent, one.plant, is_told);
  return world->Run();
}

Report RunApart(const Case& one) {
  const Child child = Start(one);
  int status = 0;
  BERTH_CHECK(waitpid(child.pid, &status, 0) == child.pid);
  return Finish(child, status);
}

void RunMany(const Case& like, const RunOptions& options, const std::function<void(const Report&)>& report) {
  WarmUp();
  const auto end = std::chrono::steady_clock::now() + options.time;
  const double cpu_end = ChildrensCpuSeconds() + std::chrono::duration<double>(options.cpu_time).count();
  std::map<pid_t, Child> running;
  std::uint64_t begun = 0;
  bool goes_on = true;
  while (goes_on || !running.empty()) {
    while (goes_on && running.size() < options.jobs) {
      goes_on = begun < options.runs && std::chrono::steady_clock::now() < end && ChildrensCpuSeconds() < cpu_end;
      if (!goes_on) break;
      Case one = like;
      one.seed = options.first + begun++;
      if (one.draws_faults) one.extent.faults = Extent::DrawFaults(one.seed);
      const Child child = Start(one);
      running.emplace(child.pid, child);
    }
    if (running.empty()) return;
    int status = 0;
    const auto ended = running.find(wait(&status));
    if (ended == running.end()) continue;
    const Report one = Finish(ended->second, status);
    running.erase(ended);
    report(one);
    if (options.stops_at_failure && !one.outcome.broken.empty()) goes_on = false;
  }
}

double ChildrensCpuSeconds() {
  rusage used{};
  getrusage(RUSAGE_CHILDREN, &used);
  const auto seconds = [](const timeval& time) {
    return std::chrono::duration<double>(std::chrono::seconds(time.tv_sec) + std::chrono::microseconds(time.tv_usec));
  };
  return (seconds(used.ru_utime) + seconds(used.ru_stime)).count();
}

Case Shrink(const Case& failing, const std::string& rule, unsigned jobs) {
  // A smaller extent changes the history of a seed, so each attempt runs several seeds.
  const auto first_failing = [&](const Case& like) -> std::optional<Case> {
    std::optional<Case> found;
    RunMany(like,
            {.first = 1, .runs = UINT64_MAX, .jobs = jobs, .time = kShrinkTime, .stops_at_failure = true},
            [&](const Report& report) {
              const bool is_it = !report.outcome.broken.empty() && report.outcome.broken.front().rule == rule;
              if (is_it && !found) found = report.of;
            });
    return found;
  };
  Case smallest = failing;
  smallest.draws_faults = false;
  // Makes `smallest` smaller, if a smaller case fails as well. Returns whether it did.
  const auto attempt = [&](const std::function<void(Extent&)>& make_less) {
    Case less = smallest;
    make_less(less.extent);
    const auto found = first_failing(less);
    if (found) smallest = *found;
    return found.has_value();
  };
  if (smallest.extent.controllers > 0) attempt([](Extent& extent) { extent.controllers = 0; });
  for (int Extent::* const count :
       {&Extent::servers, &Extent::nodes, &Extent::agents, &Extent::callers, &Extent::containers}) {
    for (const int few : {1, 2, 3, 5}) {
      if (smallest.extent.*count <= few || attempt([&](Extent& extent) { extent.*count = few; })) break;
    }
  }
  // Removes half of the faults at once, then a quarter, and so on: most faults do not matter.
  for (std::size_t part = smallest.extent.faults.size() / 2; part > 0; part /= 2) {
    const std::vector<std::string> faults(smallest.extent.faults.begin(), smallest.extent.faults.end());
    for (std::size_t begin = 0; begin < faults.size(); begin += part) {
      attempt([&](Extent& extent) {
        for (std::size_t i = begin; i < std::min(begin + part, faults.size()); ++i) extent.faults.erase(faults[i]);
      });
    }
  }
  return smallest;
}

std::string CommandOf(const Case& one) {
  const Extent usual;
  std::string command = fmt::format("berth-sim --seed {}", one.seed);
  if (one.extent.controllers != usual.controllers) command += fmt::format(" --controllers {}", one.extent.controllers);
  if (one.extent.servers != usual.servers) command += fmt::format(" --servers {}", one.extent.servers);
  if (one.extent.nodes != usual.nodes) command += fmt::format(" --nodes {}", one.extent.nodes);
  if (one.extent.agents != usual.agents) command += fmt::format(" --agents {}", one.extent.agents);
  if (one.extent.callers != usual.callers) command += fmt::format(" --callers {}", one.extent.callers);
  if (one.extent.containers != usual.containers) command += fmt::format(" --containers {}", one.extent.containers);
  // If the seed draws the faults, the command need not name them.
  if (!one.draws_faults)
    command += fmt::format(" --faults {}",
                           one.extent.faults.empty() ? "none" : fmt::format("{}", fmt::join(one.extent.faults, ",")));
  if (one.plant != nullptr) command += fmt::format(" --plant {}", one.plant->name);
  return command;
}

}  // namespace berth::sim
