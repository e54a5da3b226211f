// SPDX-License-Identifier: Apache-2.0
// Converts IPPool objects from and to ipam::Pool, and computes patches of the status that the controller writes.
//
// Unknown fields survive: berth never writes a whole existing object, only merge patches of changes. If a patch must
// contain a whole list (conditions), the elements keep fields that this version does not know.
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

// Errors: kInvalid, with pool and field: wrong type, out of range, or not parsable. ipam::Validate checks rules between
// fields (gateway outside the subnet, overlapping ranges).
[[nodiscard]] Expected<ipam::Pool> ParsePool(const nlohmann::json& object);

// The object for a POST: metadata.name and spec, without most fields that have their default value.
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

// Sets the condition of this type. If the status does not change, the old last_transition_time stays.
void SetCondition(std::vector<Condition>& conditions, Condition condition);

// nullptr if no condition has this type.
[[nodiscard]] const Condition* FindCondition(const std::vector<Condition>& conditions, std::string_view type);

struct PoolStatus {
  std::vector<Condition> conditions = {};
  std::optional<int> block_length = {};  // the block length that berth uses
  std::vector<ipam::Prefix> claimable = {};
  std::vector<ipam::AddressRange> withheld = {};
  ipam::Uint128 total = 0;
  ipam::Uint128 used = 0;
  ipam::Uint128 free = 0;
  std::int64_t blocks = 0;
  friend bool operator==(const PoolStatus&, const PoolStatus&) = default;
};

// Errors: like ParsePool.
[[nodiscard]] Expected<PoolStatus> ParsePoolStatus(const nlohmann::json& object);

// The merge patch for <pool>/status that changes the status of `object`, as it was read, into `status`: only the
// differences, and metadata.resourceVersion. null if nothing differs. Writes only the first 64 claimable prefixes,
// because a node needs only a few of them.
// Errors: kInvalid: more conditions or withheld ranges than the schema allows, or `object` has no resourceVersion.
[[nodiscard]] Expected<nlohmann::json> PoolStatusPatch(const nlohmann::json& object, const PoolStatus& status);

}  // namespace berth::crds
