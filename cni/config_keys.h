// SPDX-License-Identifier: Apache-2.0
// The names of the members of a network configuration that berth reads. The parser (config.h) and the code that writes
// the body for the agent (forward.h) use them.
#pragma once

#include <string_view>
#include <vector>

#include "cni/environment.h"

namespace berth::cni {

inline constexpr std::string_view kValidAttachmentsKey = "cni.dev/valid-attachments";
// The name of the same list in the CNI tag spec-v1.1.0. Libraries send one of the two keys or both.
inline constexpr std::string_view kAttachmentsOfOldTagKey = "cni.dev/attachments";
inline constexpr std::string_view kPodAnnotationsKey = "io.kubernetes.cri.pod-annotations";

// The top-level members that a verb reads. The parser drops all other members.
[[nodiscard]] std::vector<std::string_view> WantedKeys(Verb verb);

}  // namespace berth::cni
