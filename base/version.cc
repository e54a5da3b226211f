// SPDX-License-Identifier: Apache-2.0
// The version and commit, from the build.
#include "base/version.h"

namespace berth {

constinit const char* const kVersion = BERTH_VERSION;
constinit const char* const kVersionAndCommit = BERTH_VERSION " (commit " BERTH_COMMIT ")";

}  // namespace berth
