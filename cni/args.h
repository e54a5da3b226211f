// SPDX-License-Identifier: Apache-2.0
// Args: CNI_ARGS, "KEY=value;KEY=value" (CNI CONVENTIONS, "CNI_ARGS"): which pod this is, and which address it
// requests.
//
// ParseArgs refuses what the parser of the reference libraries refuses. Only ADD parses CNI_ARGS: the other verbs find
// addresses by attachment, and an error in CNI_ARGS must not keep a pod from ending.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"

namespace berth::cni {

struct Args {
  // Each field may be empty: podman and cnitool pass no CNI_ARGS, and multus passes empty values.
  std::string pod_namespace = {};
  std::string pod_name = {};
  std::string pod_uid = {};  // for a static pod: the kubelet's own UID of the pod, not the mirror pod's UID
  std::string sandbox_id = {};
  std::string ip = {};  // "address[/length]", or several separated by commas; not parsed (RequestedAddresses)

  friend bool operator==(const Args&, const Args&) = default;
};

// If a key occurs twice, the last value counts. ParseArgs accepts the key MAC, which only the interface plugin uses.
// Errors: kEnvironment: a pair does not have exactly one "=" (a trailing ";" makes an empty pair); IgnoreUnknown is not
// 1, 0, true or false (in any letter case); an unknown key, unless IgnoreUnknown is true.
[[nodiscard]] Expected<Args> ParseArgs(std::string_view text);

}  // namespace berth::cni
