// SPDX-License-Identifier: Apache-2.0
// Converts IPBlocks from and to JSON. Every ADD and DEL needs this code: it is fast, and uses no regular expressions.
#include "crds/block.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include <nlohmann/json.hpp>

#include "base/check.h"
#include "crds/meta_reader.h"
#include "crds/names.h"
#include "ipam/entry.h"
#include "json/field_reader.h"

namespace berth::crds {

namespace {

using Json = nlohmann::json;

constexpr std::size_t kEntriesMax = std::size_t{1} << ipam::kBlockBitsMax;
constexpr std::size_t kAgentLengthMax = 84;
constexpr std::size_t kKeyLengthMax = 3;

// Parses a key of `allocations`: decimal without leading zeros, less than the number of addresses.
std::optional<ipam::BlockOffset> ParseKey(std::string_view key, ipam::BlockOffset size) {
  ipam::BlockOffset offset = 0;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), offset);
  const bool whole = error == std::errc() && end == key.data() + key.size() && key.size() <= kKeyLengthMax;
  if (!whole || (key.size() > 1 && key.front() == '0') || offset >= size) return std::nullopt;
  return offset;
}

std::map<ipam::BlockOffset, std::string> ReadAllocations(const FieldReader& document, ipam::BlockOffset size) {
  std::map<ipam::BlockOffset, std::string> allocations;
  document.Require("allocations");
  document.ForEachString(
      "allocations", kEntriesMax, ipam::kEntryLengthMax, [&](const std::string& key, const std::string& entry) {
        const auto offset = ParseKey(key, size);
        if (!offset) {
          document.Fail("allocations", "the key " + Quoted(key) + " is no offset inside the block");
        } else if (entry.empty()) {
          document.Fail("allocations", "the entry at " + key + " is empty");
        } else {
          allocations.emplace(*offset, entry);
        }
      });
  return allocations;
}

// Also keeps offsets that should not be on standby, for example because they have an entry, so that a patch can remove
// these offsets. Ignores offsets outside the block.
ipam::OffsetSet ReadStandby(const FieldReader& document, const ipam::Block& block) {
  ipam::OffsetSet standby;
  for (const std::int64_t number : document.Integers("standby", kEntriesMax, 0, kEntriesMax - 1)) {
    const auto offset = static_cast<ipam::BlockOffset>(number);
    if (offset < block.size()) standby.insert(offset);
  }
  return standby;
}

void ReadSpec(const FieldReader& document, ipam::Block& block) {
  document.Require("spec");
  const FieldReader spec = document.Object("spec");
  for (const std::string_view key : {"space", "pool", "poolUID", "cidr"}) spec.Require(key);
  block.space = spec.String("space", kSpaceNameLengthMax);
  block.pool = spec.String("pool", kPoolNameLengthMax);
  block.pool_uid = spec.String("poolUID", kUidLengthMax);
  block.node = spec.String("node", kNameLengthMax);
  block.cidr = spec.Parsed("cidr", kPrefixTextMax, ipam::Prefix::Parse).value_or(ipam::Prefix());
  if (ipam::AddressBits(block.cidr.family()) - block.cidr.length() > ipam::kBlockBitsMax) {
    spec.Fail("cidr", "must be /24 or longer for IPv4, /120 or longer for IPv6, is " + Quoted(block.cidr.ToString()));
  }
}

void SetIfChanged(Json& patch, const char* key, const auto& before, const auto& after) {
  if (before != after) patch[key] = after;
}

// Ignores empty items. A patch of berth replaces the list by one empty item to remove all managed fields.
bool HasManagedFields(const Json& object) {
  const auto metadata = object.find("metadata");
  if (metadata == object.end() || !metadata->is_object()) return false;
  const auto fields = metadata->find("managedFields");
  if (fields == metadata->end() || !fields->is_array()) return false;
  return std::ranges::any_of(*fields, [](const Json& item) { return !item.empty(); });
}

void CheckBounds(const ipam::Block& block) {
  BERTH_CHECK(ipam::AddressBits(block.cidr.family()) - block.cidr.length() <= ipam::kBlockBitsMax);
  BERTH_CHECK(block.next < kEntriesMax);
  BERTH_CHECK(block.used() <= block.size());
}

void CheckEntry(const ipam::Block& block, ipam::BlockOffset offset, const std::string& entry) {
  BERTH_CHECK(offset < block.size());
  BERTH_CHECK(!entry.empty() && entry.size() <= ipam::kEntryLengthMax);
}

// Contains the entries that differ, and null for each removed entry.
Json AllocationsPatch(const ipam::Block& before, const ipam::Block& after) {
  Json patch = Json::object();
  for (const auto& [offset, entry] : before.allocations) {
    if (!after.allocations.contains(offset)) patch[std::to_string(offset)] = nullptr;
  }
  for (const auto& [offset, entry] : after.allocations) {
    const auto old = before.allocations.find(offset);
    if (old != before.allocations.end() && old->second == entry) continue;
    CheckEntry(after, offset, entry);
    patch[std::to_string(offset)] = entry;
  }
  return patch;
}

}  // namespace

