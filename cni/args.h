// SPDX-License-Identifier: Apache-2.0
// Args: CNI_ARGS, "KEY=value;KEY=value" (CNI CONVENTIONS, "CNI_ARGS"): who the pod is, and the address it asks for.
//
// Refuses what the reference parser refuses. For ADD: other verbs find the holder of an address by attachment, and
// nothing in here can be worth a pod that never terminates.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"

namespace berth::cni {

struct Args {
  // Each may be empty: podman and cnitool pass none, multus passes empty ones.
  std::string pod_namespace = {};
  std::string pod_name = {};
  std::string pod_uid = {};  // of a static pod the kubelet's own, not the mirror pod's
  std::string sandbox_id = {};
  std::string ip = {};  // "address[/length]" or a comma list; not parsed (RequestedAddresses)

  friend bool operator==(const Args&, const Args&) = default;
};

// Later duplicates win. MAC is known and left to the interface plugin; other keys are unknown.
// Errors: kEnvironment: not exactly one "=" in a pair (a trailing ";" is an empty pair), IgnoreUnknown
// neither 1, 0, true nor false (in any case), unknown keys without IgnoreUnknown.
[[nodiscard]] Expected<Args> ParseArgs(std::string_view text);

}  // namespace berth::cni
