// SPDX-License-Identifier: Apache-2.0
// CheckNetns: the rule that a container's network namespace is not the plugin's own.
#pragma once

#include "base/error.h"
#include "cni/environment.h"

namespace berth::cni_plugin {

// ADD and DEL only, as the reference skeleton does it, but before anything is allocated. A path that is missing or
// cannot be opened is no error. Errors: kInvalidNetns.
[[nodiscard]] Expected<void> CheckNetns(const cni::Environment& environment);

}  // namespace berth::cni_plugin
