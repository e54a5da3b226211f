// SPDX-License-Identifier: Apache-2.0
// One request for each action.
#include "reconciler/perform.h"

#include <utility>

#include <nlohmann/json.hpp>
#include <spdlog/spdlog.h>

#include "crds/block.h"
#include "crds/names.h"
#include "k8sclient/verbs.h"
#include "reconciler/read_objects.h"

namespace berth::reconciler {

namespace {

using ipam::Expected;
using nlohmann::json;

std::unexpected<ipam::Error> Vanished(const ObjectKey& key) {
  return ipam::Fail(ipam::ErrorCode::kNotFound, key + " is gone");
}

void LogReadiness(const SeenPool& before, const SeenPool& after) {
  const crds::Condition* old = crds::FindCondition(before.status.conditions, crds::kReadyCondition);
  const crds::Condition* now = crds::FindCondition(after.status.conditions, crds::kReadyCondition);
  const bool is_news = now != nullptr && (old == nullptr || old->status != now->status || old->reason != now->reason);
  if (is_news) {
    spdlog::info("pool condition written pool={} ready={} reason={} message={}",
                 after.meta.name,
                 now->status,
                 now->reason,
                 ipam::Quoted(now->message));
    return;
  }
  spdlog::debug("pool status written pool={} used={} free={} blocks={}",
                after.meta.name,
                ipam::ToString(after.status.used),
                ipam::ToString(after.status.free),
                after.status.blocks);
}

}  // namespace

std::string ObjectPath(std::string_view collection, const std::string& name) {
  return std::string(collection) + k8sclient::Path({name});
}

struct Performer::Visitor {
  k8sclient::Api& api;
  World& world;
  Memory& memory;
  const Moment& now;
  const k8sclient::CallOptions& options;

  Expected<void> operator()(const CreateSpace& action) const {
    json object = crds::NewSpaceToJson(action.space);
    // From the first moment, so that nobody deletes the list of what was accepted while it says something.
    object["metadata"]["finalizers"] = json::array({crds::kPoolFinalizer});
    auto created = k8sclient::Create(api, std::string(crds::kSpacesPath), object, options);
    if (!created) return std::unexpected(std::move(created.error()));
    spdlog::info("space created space={}", action.space);
    return PutSpace(*std::move(created));
  }

  Expected<void> operator()(const DeleteSpace& action) const {
    const auto found = world.spaces.find(action.space);
    if (found == world.spaces.end()) return Vanished(SpaceKey(action.space));
    auto deleted =
        k8sclient::Delete(api,
                          ObjectPath(crds::kSpacesPath, action.space),
                          {.uid = found->second.meta.uid, .resource_version = found->second.meta.resource_version},
                          options);
    if (deleted) spdlog::info("space deleted, nothing uses it space={}", action.space);
    return deleted;
  }

  Expected<void> operator()(const SetSpaceFinalizers& action) const {
    const auto found = world.spaces.find(action.space);
    if (found == world.spaces.end()) return Vanished(SpaceKey(action.space));
    auto patched = k8sclient::MergePatch(api,
                                         ObjectPath(crds::kSpacesPath, action.space),
                                         crds::FinalizersPatch(found->second.meta, action.finalizers),
                                         options);
    if (!patched) return std::unexpected(std::move(patched.error()));
    return PutSpace(*std::move(patched));
  }

  Expected<void> operator()(const SetSpaceStatus& action) const {
    const std::string& name = action.after.meta.name;
    const auto patch = crds::SpaceStatusPatch(action.after);
    if (!patch) return std::unexpected(patch.error());
    if (patch->is_null()) return {};
    auto patched = k8sclient::MergePatch(api, ObjectPath(crds::kSpacesPath, name) + "/status", *patch, options);
    if (!patched) return std::unexpected(std::move(patched.error()));
    if (action.has_new_counts) memory.space_counts_written[name] = now.steady;
    spdlog::debug("space status written space={} pools={}", name, action.after.accepted.size());
    return PutSpace(*std::move(patched));
  }

