// SPDX-License-Identifier: Apache-2.0
// A random name of this machine. An agent compares it with the machine in a foreign agent's name: its predecessor has
// the same machine name; an agent of another machine with the same node name has another machine name.
#pragma once

#include <string>

#include "base/error.h"
#include "node/folder.h"

namespace berth::node {

// Eight hexadecimal digits. The first call makes the name and stores it in the file `machine` of the folder `state`,
// which must survive a reboot. Errors: kIo.
[[nodiscard]] Expected<std::string> MachineName(const Folder& state);

}  // namespace berth::node
