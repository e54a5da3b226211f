// SPDX-License-Identifier: Apache-2.0
// RunDirectPlugin: `berth-direct` in place of this process, for a call that reached no agent; and what it is told
// beside the call.
#pragma once

#include <cstdint>
#include <string_view>

#include "ipam/error.h"

namespace berth::cni_plugin {

// Executes the file `berth-direct` beside this executable, with the same environment, `stdin_text` on stdin, and the
// time at which the call began (CLOCK_BOOTTIME, nanoseconds). Returns only if that cannot be done. Errors: kIo.
[[nodiscard]] ipam::Error RunDirectPlugin(std::string_view stdin_text, std::int64_t started_nanos);

// In berth-direct: when the call began: what the program before it says, else `now`.
[[nodiscard]] std::int64_t CallStart(std::int64_t now);

}  // namespace berth::cni_plugin
