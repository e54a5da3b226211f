// SPDX-License-Identifier: Apache-2.0
// Which waiting pods find no node with room, and where a block would help them.
#include "reconciler/decide_demand.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <set>
#include <vector>

#include "ipam/block.h"

namespace berth::reconciler {

namespace {

// Waiting pods with the same needs and the same placement.
struct Group {
  const SeenPod* pod;
  const std::vector<UnitRequest>* needs;
  PodKey key;  // of the pod that has waited longest
  std::size_t count = 0;
  SteadyTime since;
};

// The places and addresses that a node has left for further pods.
struct Room {
  const SeenNode* node;
  std::int64_t places = 0;
  std::map<std::string, std::int64_t> left = {};  // units by resource
};

}  // namespace

BlockObstacle ObstacleOf(const DemandScope& scope, const ipam::Pool& pool, const SeenNode& node, int has,
                         std::size_t taken) {
  if (!scope.pools.Counts(pool.uid, node)) return BlockObstacle::kRefused;
  if (pool.max_blocks_per_node > 0 && has >= pool.max_blocks_per_node) return BlockObstacle::kLimit;
  return scope.census.OfPool(pool.uid).blocks_unclaimed > taken ? BlockObstacle::kNone : BlockObstacle::kAllTaken;
}

bool DemandDecider::MayStillDraw(const std::string& block, SteadyTime now) const {
  const auto found = created_.find(block);
  return found != created_.end() && now < found->second + kDrawMax;
}

class DemandDecider::Pass {
 public:
  Pass(DemandDecider& decider, const DemandScope& scope, const Now& now, Decision& decision)
      : decider_(decider), scope_(scope), now_(now), decision_(decision) {}

  void Run() {
    decider_.lacks_.clear();
    std::erase_if(decider_.created_, [this](const auto& item) { return item.second + kDrawMax <= now_.steady; });
    const std::vector<Group> groups = Groups();
    if (groups.empty()) {
      decider_.room_since_.clear();
      decider_.tried_.clear();
      return;
    }
    NoteRooms();
    for (const auto& [name, seen] : scope_.world.blocks()) {
      if (seen.block != nullptr && !seen.block->deleting) ++blocks_of_[{seen.block->node, seen.pool_uid}];
    }
    for (const Group& group : groups) Serve(group);
  }

 private:
  // The pods that have waited for kDemandAfter, grouped; the group that has waited longest comes first.
  std::vector<Group> Groups() {
    const std::set<PodKey>& waiting = scope_.counts.waiting();
    std::erase_if(decider_.waiting_since_, [&](const auto& item) { return !waiting.contains(item.first); });
    std::vector<Group> groups;
    for (const PodKey& key : waiting) {
      const SteadyTime since = decider_.waiting_since_.try_emplace(key, now_.steady).first->second;
      if (const SteadyTime due = since + kDemandAfter; now_.steady < due) {
        decision_.WakeAt(due);
        continue;
      }
      const SeenPod& pod = *scope_.world.pods.Find(key);
      const std::vector<UnitRequest>& needs = scope_.counts.NeedsOf(pod);
      const auto found = std::ranges::find_if(
          groups, [&](const Group& one) { return *one.needs == needs && *one.pod->placement == *pod.placement; });
      if (found == groups.end()) {
        groups.push_back({.pod = &pod, .needs = &needs, .key = key, .count = 1, .since = since});
        continue;
      }
      ++found->count;
      if (since >= found->since) continue;
      found->since = since;
      found->key = key;
    }
    std::ranges::stable_sort(groups, {}, &Group::since);
    return groups;
  }

  // Notes the room of each node, and since when the Node has shown room to the scheduler.
  void NoteRooms() {
    std::map<NodeResource, SteadyTime> room_since;
    for (const auto& [name, node] : scope_.world.nodes.all()) {
      Room room{.node = &node, .places = node.pods_max - static_cast<std::int64_t>(scope_.counts.ActivePods(name))};
      for (const auto& [resource, tally] : scope_.counts.Of(name)) {
        room.left[resource] = std::max<std::int64_t>(0, tally.Left());
        const auto shown = node.numbers.find(resource);
        const bool has_room = shown != node.numbers.end() && shown->second.allocatable.value_or(0) > tally.requested;
        if (!has_room) continue;
        const auto before = decider_.room_since_.find({name, resource});
        room_since[{name, resource}] = before == decider_.room_since_.end() ? now_.steady : before->second;
      }
      rooms_.emplace(name, std::move(room));
    }
    decider_.room_since_ = std::move(room_since);
  }

  // The nodes on which the group's pods could run, sorted by name.
  std::vector<Room*> NodesFor(const Group& group) {
    std::vector<Room*> rooms;
    for (auto& [name, room] : rooms_) {
      const SeenNode& node = *room.node;
      if (node.is_ready && room.places > 0 && group.pod->placement->Admits(name, node.labels, node.taints))
        rooms.push_back(&room);
    }
    return rooms;
  }

  void Serve(const Group& group) {
    const std::vector<Room*> rooms = NodesFor(group);
    if (rooms.empty()) return;
    for (std::size_t i = 0; i < group.count; ++i) {
      Room* room = RoomFor(group, rooms);
      if (room == nullptr) room = Extend(group, rooms, group.count - i);
      if (room == nullptr) return;
      --room->places;
      for (const UnitRequest& request : *group.needs) room->left[request.resource] -= request.units;
    }
  }

