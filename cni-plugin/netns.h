// SPDX-License-Identifier: Apache-2.0
// CheckNetns: a container's network namespace must not be the plugin's own.
#pragma once

#include "base/error.h"
#include "cni/environment.h"

namespace berth::cni_plugin {

// Checks only ADD and DEL, and only without CNI_NETNS_OVERRIDE, like the reference implementation (skel). Unlike skel,
// checks an ADD before berth allocates an address. A path that is missing or cannot be opened is no error. Errors:
// kInvalidNetns.
[[nodiscard]] Expected<void> CheckNetns(const cni::Environment& environment);

}  // namespace berth::cni_plugin
