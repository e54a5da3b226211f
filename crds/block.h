// SPDX-License-Identifier: Apache-2.0
// Converts IPBlock objects from and to ipam::Block: reading, creating, and the merge patch of each write.
//
// A patch contains only changed fields and entries, so it keeps fields and entries that this version does not know. It
// also contains the resourceVersion from which the change was decided, so the API server refuses an outdated patch
// (409).
#pragma once

#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "base/error.h"
#include "ipam/block.h"

namespace berth::crds {

// Errors: kInvalid, with block and field: malformed; out of range; a name that does not match space and CIDR; `used` is
// not the number of entries. ParseBlock does not parse the entries: an entry that cannot be parsed counts as held.
[[nodiscard]] Expected<ipam::Block> ParseBlock(const nlohmann::json& object);

// The object for a POST.
[[nodiscard]] nlohmann::json BlockToJson(const ipam::Block& block);

// The merge patch that changes `before`, as it was read, into `after`: metadata.resourceVersion of `before`, every
// field and entry that differs, and null for removed ones. If `before` has managed fields, the patch removes them
// (docs/adr/0004). If nothing differs, the patch contains only the resourceVersion: the API server then keeps the
// object's resourceVersion, so an older write whose answer was lost can still land.
// Requires: both are the same object (name, uid, spec); before.resource_version is not empty; `after` keeps the limits
// of the schema; entries come from ipam::FormatEntry.
[[nodiscard]] nlohmann::json BlockMergePatch(const ipam::Block& before, const ipam::Block& after);

// The block after a successful patch, from `after` and the API server's answer. The answer may be a
// PartialObjectMetadata without the entries: the patch was a compare-and-swap, so the stored entries are those of
// `after`. Errors: kInvalid: the answer is about another object.
[[nodiscard]] Expected<ipam::Block> BlockAfterPatch(ipam::Block after, const nlohmann::json& answer);

// The space and the CIDR in the name of a block, for example of an item of a PartialObjectMetadataList.
struct BlockIdentity {
  std::string space;
  ipam::Prefix cidr;
  friend bool operator==(const BlockIdentity&, const BlockIdentity&) = default;
};
// The inverse of ipam::BlockName. Errors: kInvalid, with the quoted name.
[[nodiscard]] Expected<BlockIdentity> ParseBlockName(std::string_view name);

}  // namespace berth::crds
