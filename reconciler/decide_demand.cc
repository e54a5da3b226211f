// SPDX-License-Identifier: Apache-2.0
// Finds which waiting pods have no node with room, and where a block would help them.
#include "reconciler/decide_demand.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "crds/quantity.h"
#include "ipam/block.h"

namespace berth::reconciler {

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
      decider_.times_.clear();
      return;
    }
    NoteRooms();
    for (const auto& [name, seen] : scope_.world.blocks()) {
      if (seen.block == nullptr) continue;
      if (!seen.block->deleting) ++blocks_of_[{seen.block->node, seen.pool_uid}];
      if (seen.IsEmpty(now_.unix_ms)) ++empty_[seen.pool_uid];
    }
    for (const Group& group : groups) Serve(group);
    for (const auto& [key, turn] : decider_.turns_) {
      for (const auto& [uid, one] : turn.lacks) {
        Lack& lack = decider_.lacks_.try_emplace(uid, one).first->second;
        lack.blocks = std::max(lack.blocks, one.blocks);
        lack.since = std::min(lack.since, one.since);
      }
    }
  }

 private:
  // The number of further pods that a node may run (`places`), and the addresses that it has left for them (`left`).
  struct Room {
    const SeenNode* node;
    NodeTimes* times;
    std::int64_t places;
    std::map<std::string, std::int64_t> left = {};  // units by resource
  };

  // Waiting pods with the same needs and the same placement.
  struct Group {
    const SeenPod* pod;
    const std::vector<UnitRequest>* needs;
    PodKey key;  // the pod that has waited longest
    std::size_t count = 0;
    SteadyTime since;
    SteadyTime served;  // when a block was last created for that pod; min(): never
    Turn* turn = nullptr;
  };

  // Returns the groups of pods that have waited for kDemandAfter. If there are more than kGroupsMax groups, returns
  // those that have waited longest for their turn. The group whose first pod has waited longest comes first. If the
  // controller creates a block for a group, the group's waiting time restarts at 0. Otherwise the same group could get
  // the only unclaimed block again and again.
  std::vector<Group> Groups() {
    const std::set<PodKey>& waiting = scope_.counts.waiting();
    std::erase_if(decider_.waiting_, [&](const auto& item) { return !waiting.contains(item.first); });
    std::vector<Group> groups;
    std::map<GroupKey, std::size_t> indexes;  // in `groups`
    for (const PodKey& key : waiting) {
      const auto& [since, served] = decider_.waiting_.try_emplace(key, Waiting{.since = now_.steady}).first->second;
      if (const SteadyTime due = since + kDemandAfter; now_.steady < due) {
        decision_.WakeAt(due);
        continue;
      }
      const SeenPod& pod = *scope_.world.pods.Find(key);
      const std::vector<UnitRequest>& needs = scope_.counts.NeedsOf(pod);
      // Equal placements are one object (SharedPlacement).
      const auto [index, is_new] = indexes.try_emplace({pod.placement, needs}, groups.size());
      if (is_new) {
        Turn& turn = decider_.turns_[index->first];
        groups.push_back(
            {.pod = &pod, .needs = &needs, .key = key, .count = 1, .since = since, .served = served, .turn = &turn});
        continue;
      }
      Group& group = groups[index->second];
      ++group.count;
      if (since >= group.since) continue;
      group.since = since;
      group.served = served;
      group.key = key;
    }
    std::erase_if(decider_.turns_, [&](const auto& item) { return !indexes.contains(item.first); });
    if (groups.size() > kGroupsMax) {
      // A new group comes last, so that new groups cannot keep the others from their turn.
      std::ranges::stable_sort(groups, {}, [](const Group& group) { return std::max(group.turn->at, group.since); });
      groups.resize(kGroupsMax);
      decision_.WakeAt(now_.steady + kNextTurn);
    }
    std::ranges::stable_sort(groups, {}, [](const Group& group) { return std::max(group.served, group.since); });
    return groups;
  }

  // Notes the room of each node, and from when on each Ready node's room counts as useless.
  void NoteRooms() {
    std::erase_if(decider_.times_, [&](const auto& item) { return scope_.world.nodes.Find(item.first) == nullptr; });
    for (const auto& [name, node] : scope_.world.nodes.all()) {
      NodeTimes& times = decider_.times_[name];
      std::map<std::string, NodeTimes::HasRoom> has_room;
      Room room{.node = &node,
                .times = &times,
                .places = node.pods_max - static_cast<std::int64_t>(scope_.counts.ActivePods(name))};
      for (const auto& [resource, tally] : scope_.counts.Of(name)) {
        room.left[resource] = tally.Left();
        if (!node.is_ready || tally.Left() <= 0) continue;
        const auto number = node.numbers.find(resource);
        const bool is_shown = number != node.numbers.end() && number->second.allocatable.value_or(0) > tally.requested;
        const auto before = times.has_room.find(resource);
        const bool is_same = before != times.has_room.end() && before->second.is_shown == is_shown;
        const SteadyTime useless_from = now_.steady + (is_shown ? kDrawMax : kHiddenMax);
        has_room.emplace(resource, is_same ? before->second : NodeTimes::HasRoom{is_shown, useless_from});
      }
      times.has_room = std::move(has_room);
      rooms_.emplace(name, std::move(room));
    }
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
    *group.turn = {.at = now_.steady};
    const std::vector<Room*> rooms = NodesFor(group);
    if (rooms.empty()) return;
    auto next = rooms.cbegin();  // the nodes before `next` have no room for the group
    Room* room = nullptr;
    for (std::size_t i = 0; i < group.count; ++i) {
      if (room == nullptr || !HasRoom(group, *room)) room = RoomFor(group, next, rooms.cend());
      if (room == nullptr) room = Extend(group, rooms, group.count - i);
      if (room == nullptr) return;
      --room->places;
      for (const UnitRequest& request : *group.needs) room->left[request.resource] -= request.units;
    }
  }

  using RoomIterator = std::vector<Room*>::const_iterator;

  static bool HasRoom(const Group& group, const Room& room) {
    return room.places > 0 && std::ranges::all_of(*group.needs, [&](const UnitRequest& request) {
             const auto left = room.left.find(request.resource);
             return left != room.left.end() && left->second >= request.units;
           });
  }

  // Returns the first node from `next` on with room for one more pod, and moves `next` behind it. Once the group has
  // waited for kDrawMax, leaves out each node whose room counts as useless, because something else than addresses keeps
  // the pods from this node.
  Room* RoomFor(const Group& group, RoomIterator& next, RoomIterator end) {
    while (next != end) {
      Room* const room = *next++;
      if (!HasRoom(group, *room)) continue;
      if (!IsUseless(group, *room)) return room;
      for (const UnitRequest& request : *group.needs) room->times->tried[request.resource] = now_.steady;
    }
    return nullptr;
  }

  bool IsUseless(const Group& group, const Room& room) {
    if (now_.steady < group.since + kDrawMax) {
      decision_.WakeAt(group.since + kDrawMax);
      return false;
    }
    return std::ranges::all_of(*group.needs, [&](const UnitRequest& request) {
      const auto found = room.times->has_room.find(request.resource);
      if (found == room.times->has_room.end()) return false;
      const SteadyTime useless_from = found->second.useless_from;
      if (now_.steady < useless_from) decision_.WakeAt(useless_from);
      return useless_from <= now_.steady;
    });
  }

  // Creates the blocks that one of the nodes lacks for one more pod. Begins with the node that was tried longest ago.
  // nullptr: no node can get the blocks that it lacks.
  Room* Extend(const Group& group, const std::vector<Room*>& rooms, std::size_t pods) {
    std::vector<std::pair<SteadyTime, Room*>> in_order;  // with the time at which the node was last tried
    in_order.reserve(rooms.size());
    for (Room* room : rooms) {
      SteadyTime last = SteadyTime::min();
      for (const UnitRequest& request : *group.needs) {
        const auto found = room->times->tried.find(request.resource);
        if (found != room->times->tried.end()) last = std::max(last, found->second);
      }
      in_order.emplace_back(last, room);
    }
    std::ranges::stable_sort(in_order, {}, &std::pair<SteadyTime, Room*>::first);
    Lacks lacks;
    for (const auto& [last, room] : in_order) {
      if (room->places > 0 && ExtendNode(group, *room, pods, lacks)) return room;
    }
    for (const auto& [uid, blocks] : lacks) group.turn->lacks[uid] = {.blocks = blocks, .since = group.since};
    return nullptr;
  }

  struct NewBlock {
    const ipam::Pool* pool;
    ipam::Prefix cidr;
  };
  // By pool UID: the number of the pool's blocks that must be unclaimed at the same time, so that a node can serve the
  // group.
  using Lacks = std::map<std::string, std::size_t>;

  // Creates all blocks that the node lacks for one more pod, or no block: with only some of the blocks, the scheduler
  // would still place no pod on the node. True: the blocks are created. If `lacks` is empty and other nodes could give
  // back the missing blocks, sets `lacks`.
  bool ExtendNode(const Group& group, Room& room, std::size_t pods, Lacks& lacks) {
    std::vector<NewBlock> blocks;
    for (const UnitRequest& request : *group.needs) {
      const auto left = room.left.find(request.resource);
      if (left == room.left.end()) return false;  // no pool of the resource counts for that node
      if (left->second >= request.units) {
        // The node has room, and the scheduler still places no pod there. Another block would not change this.
        if (group.needs->size() == 1) return false;
        continue;
      }
      const std::int64_t missing = left->second < request.units - crds::kUnitsMax ? crds::kUnitsMax  // no overflow
                                                                                  : request.units - left->second;
      const std::int64_t short_of = Plan(room, request.resource, missing, blocks);
      if (short_of <= 0) continue;
      if (lacks.empty()) lacks = LacksOf(room, {.resource = request.resource, .units = short_of}, blocks, pods);
      return false;
    }
    if (blocks.empty() || created_count_ + blocks.size() > kCreatedMax) return false;
    for (const NewBlock& one : blocks) Create(one, room, group);
    return true;
  }

  // Adds unclaimed blocks for the node until they have `short_of` addresses, but at most kCreatedMax blocks in all.
  // Returns how many addresses are still missing; 0 or less: none.
  std::int64_t Plan(const Room& room, const std::string& resource, std::int64_t short_of,
                    std::vector<NewBlock>& blocks) {
    for (const auto& [uid, pool] : scope_.pools.counted()) {
      if (pool->resource != resource) continue;
      std::size_t taken = taken_[uid];
      int has = BlocksOf(room, uid);
      const auto may_add = [&] {
        return short_of > 0 && blocks.size() < kCreatedMax &&
               ObstacleOf(scope_, *pool, *room.node, has, taken) == BlockObstacle::kNone;
      };
      if (!may_add()) continue;
      const ipam::PoolBlocks& free = FreeOf(*pool);
      // The start depends on the node's name, so that two controllers, or a controller and an agent, seldom choose the
      // same block.
      const ipam::Uint128 start = free.Count() == 0 ? 0 : std::hash<std::string>()(room.node->name) % free.Count();
      for (ipam::Uint128 i = 0; i < free.Count() && may_add(); ++i) {
        const ipam::Prefix cidr = free.At((start + i) % free.Count());
        const bool is_planned = std::ranges::any_of(
            blocks, [&](const NewBlock& one) { return one.pool->space == pool->space && one.cidr == cidr; });
        if (is_planned || created_cidrs_.contains({pool->space, cidr})) continue;
        blocks.push_back({.pool = pool, .cidr = cidr});
        short_of -= AddressesOf(blocks.back());
        ++taken;
        ++has;
      }
    }
    return short_of;
  }

  // The pool's blocks that nobody has claimed.
  const ipam::PoolBlocks& FreeOf(const ipam::Pool& pool) {
    const auto found = free_.find(pool.uid);
    if (found != free_.end()) return found->second;
    return free_.emplace(pool.uid, ipam::PoolBlocks(pool, scope_.census.OfPool(pool.uid).claimable)).first->second;
  }

  // Number of assignable addresses in the block, but at most crds::kUnitsMax.
  [[nodiscard]] static std::int64_t AddressesOf(const NewBlock& block) {
    constexpr ipam::Uint128 kMax = crds::kUnitsMax;
    return static_cast<std::int64_t>(std::min(ipam::AssignableIn(*block.pool, block.cidr).Count(), kMax));
  }

  [[nodiscard]] int BlocksOf(const Room& room, const std::string& pool_uid) const {
    const auto blocks = blocks_of_.find({room.node->name, pool_uid});
    return blocks == blocks_of_.end() ? 0 : blocks->second;
  }

  // Returns by pool how many blocks have to be unclaimed at the same time, so that the node can get the blocks in
  // `planned` and the blocks for the missing addresses. Returns nothing if the node may not have so many blocks, or if
  // more than one block is missing and there are fewer empty blocks than missing blocks.
  Lacks LacksOf(const Room& room, const UnitRequest& missing, const std::vector<NewBlock>& planned, std::size_t pods) {
    Lacks lacks;
    std::int64_t short_of = missing.units;
    std::size_t added = 0;
    for (const auto& [uid, pool] : scope_.pools.counted()) {
      if (short_of <= 0) break;
      if (pool->resource != missing.resource || !scope_.pools.Counts(uid, *room.node)) continue;
      const auto of_pool = static_cast<std::size_t>(
          std::ranges::count_if(planned, [&](const NewBlock& one) { return one.pool->uid == uid; }));
      const auto size = std::int64_t{1} << std::min(8, ipam::AddressBits(pool->family()) - pool->BlockLength());
      std::size_t may_have = kCreatedMax - std::min(kCreatedMax, planned.size() + added);
      if (pool->max_blocks_per_node > 0) {
        const int limit = pool->max_blocks_per_node - BlocksOf(room, uid) - static_cast<int>(of_pool);
        may_have = std::min(may_have, static_cast<std::size_t>(std::max(0, limit)));
      }
      const auto wanted = static_cast<std::size_t>((short_of - 1) / size + 1);
      const std::size_t more = std::min({wanted, may_have, wanted == 1 ? 1 : empty_[uid]});
      if (more == 0) continue;
      short_of -= static_cast<std::int64_t>(more) * size;
      added += more;
      lacks[uid] = of_pool + more;
    }
    if (short_of > 0) return {};
    // If one block is enough for one pod, ask for as many blocks as all pods of the group need.
    if (lacks.size() == 1 && added == 1) {
      const ipam::Pool& pool = *scope_.pools.counted().at(lacks.begin()->first);
      const auto size = std::size_t{1} << std::min(8, ipam::AddressBits(pool.family()) - pool.BlockLength());
      std::size_t& blocks = lacks.begin()->second;
      blocks = std::max(blocks, (pods * static_cast<std::size_t>(missing.units) - 1) / size + 1);
    }
    return lacks;
  }

  void Create(const NewBlock& one, Room& room, const Group& group) {
    ++taken_[one.pool->uid];
    ++created_count_;
    ++blocks_of_[{room.node->name, one.pool->uid}];
    created_cidrs_.emplace(one.pool->space, one.cidr);
    const ipam::Block block = ipam::NewBlock(*one.pool, one.cidr, room.node->name);
    room.left[one.pool->resource] += AddressesOf(one);
    room.times->tried[one.pool->resource] = now_.steady;
    decider_.created_[block.name] = now_.steady;
    decider_.waiting_.at(group.key).served = now_.steady;
    decision_.actions.push_back(CreateBlock{.block = block, .why = "pod " + group.key + " waits"});
  }

  DemandDecider& decider_;
  const DemandScope& scope_;
  const Now& now_;
  Decision& decision_;
  std::map<std::string, Room> rooms_;                             // by node
  std::map<std::pair<std::string, std::string>, int> blocks_of_;  // how many, by node and pool
  std::map<std::string, std::size_t> taken_;                      // blocks that this pass creates, by pool
  std::set<std::pair<std::string, ipam::Prefix>> created_cidrs_;  // spaces and CIDRs of these blocks
  std::map<std::string, std::size_t> empty_;                      // blocks without entries, by pool
  std::map<std::string, ipam::PoolBlocks> free_;                  // blocks that nobody has claimed, by pool
  std::size_t created_count_ = 0;
};

void DemandDecider::Decide(const DemandScope& scope, const Now& now, Decision& decision) {
  Pass(*this, scope, now, decision).Run();
}

}  // namespace berth::reconciler
