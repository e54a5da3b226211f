// SPDX-License-Identifier: Apache-2.0
// The members of a network configuration that this plugin reads, for the parser and for what goes to the node agent.
#pragma once

#include <string_view>
#include <vector>

#include "cni/environment.h"

namespace berth::cni {

inline constexpr std::string_view kValidAttachmentsKey = "cni.dev/valid-attachments";
// The name that the tag spec-v1.1.0 used; libraries send one or both.
inline constexpr std::string_view kAttachmentsOfOldTagKey = "cni.dev/attachments";
inline constexpr std::string_view kPodAnnotationsKey = "io.kubernetes.cri.pod-annotations";

// The top-level members that a verb reads; the values of others are not even kept.
[[nodiscard]] std::vector<std::string_view> WantedKeys(Verb verb);

}  // namespace berth::cni
