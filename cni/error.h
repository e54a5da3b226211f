// SPDX-License-Identifier: Apache-2.0
// ErrorJson: the JSON object that a failed call prints (CNI SPEC, "Error").
//
// Runtimes search error messages for three phrases. If a message contains one, the runtime treats a failed DEL as done,
// drops its cache, or retries every second (docs/cni.md). ErrorJson rewords these phrases, even if they come from a
// lower layer or the API server.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "cni/version.h"

namespace berth::cni {

// Returns one line: cniVersion, code (CniCode), msg and, if not empty, details. Replaces invalid UTF-8.
[[nodiscard]] std::string ErrorJson(const Error& error, Version version);

// Rewords "not found", "no such file or directory" and "network is not ready", in any letter case.
[[nodiscard]] std::string WithoutTriggerPhrases(std::string_view text);

}  // namespace berth::cni
