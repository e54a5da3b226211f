// SPDX-License-Identifier: Apache-2.0
// RunDirectPlugin: `berth-direct` in place of this process, for a call that reached no agent.
#pragma once

#include <string_view>

#include "ipam/error.h"

namespace berth::cni_plugin {

// Executes the file `berth-direct` beside this executable, with the same environment and `stdin_text` on stdin. Returns
// only if that cannot be done. Errors: kIo.
[[nodiscard]] ipam::Error RunDirectPlugin(std::string_view stdin_text);

}  // namespace berth::cni_plugin
