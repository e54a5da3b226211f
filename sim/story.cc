// SPDX-License-Identifier: Apache-2.0
// Writes the trace to stdout and into the hash.
#include "sim/story.h"

#include <chrono>

#include <nlohmann/json.hpp>
#include <spdlog/fmt/fmt.h>

#include "sim/scheduler.h"

namespace berth::sim {

using nlohmann::json;

void Story::Tell(std::string_view what) {
  Mark(what);
  if (is_told_) Print(CurrentProcess()->name, what);
}

void Story::TellBlock(const json& before, const json& after) const {
  if (!is_told_) return;
  const json& block = after.is_null() ? before : after;
  const json& metadata = block["metadata"];
  std::string text = fmt::format("{} of {}", metadata["name"].get<std::string>(), block["spec"].value("node", "all"));
  if (after.is_null()) {
    text += " is gone";
  } else {
    text += fmt::format(" v{}{}:",
                        metadata["resourceVersion"].get<std::string>(),
                        metadata.contains("deletionTimestamp") ? " going" : "");
    for (const auto& [offset, entry] : block["allocations"].items()) {
      // Only the first word of an entry: of a held entry, the pod.
      const std::string& whole = entry.get_ref<const std::string&>();
      text += fmt::format(" {}={}", offset, whole.substr(0, whole.find(' ', whole.starts_with('~') ? 2 : 1)));
    }
    if (block.contains("standby")) text += " standby " + block["standby"].dump();
  }
  Print("store", text);
}

void Story::Print(std::string_view who, std::string_view what) {
  const std::chrono::duration<double> now = Now();
  fmt::print("{:10.4f} {:<14} {}\n", now.count(), who, what);
}

void Story::Break(std::string_view rule, const std::string& how) {
  Tell(fmt::format("BROKEN {}: {}", rule, how));
  broken_.push_back({.rule = std::string(rule), .how = how});
  Stop();
}

}  // namespace berth::sim
