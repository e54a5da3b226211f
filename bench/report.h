// SPDX-License-Identifier: Apache-2.0
// The report: what was measured, as text for a terminal and as an SVG file, and how it compares with the goals.
//
// A run either times operations or counts their requests, so each kind of run has its own tables and goals.
#pragma once

#include <string>
#include <vector>

#include "bench/rounds.h"

namespace berth::bench {

// Names by which the goals find contenders.
inline constexpr const char* kAgentName = "berth";
inline constexpr const char* kDirectName = "berth-direct";
inline constexpr const char* kHostLocalName = "host-local";
inline constexpr const char* kRawName = "raw PATCH";

// "1 caller", "8 callers".
[[nodiscard]] std::string CallersText(int callers);

// For a run that times: one table for each number of callers.
[[nodiscard]] std::string Tables(const std::vector<CallersFigures>& all);

// One line for each goal about time whose contenders were measured; empty if there is no such goal.
[[nodiscard]] std::string Goals(const std::vector<CallersFigures>& all);

// For a run that counts: requests per ADD and per DEL, with a column for each number of callers.
[[nodiscard]] std::string RequestTables(const std::vector<CallersFigures>& all);

// Like Goals, for goals about requests.
[[nodiscard]] std::string RequestGoals(const std::vector<CallersFigures>& all);

// Bars of the ADD's median time and of ADDs per second.
[[nodiscard]] std::string TerminalChart(const std::vector<CallersFigures>& all);
[[nodiscard]] std::string SvgChart(const std::vector<CallersFigures>& all);

}  // namespace berth::bench
