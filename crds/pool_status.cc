// SPDX-License-Identifier: Apache-2.0
// The status of a pool: reads it, and computes the patch that writes it.
#include <algorithm>
#include <limits>

#include <nlohmann/json.hpp>

#include "crds/merge_patch.h"
#include "crds/meta_reader.h"
#include "crds/names.h"
#include "crds/pool.h"
#include "crds/status_patch.h"
#include "json/field_reader.h"

namespace berth::crds {

namespace {

using Json = nlohmann::json;

constexpr std::int64_t kNumberMax = std::numeric_limits<std::int64_t>::max();
constexpr std::size_t kReasonLengthMax = 255;
// The schema allows 4096 characters, each of at most four bytes.
constexpr std::size_t kMessageBytesMax = std::size_t{4096} * 4;
constexpr int kLengthMax = 128;

Condition ReadCondition(const FieldReader& fields) {
  return {.type = fields.String("type", kNameLengthMax),
          .status = fields.String("status", kNameLengthMax),
          .reason = fields.String("reason", kReasonLengthMax),
          .message = fields.String("message", kMessageBytesMax),
          .last_transition_time = fields.String("lastTransitionTime", kNameLengthMax),
          .observed_generation = fields.Integer("observedGeneration", 0, kNumberMax).value_or(0)};
}

Json ConditionToJson(const Condition& condition) {
  Json object = {{"type", condition.type},
                 {"status", condition.status},
                 {"reason", condition.reason},
                 {"message", condition.message},
                 {"lastTransitionTime", condition.last_transition_time}};
  if (condition.observed_generation != 0) object["observedGeneration"] = condition.observed_generation;
  return object;
}

}  // namespace

void SetCondition(std::vector<Condition>& conditions, Condition condition) {
  const auto same_type = [&](const Condition& old) { return old.type == condition.type; };
  const auto old = std::ranges::find_if(conditions, same_type);
  if (old == conditions.end()) {
    conditions.push_back(std::move(condition));
    return;
  }
  if (old->status == condition.status) condition.last_transition_time = old->last_transition_time;
  *old = std::move(condition);
}

const Condition* FindCondition(const std::vector<Condition>& conditions, std::string_view type) {
  const auto found = std::ranges::find(conditions, type, &Condition::type);
  return found == conditions.end() ? nullptr : &*found;
}

Expected<PoolStatus> ParsePoolStatus(const Json& object) {
  Problem problem = ProblemOf(kPoolKind, object);
  const FieldReader document(object, problem);
  const FieldReader fields = document.Object("status");
  PoolStatus status;
  fields.ForEach("conditions", kConditionsMax, [&status](const FieldReader& condition) {
    status.conditions.push_back(ReadCondition(condition));
  });
  if (const auto length = fields.Integer("blockSize", 0, kLengthMax)) status.block_length = static_cast<int>(*length);
  status.claimable = fields.ParsedList("claimable", kClaimableMax, kPrefixTextMax, ipam::Prefix::Parse);
  status.withheld = fields.ParsedList("withheld", kPoolWithheldMax, kRangeTextMax, ipam::AddressRange::Parse);
  status.total = ReadCount(fields, "total");
  status.used = ReadCount(fields, "used");
  status.free = ReadCount(fields, "free");
  status.blocks = fields.Integer("blocks", 0, kNumberMax).value_or(0);
  if (problem.error) return std::unexpected(*problem.error);
  return status;
}

Expected<Json> PoolStatusPatch(const Json& object, const PoolStatus& status) {
  const Problem problem = ProblemOf(kPoolKind, object);
  if (!object.is_object()) return Fail(ErrorCode::kInvalid, problem.object + ": must be an object");
  if (status.conditions.size() > kConditionsMax || status.withheld.size() > kPoolWithheldMax) {
    return Fail(ErrorCode::kInvalid,
                problem.object + ": status: too many conditions (" + std::to_string(status.conditions.size()) +
                    ") or withheld ranges (" + std::to_string(status.withheld.size()) + ")");
  }
  Json after = StatusOf(object);
  std::vector<Json> conditions;
  conditions.reserve(status.conditions.size());
  for (const Condition& condition : status.conditions) conditions.push_back(ConditionToJson(condition));
  after["conditions"] = MergeElements(after["conditions"], std::move(conditions), {"type"});
  if (status.block_length) after["blockSize"] = *status.block_length;
  if (!status.block_length) after.erase("blockSize");
  const std::size_t claimable_count = std::min(status.claimable.size(), kClaimableMax);
  after["claimable"] = TextsOf(
      std::vector(status.claimable.begin(), status.claimable.begin() + static_cast<std::ptrdiff_t>(claimable_count)));
  after["withheld"] = TextsOf(status.withheld);
  after["total"] = ipam::ToString(status.total);
  after["used"] = ipam::ToString(status.used);
  after["free"] = ipam::ToString(status.free);
  after["blocks"] = status.blocks;
  auto patch = StatusPatch(object, after);
  if (!patch) return std::unexpected(patch.error().Within(problem.object));
  return patch;
}

}  // namespace berth::crds
