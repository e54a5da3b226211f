// SPDX-License-Identifier: Apache-2.0
// Reads a report of `berthctl check`, for `berthctl release --report`.
#pragma once

#include <string>
#include <vector>

#include "cli/release.h"

namespace berth::cli {

// The addresses of the findings "pod-gone" in the report. Errors: kDecode; the details say how to make a report.
[[nodiscard]] Expected<std::vector<Release>> ReadReport(const std::string& text);

}  // namespace berth::cli
