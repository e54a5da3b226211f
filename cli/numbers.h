// SPDX-License-Identifier: Apache-2.0
// Numbers: the address count that each Node shows, the count that it should show, and why (docs/scheduling.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "cli/counted_world.h"
#include "cli/show.h"

namespace berth::cli {

// The address count of one Node for one resource.
struct NodeNumber {
  std::optional<std::int64_t> shown;   // nullopt: the Node shows no number
  std::optional<std::int64_t> wanted;  // the controller's decision; nullopt: the Node should show no number
  reconciler::Tally tally;
  std::size_t blocks = 0;        // blocks of the node whose free addresses count
  std::size_t other_blocks = 0;  // the node's other blocks of this resource: deleting or not counted
  // A sentence without subject: "shows 61, should show 61: 60 free + 1 held; pods request 1; 2 blocks".
  std::string says;
};
[[nodiscard]] NodeNumber NumberOf(const CountedWorld& read, const Counting& counting, const reconciler::SeenNode& node,
                                  const std::string& resource);

// Succeeds if the Node's address count includes free addresses of the pool. If `node` is nullptr, ignores the
// pool's spec.nodeSelector. The error says why the addresses do not count; its details say what to do.
[[nodiscard]] Expected<void> CheckCounted(const Counting& counting, const reconciler::SeenPool& pool,
                                          const reconciler::SeenNode* node);

// One object (nlohmann::ordered_json) for each Node and each resource that the Node shows or that a pool has.
[[nodiscard]] nlohmann::ordered_json NodeRows(const CountedWorld& read, const Counting& counting);

// In a table, prints only the sentences; JSON and YAML also have the figures.
[[nodiscard]] std::string PrintNodes(const nlohmann::ordered_json& rows, Format format);

}  // namespace berth::cli
