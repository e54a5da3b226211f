// SPDX-License-Identifier: Apache-2.0
// Engine::Call: the state of a running ADD. Private to the engine's two source files.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "ipam/engine.h"

namespace berth::ipam {

struct Engine::Call {
  explicit Call(const AddRequest& add) : request(add) {}

  struct Given {
    Family family;
    Address address;
    BlockView block;
    bool taken_now;  // true: this call took the address, and frees it if the call fails
  };

  const AddRequest& request;
  std::vector<PoolView> pools;
  std::vector<FamilyPlan> plans;
  std::vector<BlockView> own;
  std::vector<BlockView> shared;  // read only if the attachment may have or get an address of a Shared block
  std::vector<Given> given;
  bool mark_shared_sibling = false;  // entries in Node blocks get s=1 (see MarkSharedSibling)

  [[nodiscard]] bool Has(Family family) const {
    return std::ranges::find(given, family, &Given::family) != given.end();
  }

  [[nodiscard]] HeldEntry EntryFor(const std::string& node, const Pool& pool, std::int64_t now_ms) const {
    const bool is_shared = pool.affinity == Affinity::kShared;
    return {.pod_namespace = request.pod_namespace,
            .pod = request.pod,
            .uid = request.uid,
            .attachment = request.attachment,
            .interface = request.interface,
            .since_ms = now_ms,
            .node = is_shared ? node : std::string(),
            .cooldown_s = pool.cooldown.count(),
            .has_shared_sibling = mark_shared_sibling && !is_shared,
            .netns = request.netns,
            .unknown = {}};
  }
};

}  // namespace berth::ipam
