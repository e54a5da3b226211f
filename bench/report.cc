// SPDX-License-Identifier: Apache-2.0
// Tables and goals of both kinds of run.
#include "bench/report.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <span>

#include <spdlog/fmt/fmt.h>

namespace berth::bench {
namespace {

const ContenderFigures* Find(const CallersFigures& figures, std::string_view name) {
  const auto found = std::ranges::find(figures.contenders, name, &ContenderFigures::name);
  return found == figures.contenders.end() ? nullptr : &*found;
}

void PrintFailures(std::string& text, std::size_t failed, const std::string& first_error) {
  if (failed > 0) fmt::format_to(std::back_inserter(text), "  {} FAILED, the first: {}", failed, first_error);
}

std::string Ratio(double of, double to) { return to > 0 ? fmt::format("{:.2f}", of / to) : "-"; }

void PrintOperation(std::string& text, const char* verb, OpFigures ContenderFigures::* operation,
                    const CallersFigures& figures) {
  const ContenderFigures* host_local = Find(figures, kHostLocalName);
  const ContenderFigures* raw = Find(figures, kRawName);
  const auto out = std::back_inserter(text);
  fmt::format_to(out,
                 "  {:<14}{:>9}{:>9}{:>9}{:>9}{:>13}{:>8}{:>9}{:>9}{:>9}\n",
                 verb,
                 "p50 ms",
                 "p90 ms",
                 "p99 ms",
                 "per s",
                 "/ host-local",
                 "/ raw",
                 "node ms",
                 "API ms",
                 "etcd kB");
  for (const ContenderFigures& contender : figures.contenders) {
    const OpFigures& own = contender.*operation;
    fmt::format_to(out,
                   "  {:<14}{:>9.2f}{:>9.2f}{:>9.2f}{:>9.0f}{:>13}{:>8}{:>9.2f}{:>9.2f}{:>9.1f}",
                   contender.name,
                   own.p50_ms,
                   own.p90_ms,
                   own.p99_ms,
                   own.per_second,
                   Ratio(own.p50_ms, host_local != nullptr ? (host_local->*operation).p50_ms : 0),
                   Ratio(own.p50_ms, raw != nullptr ? (raw->*operation).p50_ms : 0),
                   own.node_cpu_ms,
                   own.server_cpu_ms,
                   own.etcd_bytes / 1000);
    PrintFailures(text, own.failed, own.first_error);
    text += '\n';
  }
}

void PrintRequests(std::string& text, const char* verb, OpFigures ContenderFigures::* operation,
                   const std::vector<CallersFigures>& all) {
  const auto out = std::back_inserter(text);
  fmt::format_to(out, "  {:<14}", verb);
  for (const CallersFigures& figures : all) fmt::format_to(out, "{:>14}", CallersText(figures.callers));
  text += '\n';
  // A contender that cannot serve several callers is only among the figures of one caller.
  const CallersFigures& widest =
      *std::ranges::max_element(all, {}, [](const CallersFigures& figures) { return figures.contenders.size(); });
  for (const ContenderFigures& contender : widest.contenders) {
    fmt::format_to(out, "  {:<14}", contender.name);
    std::size_t failed = 0;
    std::string first_error;
    for (const CallersFigures& figures : all) {
      const ContenderFigures* own = Find(figures, contender.name);
      fmt::format_to(out, "{:>14}", own == nullptr ? "-" : fmt::format("{:.3f}", (own->*operation).requests));
      if (own == nullptr) continue;
      failed += (own->*operation).failed;
      if (first_error.empty()) first_error = (own->*operation).first_error;
    }
    PrintFailures(text, failed, first_error);
    text += '\n';
  }
}

struct Goal {
  const char* what;
  int callers;
  const char* contender;
  // The figure and its limit, from the figures of the contender, of host-local and of the raw PATCH (nullptr: not
  // measured).
  struct Verdict {
    std::string here;
    std::string bar;
    bool reached;
  };
  std::optional<Verdict> (*judge)(const ContenderFigures& own, const ContenderFigures* host_local,
                                  const ContenderFigures* raw);
};

using Verdict = std::optional<Goal::Verdict>;

constexpr Goal kGoals[] = {
    {"ADD p50, by host-local's",
     1,
     kDirectName,
     [](const auto& own, const auto* host_local, const auto*) -> Verdict {
       if (host_local == nullptr) return {};
       const double ratio = own.add.p50_ms / host_local->add.p50_ms;
       return Goal::Verdict{fmt::format("{:.2f} x", ratio), "at most 4 x", ratio <= 4};
     }},
    {"ADD p50",
     1,
     kAgentName,
     [](const auto& own, const auto* host_local, const auto*) -> Verdict {
       if (host_local == nullptr) return {};
       return Goal::Verdict{fmt::format("{:.2f} ms", own.add.p50_ms),
                            fmt::format("below host-local's {:.2f} ms", host_local->add.p50_ms),
                            own.add.p50_ms < host_local->add.p50_ms};
     }},
    {"ADD p50",
     1,
     kAgentName,
     [](const auto& own, const auto*, const auto* raw) -> Verdict {
       if (raw == nullptr) return {};
       const double bar = 1.3 * raw->add.p50_ms + 1;
       return Goal::Verdict{fmt::format("{:.2f} ms", own.add.p50_ms),
                            fmt::format("at most 1.3 x raw PATCH + 1 ms = {:.2f} ms", bar),
                            own.add.p50_ms <= bar};
     }},
    {"DEL p50",
     1,
     kAgentName,
     [](const auto& own, const auto* host_local, const auto*) -> Verdict {
       if (host_local == nullptr) return {};
       return Goal::Verdict{fmt::format("{:.2f} ms", own.del.p50_ms),
                            fmt::format("below host-local's {:.2f} ms", host_local->del.p50_ms),
                            own.del.p50_ms < host_local->del.p50_ms};
     }},
    {"ADDs per second, by host-local's",
     8,
     kAgentName,
     [](const auto& own, const auto* host_local, const auto*) -> Verdict {
       if (host_local == nullptr) return {};
       const double ratio = own.add.per_second / host_local->add.per_second;
       return Goal::Verdict{fmt::format("{:.1f} x", ratio), "at least 5 x", ratio >= 5};
     }},
};

// `requests`: of a contender that sends requests. 0 reaches no goal, because it means that the log shows no request:
// nothing succeeded, or the audit log is that of another API server.
Verdict AtMost(double requests, double bar) {
  return Goal::Verdict{
      fmt::format("{:.3f}", requests), fmt::format("at most {}", bar), requests > 0 && requests <= bar};
}

constexpr Goal kRequestGoals[] = {
    {"requests per ADD",
     1,
     kDirectName,
     [](const auto& own, const auto*, const auto*) { return AtMost(own.add.requests, 3); }},
    {"requests per DEL",
     1,
     kDirectName,
     [](const auto& own, const auto*, const auto*) { return AtMost(own.del.requests, 2); }},
    {"requests per ADD",
     1,
     kAgentName,
     [](const auto& own, const auto*, const auto*) { return AtMost(own.add.requests, 1); }},
    {"requests per ADD",
     32,
     kAgentName,
     [](const auto& own, const auto*, const auto*) { return AtMost(own.add.requests, 0.2); }},
};

std::string Judged(std::span<const Goal> goals, const std::vector<CallersFigures>& all) {
  std::string text;
  for (const Goal& goal : goals) {
    const auto figures = std::ranges::find(all, goal.callers, &CallersFigures::callers);
    if (figures == all.end()) continue;
    const ContenderFigures* own = Find(*figures, goal.contender);
    if (own == nullptr) continue;
    const Verdict verdict = goal.judge(*own, Find(*figures, kHostLocalName), Find(*figures, kRawName));
    if (!verdict) continue;
    fmt::format_to(std::back_inserter(text),
                   "  {:<8} {:<13} {:<34} {:>9}   {}, {}\n",
                   verdict->reached ? "reached" : "MISSED",
                   goal.contender,
                   goal.what,
                   verdict->here,
                   verdict->bar,
                   CallersText(goal.callers));
  }
  return text.empty() ? text : "Goals\n" + text;
}

}  // namespace

std::string CallersText(int callers) { return callers == 1 ? "1 caller" : fmt::format("{} callers", callers); }

std::string Tables(const std::vector<CallersFigures>& all) {
  std::string text;
  for (const CallersFigures& figures : all) {
    text += CallersText(figures.callers) + (figures.callers == 1 ? ", block half full\n" : "\n");
    PrintOperation(text, "ADD", &ContenderFigures::add, figures);
    PrintOperation(text, "DEL", &ContenderFigures::del, figures);
    text += '\n';
  }
  return text;
}

std::string Goals(const std::vector<CallersFigures>& all) { return Judged(kGoals, all); }

std::string RequestTables(const std::vector<CallersFigures>& all) {
  if (all.empty()) return {};
  std::string text;
  PrintRequests(text, "ADD", &ContenderFigures::add, all);
  PrintRequests(text, "DEL", &ContenderFigures::del, all);
  return text + '\n';
}

std::string RequestGoals(const std::vector<CallersFigures>& all) { return Judged(kRequestGoals, all); }

}  // namespace berth::bench
