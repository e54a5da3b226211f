// SPDX-License-Identifier: Apache-2.0
// ErrorJson: the one JSON object that a failed call prints (CNI SPEC, "Error").
//
// Runtimes do not look at codes but at words: three phrases make them treat a failed DEL as done, drop their cache or
// retry every second (docs/cni.md). They never leave this plugin, whatever a lower layer or an API server says.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "cni/version.h"

namespace berth::cni {

// One line: cniVersion, code (CniCode), msg and, where there is more to say, details. Invalid UTF-8 is replaced.
[[nodiscard]] std::string ErrorJson(const Error& error, Version version);

// `text` with "not found", "no such file or directory" and "network is not ready", in any letter case, said otherwise.
[[nodiscard]] std::string WithoutLoadedPhrases(std::string_view text);

}  // namespace berth::cni
