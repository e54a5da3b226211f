// SPDX-License-Identifier: Apache-2.0
// Release: ends an entry whose pod is gone. The entry becomes "~ t=<until> f=<attachment>", so that the node forgets it
// too; an entry that only vanished would be written again (docs/state.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cli/inventory.h"

namespace berth::cli {

// What was seen of an entry's pod and node a moment ago.
struct LiveLook {
  std::optional<Pod> pod = {};  // nothing: 404
  // The Node's condition Ready is True; also if there is no such Node: then nothing runs there.
  bool node_is_ready_or_gone = false;
  bool node_is_gone = false;
};

struct Release {
  ipam::Address address;
  std::string space;
  // Also an entry whose pod nobody can look for (unknown, or static): somebody has made sure that it is gone.
  bool is_sure = false;
};

// The entry that has the address. Errors: kNotFound.
[[nodiscard]] Expected<Use> FindUse(const Inventory& inventory, ipam::Address address, const std::string& space);

// The block without the holder, or why not: kInvalid, with the remedy. Requires: `use` is of `block`.
[[nodiscard]] Expected<ipam::Block> Released(const Use& use, const LiveLook& look, bool is_sure, std::int64_t now_ms);

// Reads the block, looks at pod and node, and writes by compare-and-swap; after a conflict all of it again.
// Returns what was done, for people.
[[nodiscard]] Expected<std::string> Perform(k8sclient::Api& api, const Release& release);

}  // namespace berth::cli
