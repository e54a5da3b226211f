// SPDX-License-Identifier: Apache-2.0
// The report: what was measured, as text for a terminal and as an SVG file, and how it compares with the goals.
#pragma once

#include <string>
#include <vector>

#include "bench/rounds.h"

namespace berth::bench {

// Names under which the goals look for contenders.
inline constexpr const char* kAgentName = "berth";
inline constexpr const char* kDirectName = "berth-direct";
inline constexpr const char* kHostLocalName = "host-local";
inline constexpr const char* kRawName = "raw PATCH";

// One table per number of callers.
[[nodiscard]] std::string Tables(const std::vector<CallersFigures>& all);

// One line for each goal whose contenders were measured.
[[nodiscard]] std::string Goals(const std::vector<CallersFigures>& all);

// Bars of the ADD's median time and of ADDs per second.
[[nodiscard]] std::string TerminalChart(const std::vector<CallersFigures>& all);
[[nodiscard]] std::string SvgChart(const std::vector<CallersFigures>& all);

}  // namespace berth::bench
