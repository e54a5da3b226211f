// SPDX-License-Identifier: Apache-2.0
// Where the tree and what was built of it are on this machine, for tests and the simulator. Compiled apart: a path in
// another source would be compiled anew in every clone.
#pragma once

#include <string>

namespace berth {

// Absolute, without a slash at the end.
[[nodiscard]] std::string SourceDir();
[[nodiscard]] std::string BuildDir();

}  // namespace berth
