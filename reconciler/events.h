// SPDX-License-Identifier: Apache-2.0
// Events: what `kubectl describe` shows about a pool, a block or a Node, beside the log.
//
// The controller writes an event once, after the change that the event reports. If the API server refuses the event,
// the controller does not try again: conditions and metrics show problems that last. Kubernetes deletes events after an
// hour.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "ipam/block.h"
#include "reconciler/decision.h"
#include "reconciler/world.h"

namespace berth::reconciler {

// Events about objects without a namespace belong to the namespace default.
inline constexpr std::string_view kEventsPath = "/api/v1/namespaces/default/events";
// The API server refuses longer messages, so a longer message is cut.
inline constexpr std::size_t kEventMessageMax = 1024;

inline constexpr std::string_view kNodeKind = "Node";

// An event about an object without a namespace: a Node, or an object of berth.
struct Announcement {
  std::string_view kind;
  std::string name;
  std::string uid;
  bool is_warning = false;
  std::string reason;  // CamelCase
  std::string message;
};

// The reason why an entry was freed, for people and metrics.
[[nodiscard]] std::string_view WhyFreed(const FreedEntry& entry);

// Requires: `freed` is not empty, and its entries were in the block.
[[nodiscard]] Announcement FreedAnnouncement(const ipam::Block& block, const std::vector<FreedEntry>& freed);

[[nodiscard]] Announcement InUseAnnouncement(const ipam::Block& block, const std::vector<FreedEntry>& entries);
[[nodiscard]] Announcement PutBackAnnouncement(const ipam::Block& block, const std::vector<LostEntry>& entries);
// Requires: `contested` is not empty, and all its addresses are of one block.
[[nodiscard]] Announcement ContestedAnnouncement(const std::vector<ContestedAddress>& contested);

// One announcement for each condition whose status or reason changed. A new condition that needs no attention is
// announced only if it is Ready.
[[nodiscard]] std::vector<Announcement> PoolAnnouncements(const SeenPool& before, const SeenPool& after);

// The Event, to be created at kEventsPath.
[[nodiscard]] nlohmann::json EventOf(const Announcement& announcement, std::int64_t now_ms);

}  // namespace berth::reconciler
