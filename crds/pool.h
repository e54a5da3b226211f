// SPDX-License-Identifier: Apache-2.0
// IPPool objects to and from ipam::Pool, and the status that the controller writes.
//
// Unknown fields survive: nothing here writes a whole object that exists, only merge patches of what changed, and where
// a patch has to carry a whole list (conditions), the fields of its elements that this version does not know go along.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/error.h"
#include "ipam/address.h"
#include "ipam/interval_set.h"
#include "ipam/pool.h"
#include "ipam/prefix.h"

namespace berth::crds {

// Errors: kInvalid, naming pool and field: a field of the wrong type, out of bounds or that cannot be parsed. Rules
// between fields (a gateway outside the subnet, overlapping ranges) are ipam::Validate's.
[[nodiscard]] Expected<ipam::Pool> ParsePool(const nlohmann::json& object);

// For a POST: metadata.name and spec. What has its default is left out.
[[nodiscard]] nlohmann::json PoolToJson(const ipam::Pool& pool);

// A metav1.Condition.
struct Condition {
  std::string type = {};
  std::string status = {};  // "True", "False" or "Unknown"
  std::string reason = {};
  std::string message = {};
  std::string last_transition_time = {};  // RFC 3339
  std::int64_t observed_generation = 0;
  friend bool operator==(const Condition&, const Condition&) = default;
};

// Sets the condition of that type. last_transition_time is taken from `condition` only if the status changes; otherwise
// the old one stays.
void SetCondition(std::vector<Condition>& conditions, Condition condition);

// nullptr if there is none of that type.
[[nodiscard]] const Condition* FindCondition(const std::vector<Condition>& conditions, std::string_view type);

struct PoolStatus {
  std::vector<Condition> conditions = {};
  std::optional<int> block_length = {};  // effective
  std::vector<ipam::Prefix> claimable = {};
  std::vector<ipam::AddressRange> withheld = {};
  ipam::Uint128 total = 0;
  ipam::Uint128 used = 0;
  ipam::Uint128 free = 0;
  std::int64_t blocks = 0;
  friend bool operator==(const PoolStatus&, const PoolStatus&) = default;
};

// Errors: as ParsePool.
[[nodiscard]] Expected<PoolStatus> ParsePoolStatus(const nlohmann::json& object);

// The merge patch for <pool>/status that makes the status of `object`, as it was read, this one: only what differs, and
// metadata.resourceVersion. null if nothing differs. More than 64 claimable prefixes are cut, as they are a hint.
// Errors: kInvalid: more conditions or withheld ranges than the schema takes, or `object` is no object that was read.
[[nodiscard]] Expected<nlohmann::json> PoolStatusPatch(const nlohmann::json& object, const PoolStatus& status);

}  // namespace berth::crds
