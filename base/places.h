// SPDX-License-Identifier: Apache-2.0
// Paths of the source tree and of the build folder on this machine, for tests and the simulator. They are compiled in a
// file of their own: with these paths inside, a file must be compiled again in every clone.
#pragma once

#include <string>

namespace berth {

// Absolute paths without a slash at the end.
[[nodiscard]] std::string SourceDir();
[[nodiscard]] std::string BuildDir();

}  // namespace berth
