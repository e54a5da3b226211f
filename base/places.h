// SPDX-License-Identifier: Apache-2.0
// Paths of the source tree and of the build folder on this machine, for tests and the simulator. places.cc
// contains nothing else, because a file with these paths inside must be compiled again in every clone.
#pragma once

#include <string>

namespace berth {

// Absolute paths without a slash at the end.
[[nodiscard]] std::string SourceDir();
[[nodiscard]] std::string BuildDir();

}  // namespace berth
