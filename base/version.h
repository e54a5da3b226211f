// SPDX-License-Identifier: Apache-2.0
// What a program says of itself for --version and to the API server. Compiled apart, so that another commit compiles
// one small file anew.
#pragma once

namespace berth {

// Literals with static storage: "0.1.0".
extern const char* const kVersion;
// "0.1.0 (commit 115e4dd...)".
extern const char* const kVersionAndCommit;

}  // namespace berth
