// SPDX-License-Identifier: Apache-2.0
// A program's version for --version and for the API server. version.cc contains nothing else, so that after a commit
// only a small file must be compiled again.
#pragma once

namespace berth {

// A literal with static storage: "0.1.0".
extern const char* const kVersion;
// A literal with static storage: "0.1.0 (commit 115e4dd...)".
extern const char* const kVersionAndCommit;

}  // namespace berth
