// SPDX-License-Identifier: Apache-2.0
// Converts IPSpaces from and to JSON.
#include "crds/space.h"

#include <utility>

#include <nlohmann/json.hpp>

#include "base/check.h"
#include "crds/merge_patch.h"
#include "crds/meta_reader.h"
#include "crds/names.h"
#include "crds/status_patch.h"
#include "json/field_reader.h"

namespace berth::crds {

namespace {

using Json = nlohmann::json;

AcceptedPool ReadAccepted(const FieldReader& fields) {
  for (const std::string_view key : {"pool", "uid", "subnet", "blockSize"}) fields.Require(key);
  AcceptedPool accepted;
  accepted.pool = fields.String("pool", kPoolNameLengthMax);
  accepted.uid = fields.String("uid", kUidLengthMax);
  accepted.subnet = fields.Parsed("subnet", kPrefixTextMax, ipam::Prefix::Parse).value_or(ipam::Prefix());
  const int bits = ipam::AddressBits(accepted.subnet.family());
  accepted.block_length = static_cast<int>(fields.Integer("blockSize", accepted.subnet.length(), bits).value_or(0));
  return accepted;
}

Json AcceptedToJson(const AcceptedPool& accepted) {
  return {{"pool", accepted.pool},
          {"uid", accepted.uid},
          {"subnet", accepted.subnet.ToString()},
          {"blockSize", accepted.block_length}};
}

}  // namespace

Expected<Space> ParseSpace(Json object) {
  Problem problem = ProblemOf(kSpaceKind, object);
  const FieldReader document(object, problem);
  Space space;
  space.meta = ReadMeta(document);
  const FieldReader status = document.Object("status");
  status.ForEach("accepted", kAcceptedMax, [&space](const FieldReader& accepted) {
    space.accepted.push_back(ReadAccepted(accepted));
  });
  space.withheld = status.ParsedList("withheld", kSpaceWithheldMax, kRangeTextMax, ipam::AddressRange::Parse);
  space.total = ReadCount(status, "total");
  space.used = ReadCount(status, "used");
  space.free = ReadCount(status, "free");
  if (problem.error) return std::unexpected(*problem.error);
  space.document = std::make_shared<const Json>(std::move(object));
  return space;
}

Json NewSpaceToJson(std::string_view name) {
  BERTH_CHECK(!name.empty() && name.size() <= kSpaceNameLengthMax);
  return {{"apiVersion", kApiVersion}, {"kind", kSpaceKind}, {"metadata", {{"name", name}}}};
}

Expected<Json> SpaceStatusPatch(const Space& space) {
  BERTH_CHECK(space.document != nullptr);
  const std::string object = std::string(kSpaceKind) + ' ' + space.meta.name;
  if (space.accepted.size() > kAcceptedMax || space.withheld.size() > kSpaceWithheldMax) {
    return Fail(ErrorCode::kInvalid,
                object + ": status: too many pools (" + std::to_string(space.accepted.size()) +
                    ") or withheld ranges (" + std::to_string(space.withheld.size()) + ")",
                "spread the pools over several spaces, or reserve fewer and larger ranges");
  }
  Json after = StatusOf(*space.document);
  std::vector<Json> accepted;
  accepted.reserve(space.accepted.size());
  for (const AcceptedPool& pool : space.accepted) accepted.push_back(AcceptedToJson(pool));
  after["accepted"] = MergeElements(after["accepted"], std::move(accepted), {"pool", "uid"});
  after["pools"] = space.accepted.size();
  after["withheld"] = TextsOf(space.withheld);
  after["total"] = ipam::ToString(space.total);
  after["used"] = ipam::ToString(space.used);
  after["free"] = ipam::ToString(space.free);
  auto patch = StatusPatch(*space.document, after);
  if (!patch) return std::unexpected(patch.error().Within(object));
  return patch;
}

}  // namespace berth::crds
