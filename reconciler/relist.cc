// SPDX-License-Identifier: Apache-2.0
// Requests the consistent lists, and changes the world by them.
#include "reconciler/relist.h"

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>
#include <spdlog/spdlog.h>

#include "base/resource_version.h"
#include "crds/block.h"
#include "crds/names.h"
#include "crds/object_meta.h"
#include "k8sclient/verbs.h"
#include "reconciler/read_holders.h"
#include "reconciler/read_objects.h"

namespace berth::reconciler {

namespace {

void LogLeftOut(const nlohmann::json& object, const Error& error) {
  spdlog::error(
      "object cannot be read, ignoring it name={} err={}", Quoted(crds::NameOf(object)), Quoted(error.message));
}

template <typename Seen>
Expected<std::map<std::string, Seen>> ListAll(k8sclient::Api& api, std::string_view path,
                                              Expected<Seen> (*read)(nlohmann::json),
                                              const k8sclient::CallOptions& options) {
  std::map<std::string, Seen> all;
  const auto take = [&](const nlohmann::json& item) {
    auto seen = read(item);
    if (!seen) return LogLeftOut(item, seen.error());
    std::string name = NameOf(*seen);
    all.emplace(std::move(name), *std::move(seen));
  };
  const auto listed =
      k8sclient::ListEach(api, std::string(path), {}, options, {.begin = [&] { all.clear(); }, .item = take});
  if (!listed) return std::unexpected(listed.error());
  return all;
}

// The metadata of every block, by name.
using BlockMetas = std::map<std::string, crds::ObjectMeta>;
Expected<BlockMetas> ListBlockMetas(k8sclient::Api& api, const k8sclient::CallOptions& options) {
  BlockMetas metas;
  const auto take = [&metas](const nlohmann::json& item) {
    auto meta = crds::ParseObjectMeta(item, crds::kBlockKind);
    if (!meta) return LogLeftOut(item, meta.error());
    // An object whose name is not the name of a block has no range of addresses. So no node that looks for a block
    // finds this object.
    if (const auto identity = crds::ParseBlockName(meta->name); !identity) return LogLeftOut(item, identity.error());
    std::string name = meta->name;
    metas.emplace(std::move(name), *std::move(meta));
  };
  const auto listed = k8sclient::ListEach(api,
                                          std::string(crds::kBlocksPath),
                                          {.accept = k8sclient::kPartialMetadataList},
                                          options,
                                          {.begin = [&metas] { metas.clear(); }, .item = take});
  if (!listed) return std::unexpected(listed.error());
  return metas;
}

// Removes blocks that do not exist any more, and returns the names of the blocks to read.
std::vector<std::string> Compare(World& world, const BlockMetas& listed, const std::set<ObjectKey>& wanted) {
  std::vector<std::string> gone;
  for (const auto& [name, block] : world.blocks()) {
    if (!listed.contains(name)) gone.push_back(name);
  }
  for (const std::string& name : gone) world.RemoveBlock(name);
  std::vector<std::string> unread;
  for (const auto& [name, meta] : listed) {
    const auto known = world.blocks().find(name);
    const bool is_known = known != world.blocks().end() && known->second.uid == meta.uid;
    // After somebody has restored a backup, the watch may show the block only when the block changes.
    const bool is_restored = is_known && IsOlder(meta.resource_version, known->second.resource_version);
    // If the node writes the block often, each write that is based on the watch's version meets a conflict.
    const bool is_wanted =
        is_known && known->second.resource_version != meta.resource_version && wanted.contains(BlockKey(name));
    if (!is_known || is_restored || is_wanted) unread.push_back(name);
  }
  return unread;
}

Expected<void> RelistBlocks(k8sclient::Api& api, World& world, const std::set<ObjectKey>& wanted,
                            const k8sclient::CallOptions& options) {
  const auto listed = ListBlockMetas(api, options);
  if (!listed) return std::unexpected(listed.error());
  for (const std::string& name : Compare(world, *listed, wanted)) {
    auto object = k8sclient::Get(api, k8sclient::ObjectPath(crds::kBlocksPath, name), options);
    if (!object && object.error().code == ErrorCode::kNotFound) {
      world.RemoveBlock(name);
      continue;
    }
    if (!object) return std::unexpected(std::move(object.error()));
    auto block = ReadBlock(*std::move(object));
    if (!block) return std::unexpected(std::move(block.error()));
    world.PutBlock(*std::move(block));
  }
  return {};
}

}  // namespace

Expected<void> Relist(k8sclient::Api& api, World& world, const std::set<ObjectKey>& wanted,
                      const k8sclient::CallOptions& options) {
  auto spaces = ListAll<crds::Space>(api, crds::kSpacesPath, ReadSpace, options);
  if (!spaces) return std::unexpected(std::move(spaces.error()));
  auto pools = ListAll<SeenPool>(api, crds::kPoolsPath, ReadPool, options);
  if (!pools) return std::unexpected(std::move(pools.error()));
  auto reservations = ListAll<SeenReservation>(api, crds::kReservationsPath, ReadReservation, options);
  if (!reservations) return std::unexpected(std::move(reservations.error()));
  world.pools = *std::move(pools);
  world.spaces = *std::move(spaces);
  world.reservations = *std::move(reservations);
  return RelistBlocks(api, world, wanted, options);
}

}  // namespace berth::reconciler