  // A node with room for one more pod. Leaves out a node that has had room for kDrawMax: something else keeps the pods
  // away.
  Room* RoomFor(const Group& group, const std::vector<Room*>& rooms) {
    for (Room* room : rooms) {
      if (room->places <= 0) continue;
      const bool has_room = std::ranges::all_of(*group.needs, [&](const UnitRequest& request) {
        const auto left = room->left.find(request.resource);
        return left != room->left.end() && left->second >= request.units;
      });
      if (!has_room) continue;
      if (!IsUseless(group, *room)) return room;
      for (const UnitRequest& request : *group.needs) {
        decider_.tried_[{room->node->name, request.resource}] = now_.steady;
      }
    }
    return nullptr;
  }

  bool IsUseless(const Group& group, const Room& room) {
    if (now_.steady < group.since + kDrawMax) {
      decision_.WakeAt(group.since + kDrawMax);
      return false;
    }
    return std::ranges::all_of(*group.needs, [&](const UnitRequest& request) {
      const auto since = decider_.room_since_.find({room.node->name, request.resource});
      if (since == decider_.room_since_.end()) return false;
      if (now_.steady < since->second + kDrawMax) decision_.WakeAt(since->second + kDrawMax);
      return since->second + kDrawMax <= now_.steady;
    });
  }

  // Creates the blocks that one of the nodes lacks for one more pod. Begins with the node that was tried longest ago.
  // nullptr: no node can get them.
  Room* Extend(const Group& group, std::vector<Room*> rooms, std::size_t pods) {
    const auto last_tried = [&](const Room* room) {
      SteadyTime last = SteadyTime::min();
      for (const UnitRequest& request : *group.needs) {
        const auto found = decider_.tried_.find({room->node->name, request.resource});
        if (found != decider_.tried_.end()) last = std::max(last, found->second);
      }
      return last;
    };
    std::ranges::stable_sort(rooms, {}, last_tried);
    for (Room* room : rooms) {
      if (room->places > 0 && ExtendNode(group, *room, pods)) return room;
    }
    return nullptr;
  }

  bool ExtendNode(const Group& group, Room& room, std::size_t pods) {
    std::vector<std::pair<const ipam::Pool*, const UnitRequest*>> needed;
    for (const UnitRequest& request : *group.needs) {
      const auto left = room.left.find(request.resource);
      if (left == room.left.end()) return false;  // no pool of the resource counts for that node
      if (left->second >= request.units) {
        // The node has room, and the room draws no pod, so another block would draw none either.
        if (group.needs->size() == 1) return false;
        continue;
      }
      const ipam::Pool* pool = PoolFor(room, request, group, pods);
      if (pool == nullptr) return false;
      needed.emplace_back(pool, &request);
    }
    if (needed.empty() || created_count_ + needed.size() > kCreatedMax) return false;
    for (const auto& [pool, request] : needed) {
      if (!Create(*pool, room, *request, group)) return false;
    }
    return true;
  }

  // A pool with a block that the node can get. nullptr: there is none; if another node could give a block back, notes
  // the lack.
  const ipam::Pool* PoolFor(const Room& room, const UnitRequest& request, const Group& group, std::size_t pods) {
    const ipam::Pool* lacking = nullptr;
    for (const auto& [uid, pool] : scope_.pools.counted()) {
      if (pool->resource != request.resource) continue;
      const auto blocks = blocks_of_.find({room.node->name, uid});
      const auto has = blocks == blocks_of_.end() ? 0 : blocks->second;
      const BlockObstacle obstacle = ObstacleOf(scope_, *pool, *room.node, has, taken_[uid]);
      if (obstacle == BlockObstacle::kNone) return pool;
      if (obstacle == BlockObstacle::kAllTaken) lacking = pool;
    }
    if (lacking == nullptr) return nullptr;
    const auto size = std::size_t{1} << std::min(8, ipam::AddressBits(lacking->family()) - lacking->BlockLength());
    Lack& lack = decider_.lacks_.try_emplace(lacking->uid, Lack{.since = group.since}).first->second;
    lack.blocks = std::max(lack.blocks, (pods * static_cast<std::size_t>(request.units) + size - 1) / size);
    lack.since = std::min(lack.since, group.since);
    return nullptr;
  }

  bool Create(const ipam::Pool& pool, Room& room, const UnitRequest& request, const Group& group) {
    const ipam::PoolBlocks free(pool, scope_.census.OfPool(pool.uid).claimable);
    const ipam::Uint128 count = free.Count();
    std::size_t& taken = taken_[pool.uid];
    if (count <= taken) return false;
    // The start depends on the node's name, so that two controllers, or a controller and an agent, seldom choose the
    // same block.
    const ipam::Uint128 start = std::hash<std::string>()(room.node->name) % count;
    const ipam::Prefix cidr = free.At((start + taken) % count);
    ++taken;
    ++created_count_;
    ++blocks_of_[{room.node->name, pool.uid}];
    const ipam::Block block = ipam::NewBlock(pool, cidr, room.node->name);
    room.left[request.resource] += static_cast<std::int64_t>(ipam::AssignableIn(pool, cidr).Count());
    decider_.tried_[{room.node->name, request.resource}] = now_.steady;
    decider_.created_[block.name] = now_.steady;
    decision_.actions.push_back(CreateBlock{.block = block, .why = "pod " + group.key + " waits"});
    return room.left[request.resource] >= request.units;
  }

  DemandDecider& decider_;
  const DemandScope& scope_;
  const Now& now_;
  Decision& decision_;
  std::map<std::string, Room> rooms_;                             // by node
  std::map<std::pair<std::string, std::string>, int> blocks_of_;  // how many, by node and pool
  std::map<std::string, std::size_t> taken_;                      // blocks that this pass creates, by pool
  std::size_t created_count_ = 0;
};

void DemandDecider::Decide(const DemandScope& scope, const Now& now, Decision& decision) {
  Pass(*this, scope, now, decision).Run();
}

}  // namespace berth::reconciler
