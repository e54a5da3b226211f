// SPDX-License-Identifier: Apache-2.0
// The report of check as release reads it again.
#pragma once

#include <string>
#include <vector>

#include "cli/release.h"

namespace berth::cli {

// The addresses of its findings "pod-gone". Errors: kDecode, saying what a report is.
[[nodiscard]] Expected<std::vector<Release>> ReadReport(const std::string& text);

}  // namespace berth::cli
