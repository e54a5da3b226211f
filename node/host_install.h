// SPDX-License-Identifier: Apache-2.0
// What the agent's init container leaves on the host: the program that the runtime executes, and perhaps a network
// configuration. The image has no shell, so the agent's program does it.
//
// Whatever the host has keeps working at every moment, also if this process dies: nothing but the two files is touched.
#pragma once

#include <functional>
#include <string>

#include "base/error.h"

namespace berth::node {

// Puts a copy of `program` into `folder`, under the same name, by rename: a runtime that starts it meanwhile starts the
// old one or the new one. False: it is there already. One at a time for a folder; others wait. `may`, unless it is
// empty, is asked when nobody else installs any more: who asked before could put back what another mode's program has
// replaced. Errors: those of `may`, kIo; the old one is there as it was.
[[nodiscard]] Expected<bool> InstallProgram(const std::string& program, const std::string& folder,
                                            const std::function<Expected<void>()>& may = {});

// Writes the network configuration `from` over `to` in place: containerd reads its folder again after a write, and not
// after a rename. False: it says the same already. Errors: kDecode: `from` is not JSON, and nothing was written; kIo.
[[nodiscard]] Expected<bool> InstallConflist(const std::string& from, const std::string& to);

}  // namespace berth::node
