// SPDX-License-Identifier: Apache-2.0
// Events: what `kubectl describe` shows of something that happened to a pool or a block, beside the log.
//
// Told once, when it has happened, and not again if the API server does not take it: conditions and metrics say what
// lasts. Kubernetes deletes them after an hour.
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

// Where events about objects without a namespace stand.
inline constexpr std::string_view kEventsPath = "/api/v1/namespaces/default/events";
// The API server refuses longer messages; what is longer is cut.
inline constexpr std::size_t kEventMessageMax = 1024;

inline constexpr std::string_view kNodeKind = "Node";

// About an object without a namespace: a Node, or one of berth's.
struct Announcement {
  std::string_view kind;
  std::string name;
  std::string uid;
  bool is_warning = false;
  std::string reason;  // CamelCase
  std::string message;
};

// Why an entry was freed, for people and metrics.
[[nodiscard]] std::string_view WhyFreed(const FreedEntry& entry);

// Requires: `freed` is not empty, and its entries were in the block.
[[nodiscard]] Announcement FreedAnnouncement(const ipam::Block& block, const std::vector<FreedEntry>& freed);

[[nodiscard]] Announcement InUseAnnouncement(const ipam::Block& block, const std::vector<FreedEntry>& entries);
[[nodiscard]] Announcement PutBackAnnouncement(const ipam::Block& block, const std::vector<LostEntry>& entries);
// Requires: `contested` is not empty, and all of one block.
[[nodiscard]] Announcement ContestedAnnouncement(const std::vector<ContestedAddress>& contested);

// One for each condition that says something else than before.
[[nodiscard]] std::vector<Announcement> PoolAnnouncements(const SeenPool& before, const SeenPool& after);

// The object, to be created at kEventsPath.
[[nodiscard]] nlohmann::json EventOf(const Announcement& announcement, std::int64_t now_ms);

}  // namespace berth::reconciler
