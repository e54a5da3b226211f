// SPDX-License-Identifier: Apache-2.0
// Files that the agent's init container writes on the host: the CNI plugin, which the runtime executes, and optionally
// a network configuration. The agent's program writes both files, because the image has no shell.
//
// The host's programs work at every moment, even if somebody kills the init container: it replaces the CNI plugin by
// rename, and changes no other program.
#pragma once

#include <functional>
#include <string>

#include "base/error.h"

namespace berth::node {

// Copies `program` into `folder` under the same name, by rename: a runtime that executes the program meanwhile executes
// either the old or the new one. Returns false if the same program is there already. Only one process at a time
// installs into a folder; others wait. InstallProgram calls `may`, unless `may` is empty, after this wait and before
// another process may install: the process before it may have changed the node's mode, which `may` checks. Errors:
// those of `may`, kIo. On an error the old program is unchanged; or, if only the sync of the folder failed, the new
// program is there, but the old program may come back after a crash of the machine.
[[nodiscard]] Expected<bool> InstallProgram(const std::string& program, const std::string& folder,
                                            const std::function<Expected<void>()>& may = {});

// Overwrites `to` in place with the network configuration `from`: containerd reads its folder again after a write, but
// not after a rename. Returns false if `to` has the same content already. Errors: kDecode: `from` is not JSON, and
// InstallConflist has written nothing; kIo: `to` may be incomplete.
[[nodiscard]] Expected<bool> InstallConflist(const std::string& from, const std::string& to);

}  // namespace berth::node