  Expected<void> operator()(const SetPoolFinalizers& action) const {
    const auto found = world.pools.find(action.pool);
    if (found == world.pools.end()) return Vanished(PoolKey(action.pool));
    auto patched = k8sclient::MergePatch(api,
                                         ObjectPath(crds::kPoolsPath, action.pool),
                                         crds::FinalizersPatch(found->second.meta, action.finalizers),
                                         options);
    if (!patched) return std::unexpected(std::move(patched.error()));
    if (found->second.meta.deleting()) spdlog::info("pool drained pool={}", action.pool);
    return PutPool(*std::move(patched));
  }

  Expected<void> operator()(const SetPoolStatus& action) const {
    const auto found = world.pools.find(action.pool);
    if (found == world.pools.end()) return Vanished(PoolKey(action.pool));
    const SeenPool before = found->second;
    const auto patch = crds::PoolStatusPatch(*before.object, action.status);
    if (!patch) return std::unexpected(patch.error());
    if (patch->is_null()) return {};
    auto patched = k8sclient::MergePatch(api, ObjectPath(crds::kPoolsPath, action.pool) + "/status", *patch, options);
    if (!patched) return std::unexpected(std::move(patched.error()));
    if (action.has_new_counts) memory.pool_counts_written[before.meta.uid] = now.steady;
    auto put = PutPool(*std::move(patched));
    if (put) LogReadiness(before, world.pools.at(action.pool));
    return put;
  }

  Expected<void> operator()(const ChangeBlock& action) const {
    const ipam::Block& before = *action.before;
    auto patched = k8sclient::MergePatch(
        api, ObjectPath(crds::kBlocksPath, before.name), crds::BlockMergePatch(before, action.after), options);
    if (!patched) return std::unexpected(std::move(patched.error()));
    if (before.finalizers != action.after.finalizers) {
      spdlog::info("block drained block={} pool={}", before.name, before.pool);
    } else {
      spdlog::info("block entries of reservations written block={} used={}", before.name, action.after.used());
    }
    auto seen = ReadBlock(*std::move(patched));
    if (!seen) return std::unexpected(std::move(seen.error()));
    world.PutBlock(*std::move(seen));
    return {};
  }

  Expected<void> operator()(const DeleteBlock& action) const {
    const ipam::Block& block = *action.block;
    auto deleted = k8sclient::Delete(api,
                                     ObjectPath(crds::kBlocksPath, block.name),
                                     {.uid = block.uid, .resource_version = block.resource_version},
                                     options);
    if (deleted) spdlog::info("block deleted, its pool is going block={} pool={}", block.name, block.pool);
    return deleted;
  }

  Expected<void> operator()(const ConfirmReserved& action) const {
    memory.confirmed[action.space] = action.reserved;
    spdlog::debug("reservations are in force space={} ranges={}", action.space, action.reserved.size());
    return {};
  }

 private:
  [[nodiscard]] Expected<void> PutSpace(json object) const {
    auto space = ReadSpace(std::move(object));
    if (!space) return std::unexpected(std::move(space.error()));
    std::string name = space->meta.name;
    world.spaces.insert_or_assign(std::move(name), *std::move(space));
    return {};
  }

  [[nodiscard]] Expected<void> PutPool(json object) const {
    auto pool = ReadPool(std::move(object));
    if (!pool) return std::unexpected(std::move(pool.error()));
    std::string name = pool->meta.name;
    world.pools.insert_or_assign(std::move(name), *std::move(pool));
    return {};
  }
};

Expected<void> Performer::Perform(const Action& action, const Moment& now, const k8sclient::CallOptions& options) {
  return std::visit(Visitor{api_, world_, memory_, now, options}, action);
}

}  // namespace berth::reconciler
