// SPDX-License-Identifier: Apache-2.0
// Runs the rounds, and rotates the contenders.
#include "bench/rounds.h"

#include <spdlog/fmt/fmt.h>

namespace berth::bench {

namespace {

using Contenders = std::vector<std::unique_ptr<Contender>>;

struct RoundsOf {
  std::vector<OpFigures> add;
  std::vector<OpFigures> del;
};

class Runner {
 public:
  Runner(const Contenders& contenders, const RoundsOptions& options, const Meters& meters, const Progress& progress)
      : contenders_(contenders), options_(options), meters_(meters), progress_(progress), ids_(options.seed) {}

  Expected<void> Prefill() {
    for (const auto& contender : contenders_) {
      progress_(contender->name() + ": the first addresses");
      for (int count = 0; count < kPrefill; ++count) {
        prefilled_.push_back({contender.get(), ids_.Next()});
        if (auto added = contender->Add(prefilled_.back().id); !added) return added;
      }
    }
    return {};
  }

  Expected<void> EmptyAgain() {
    for (const Held& held : prefilled_) {
      if (auto deleted = held.contender->Del(held.id); !deleted) return deleted;
    }
    return {};
  }

  Expected<CallersFigures> RunWith(int callers) {
    std::vector<RoundsOf> rounds(contenders_.size());
    for (int round = 0; round <= options_.rounds; ++round) {
      for (std::size_t turn = 0; turn < contenders_.size(); ++turn) {
        const std::size_t index = (turn + static_cast<std::size_t>(round)) % contenders_.size();
        Contender& contender = *contenders_[index];
        if (callers > contender.callers_max()) continue;
        progress_(fmt::format("{}, callers: {}, round {} of {}", contender.name(), callers, round, options_.rounds));
        const auto samples =
            RunWorkload(contender, {.callers = callers, .operations = options_.operations}, meters_, ids_);
        if (!samples) return std::unexpected(samples.error());
        if (round == 0) continue;  // round 0 only claims blocks and fills caches
        rounds[index].add.push_back(Summarise(samples->add));
        rounds[index].del.push_back(Summarise(samples->del));
      }
    }
    CallersFigures figures{.callers = callers};
    for (std::size_t index = 0; index < contenders_.size(); ++index) {
      if (rounds[index].add.empty()) continue;
      figures.contenders.push_back(
          {.name = contenders_[index]->name(), .add = MedianOf(rounds[index].add), .del = MedianOf(rounds[index].del)});
    }
    return figures;
  }

 private:
  struct Held {
    Contender* contender;
    std::string id;
  };

  const Contenders& contenders_;
  const RoundsOptions& options_;
  const Meters& meters_;
  const Progress& progress_;
  ContainerIds ids_;
  std::vector<Held> prefilled_;
};

}  // namespace

Expected<std::vector<CallersFigures>> RunRounds(const Contenders& contenders, const RoundsOptions& options,
                                                const Meters& meters, const Progress& progress) {
  Runner runner(contenders, options, meters, progress);
  if (auto filled = runner.Prefill(); !filled) return std::unexpected(filled.error());
  std::vector<CallersFigures> all;
  for (const int callers : options.callers) {
    auto figures = runner.RunWith(callers);
    if (!figures) return std::unexpected(figures.error());
    all.push_back(*std::move(figures));
  }
  if (auto emptied = runner.EmptyAgain(); !emptied) return std::unexpected(emptied.error());
  return all;
}

}  // namespace berth::bench
