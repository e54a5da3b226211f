// SPDX-License-Identifier: Apache-2.0
// IPBlock objects to and from ipam::Block: read, create, and the merge patch that is every write of a block.
//
// A patch carries only what changed, so that fields and entries this version does not know stay as they are, and the
// resourceVersion it was decided on, so that a stale one is refused with 409.
#pragma once

#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "base/error.h"
#include "ipam/block.h"

namespace berth::crds {

// Errors: kInvalid, naming block and field: malformed, out of bounds, a name that does not follow from space and CIDR,
// `used` other than the number of entries. What an entry says is not looked at: what cannot be parsed is held.
[[nodiscard]] Expected<ipam::Block> ParseBlock(const nlohmann::json& object);

// For a POST.
[[nodiscard]] nlohmann::json BlockToJson(const ipam::Block& block);

// What has to be sent to make `before`, as it was read, `after`: metadata.resourceVersion of `before`, and every field
// and entry that differs, null for those that went. If nothing differs, the patch holds the resourceVersion only, and
// sending it settles nothing. A tracking of fields (metadata.managedFields) ends with the patch: docs/adr/0004.
// Requires: both are the same object (name, uid, spec), before.resource_version is not empty, and `after` keeps the
// schema's bounds; entries come from ipam::FormatEntry.
[[nodiscard]] nlohmann::json BlockMergePatch(const ipam::Block& before, const ipam::Block& after);

// The block as it is after that patch, from the answer: all of the object, or its PartialObjectMetadata alone, which is
// enough since the patch was a compare-and-swap. Errors: kInvalid: the answer is not about this object.
[[nodiscard]] Expected<ipam::Block> BlockAfterPatch(ipam::Block after, const nlohmann::json& answer);

// Space and CIDR of a block, from its name alone: what a PartialObjectMetadataList has.
struct BlockIdentity {
  std::string space;
  ipam::Prefix cidr;
  friend bool operator==(const BlockIdentity&, const BlockIdentity&) = default;
};
// The inverse of ipam::BlockName. Errors: kInvalid, quoting the name.
[[nodiscard]] Expected<BlockIdentity> ParseBlockName(std::string_view name);

}  // namespace berth::crds
