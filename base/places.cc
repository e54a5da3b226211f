// SPDX-License-Identifier: Apache-2.0
// The paths, from the build.
#include "base/places.h"

namespace berth {

std::string SourceDir() { return BERTH_SOURCE_DIR; }
std::string BuildDir() { return BERTH_BUILD_DIR; }

}  // namespace berth