Expected<ipam::Block> ParseBlock(const Json& object) {
  Problem problem = ProblemOf(kBlockKind, object);
  const FieldReader document(object, problem);
  const ObjectMeta meta = ReadMeta(document);
  ipam::Block block;
  block.name = meta.name;
  block.uid = meta.uid;
  block.resource_version = meta.resource_version;
  block.deleting = meta.deleting();
  block.finalizers = meta.finalizers;
  block.has_managed_fields = HasManagedFields(object);
  ReadSpec(document, block);
  if (problem.error) return std::unexpected(*problem.error);
  if (block.name != ipam::BlockName(block.space, block.cidr)) {
    document.Fail("metadata.name", "must be " + ipam::BlockName(block.space, block.cidr));
  }
  block.agent = document.String("agent", kAgentLengthMax);
  block.free = static_cast<std::uint32_t>(document.Integer("free", 0, kEntriesMax).value_or(0));
  // Keep the value even if it lies outside the block. If ParseBlock reduced the value, Touch might write the value that
  // the object already has: such a write changes no resourceVersion, so an older write could still land.
  block.next = static_cast<ipam::BlockOffset>(document.Integer("next", 0, kEntriesMax - 1).value_or(0));
  block.allocations = ReadAllocations(document, block.size());
  block.standby = ReadStandby(document, block);
  document.Require("used");
  const auto used = document.Integer("used", 0, kEntriesMax);
  if (used && static_cast<std::size_t>(*used) != block.used()) {
    document.Fail("used",
                  "is " + std::to_string(*used) + ", but there are " + std::to_string(block.used()) +
                      " entries: somebody changed the object by hand, or the installed CRD does not check this field");
  }
  if (problem.error) return std::unexpected(*problem.error);
  return block;
}

Json BlockToJson(const ipam::Block& block) {
  CheckBounds(block);
  Json allocations = Json::object();
  for (const auto& [offset, entry] : block.allocations) {
    CheckEntry(block, offset, entry);
    allocations[std::to_string(offset)] = entry;
  }
  Json spec = {
      {"space", block.space}, {"pool", block.pool}, {"poolUID", block.pool_uid}, {"cidr", block.cidr.ToString()}};
  if (!block.node.empty()) spec["node"] = block.node;
  Json object = {{"apiVersion", kApiVersion},
                 {"kind", kBlockKind},
                 {"metadata", {{"name", block.name}, {"finalizers", block.finalizers}}},
                 {"spec", std::move(spec)},
                 {"used", block.used()},
                 {"free", block.free},
                 {"next", block.next},
                 {"allocations", std::move(allocations)}};
  if (!block.agent.empty()) object["agent"] = block.agent;
  if (!block.standby.empty()) object["standby"] = block.standby;
  return object;
}

Json BlockMergePatch(const ipam::Block& before, const ipam::Block& after) {
  BERTH_CHECK(!before.resource_version.empty());
  BERTH_CHECK(before.name == after.name && before.uid == after.uid);
  BERTH_CHECK(before.space == after.space && before.cidr == after.cidr && before.node == after.node);
  BERTH_CHECK(before.pool == after.pool && before.pool_uid == after.pool_uid);
  CheckBounds(after);
  Json patch = {{"metadata", {{"resourceVersion", before.resource_version}}}};
  SetIfChanged(patch["metadata"], "finalizers", before.finalizers, after.finalizers);
  if (before.has_managed_fields) patch["metadata"]["managedFields"] = Json::array({Json::object()});
  SetIfChanged(patch, "agent", before.agent, after.agent);
  if (after.agent.empty() && patch.contains("agent")) patch["agent"] = nullptr;
  SetIfChanged(patch, "used", before.used(), after.used());
  SetIfChanged(patch, "free", before.free, after.free);
  SetIfChanged(patch, "next", before.next, after.next);
  SetIfChanged(patch, "standby", before.standby, after.standby);
  if (after.standby.empty() && patch.contains("standby")) patch["standby"] = nullptr;
  Json allocations = AllocationsPatch(before, after);
  if (!allocations.empty()) patch["allocations"] = std::move(allocations);
  return patch;
}

Expected<ipam::Block> BlockAfterPatch(ipam::Block after, const Json& answer) {
  const auto meta = ParseObjectMeta(answer, kBlockKind);
  if (!meta) return std::unexpected(meta.error());
  if (meta->name != after.name || meta->uid != after.uid) {
    return Fail(ErrorCode::kInvalid,
                "the answer to a patch of IPBlock " + after.name + " is about " + Quoted(meta->name) + " with uid " +
                    Quoted(meta->uid));
  }
  after.resource_version = meta->resource_version;
  after.deleting = meta->deleting();
  after.finalizers = meta->finalizers;
  after.has_managed_fields = HasManagedFields(answer);
  return after;
}

Expected<BlockIdentity> ParseBlockName(std::string_view name) {
  const auto refuse = [&] { return Fail(ErrorCode::kInvalid, "not the name of a block: " + Quoted(name)); };
  if (name.size() > kBlockNameLengthMax) return refuse();
  // The CIDR of an IPv4 block has three dots, and the CIDR of an IPv6 block has none. A name that begins with the
  // name of a space has one dot more.
  const auto dots = std::ranges::count(name, '.');
  const bool ipv4 = dots >= 3;
  const bool has_space = dots == 4 || dots == 1;
  const std::size_t space_end = has_space ? name.find('.') : 0;
  std::string cidr(name.substr(has_space ? space_end + 1 : 0));
  const std::size_t slash = cidr.rfind('-');
  if (slash == std::string::npos) return refuse();
  cidr[slash] = '/';
  if (!ipv4) std::ranges::replace(cidr, '-', ':');
  if (!ipv4 && cidr.starts_with("0::")) cidr.erase(0, 1);
  const auto prefix = ipam::Prefix::Parse(cidr);
  if (!prefix) return refuse();
  BlockIdentity identity{.space = std::string(has_space ? name.substr(0, space_end) : ipam::kDefaultSpace),
                         .cidr = *prefix};
  if (ipam::BlockName(identity.space, identity.cidr) != name) return refuse();
  return identity;
}

}  // namespace berth::crds
