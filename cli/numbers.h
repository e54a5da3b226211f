// SPDX-License-Identifier: Apache-2.0
// Numbers: how many addresses each Node shows for pods, how many it should show, and why (docs/scheduling.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "cli/counted_world.h"
#include "cli/show.h"

namespace berth::cli {

// Of one Node and one resource.
struct NodeNumber {
  std::optional<std::int64_t> shown;   // nothing: the Node shows no number
  std::optional<std::int64_t> wanted;  // by the controller; nothing: no number
  reconciler::Tally tally;
  std::size_t blocks = 0;        // of the node, whose free addresses count
  std::size_t other_blocks = 0;  // of the node and the resource: being deleted, or of a pool that does not count
  // A sentence without subject: "shows 61, should show 61: 60 free + 1 held; pods request 1; 2 blocks".
  std::string says;
};
[[nodiscard]] NodeNumber NumberOf(const CountedWorld& read, const Counting& counting, const reconciler::SeenNode& node,
                                  const std::string& resource);

// Why no free address of the pool counts on any node, or, with a node, on that one; details: what to do about it.
[[nodiscard]] Expected<void> CheckCounted(const Counting& counting, const reconciler::SeenPool& pool,
                                          const reconciler::SeenNode* node);

// For each Node and each resource that it shows or that a pool has, an object (nlohmann::ordered_json).
[[nodiscard]] nlohmann::ordered_json NodeRows(const CountedWorld& read, const Counting& counting);

// A table has the sentences, JSON and YAML the figures as well.
[[nodiscard]] std::string PrintNodes(const nlohmann::ordered_json& rows, Format format);

}  // namespace berth::cli
