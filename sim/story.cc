// SPDX-License-Identifier: Apache-2.0
// A story goes to stdout and into the hash.
#include "sim/story.h"

#include <spdlog/fmt/fmt.h>

#include "sim/scheduler.h"

namespace berth::sim {

void Story::Tell(std::string_view what) {
  Mark(what);
  if (!is_told_) return;
  const std::chrono::duration<double> now = Now();
  fmt::print("{:10.4f} {:<14} {}\n", now.count(), CurrentProcess()->name, what);
}

void Story::Break(std::string_view rule, const std::string& how) {
  Tell(fmt::format("BROKEN {}: {}", rule, how));
  broken_.push_back({.rule = std::string(rule), .how = how});
  Stop();
}

}  // namespace berth::sim
