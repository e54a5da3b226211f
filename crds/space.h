// SPDX-License-Identifier: Apache-2.0
// IPSpace: which pools were accepted into an address space, and which of its addresses nobody hands out.
//
// Written by the controller alone. Fields this version does not know survive a write, also those of accepted pools,
// though their list is replaced whole: the document as it was read goes along.
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
  int block_length = 0;  // effective
  friend bool operator==(const AcceptedPool&, const AcceptedPool&) = default;
};

struct Space {
  ObjectMeta meta = {};
  std::vector<AcceptedPool> accepted = {};
  std::vector<ipam::AddressRange> withheld = {};
  ipam::Uint128 total = 0;
  ipam::Uint128 used = 0;
  ipam::Uint128 free = 0;
  // The object as it was read; nullptr: never read, or not understood. Shared, never changed.
  std::shared_ptr<const nlohmann::json> document = nullptr;
  std::string problem = {};  // why it was not understood; empty: it was, or was never read
};

// Errors: kInvalid, naming space and field.
[[nodiscard]] Expected<Space> ParseSpace(nlohmann::json object);

// For a POST: a space without status. Requires: a name of at most 19 lower-case letters, digits and "-".
[[nodiscard]] nlohmann::json NewSpaceToJson(std::string_view name);

// The merge patch for <space>/status that makes the status what `space` says: only what differs from space.document,
// and its resourceVersion. null if nothing differs. Errors: kInvalid: more accepted pools or withheld ranges than the
// schema takes. Requires: space.document is set.
[[nodiscard]] Expected<nlohmann::json> SpaceStatusPatch(const Space& space);

}  // namespace berth::crds
