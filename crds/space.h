// SPDX-License-Identifier: Apache-2.0
// IPSpace: which pools the controller has accepted into an address space, and which addresses no pod may get.
//
// Only the controller writes it. Fields that this version does not know survive a write, also those of accepted pools,
// whose list a patch replaces as a whole: the patch is computed from the document as it was read.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/error.h"
#include "crds/object_meta.h"
#include "ipam/address.h"
#include "ipam/interval_set.h"
#include "ipam/prefix.h"

namespace berth::crds {

struct AcceptedPool {
  std::string pool = {};
  std::string uid = {};
  ipam::Prefix subnet = {};
  int block_length = 0;  // the block length that berth uses
  friend bool operator==(const AcceptedPool&, const AcceptedPool&) = default;
};

struct Space {
  ObjectMeta meta = {};
  std::vector<AcceptedPool> accepted = {};
  std::vector<ipam::AddressRange> withheld = {};
  ipam::Uint128 total = 0;
  ipam::Uint128 used = 0;
  ipam::Uint128 free = 0;
  // The object as it was read; nullptr: not read yet, or not parsable. Shared, never changed.
  std::shared_ptr<const nlohmann::json> document = nullptr;
  std::string problem = {};  // why the object cannot be parsed; empty: it can, or was not read yet
};

// Errors: kInvalid, with space and field.
[[nodiscard]] Expected<Space> ParseSpace(nlohmann::json object);

// The object for a POST: a space without status. Requires: `name` has at most 19 lower-case letters, digits and "-".
[[nodiscard]] nlohmann::json NewSpaceToJson(std::string_view name);

// The merge patch for <space>/status that changes space.document into `space`: only the differences, and the
// resourceVersion. null if nothing differs. Errors: kInvalid: more accepted pools or withheld ranges than the schema
// allows, or space.document has no resourceVersion. Requires: space.document is set.
[[nodiscard]] Expected<nlohmann::json> SpaceStatusPatch(const Space& space);

}  // namespace berth::crds
