// SPDX-License-Identifier: Apache-2.0
// The report: what was measured, as text for a terminal and as an SVG file, and how it compares with the goals.
//
// A run either times operations or counts their requests, so each has tables and goals of its own.
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

// "1 caller", "8 callers".
[[nodiscard]] std::string CallersText(int callers);

// Of a run that times: one table per number of callers.
[[nodiscard]] std::string Tables(const std::vector<CallersFigures>& all);

// One line for each goal about time whose contenders were measured; empty if there is none.
[[nodiscard]] std::string Goals(const std::vector<CallersFigures>& all);

// Of a run that counts: requests per ADD and per DEL, with a column for each number of callers.
[[nodiscard]] std::string RequestTables(const std::vector<CallersFigures>& all);

// The same as Goals, about requests.
[[nodiscard]] std::string RequestGoals(const std::vector<CallersFigures>& all);

// Bars of the ADD's median time and of ADDs per second.
[[nodiscard]] std::string TerminalChart(const std::vector<CallersFigures>& all);
[[nodiscard]] std::string SvgChart(const std::vector<CallersFigures>& all);

}  // namespace berth::bench
