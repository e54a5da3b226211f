// SPDX-License-Identifier: Apache-2.0
// The members of a network configuration that berth reads: for the parser, and for the forwarded body.
#pragma once

#include <string_view>
#include <vector>

#include "cni/environment.h"

namespace berth::cni {

inline constexpr std::string_view kValidAttachmentsKey = "cni.dev/valid-attachments";
// The name in the CNI tag spec-v1.1.0. Libraries send one of the two keys or both.
inline constexpr std::string_view kAttachmentsOfOldTagKey = "cni.dev/attachments";
inline constexpr std::string_view kPodAnnotationsKey = "io.kubernetes.cri.pod-annotations";

// The top-level members that a verb reads. The parser drops all other members.
[[nodiscard]] std::vector<std::string_view> WantedKeys(Verb verb);

}  // namespace berth::cni
