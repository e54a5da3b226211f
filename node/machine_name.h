// SPDX-License-Identifier: Apache-2.0
// A random name of this machine. By it an agent tells a predecessor, whose files it has, from an agent of another
// machine that was given the same node name.
#pragma once

#include <string>

#include "base/error.h"
#include "node/folder.h"

namespace berth::node {

// Hexadecimal digits, made at the first call and kept in the file `machine` of that folder, which is to survive the
// machine's end. Errors: kIo.
[[nodiscard]] Expected<std::string> MachineName(const Folder& state);

}  // namespace berth::node
