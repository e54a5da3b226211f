// SPDX-License-Identifier: Apache-2.0
// Chooser: subtracts the assumed entries from the snapshot's addresses, and chooses nodes.
#include "extender/choice.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

namespace berth::extender {

namespace {

std::int64_t At(const Units& units, const std::string& resource) {
  const auto found = units.find(resource);
  return found == units.end() ? 0 : found->second;
}

// The node that keeps the most addresses free; the first of several such nodes. Leaves out nodes that would have fewer
// than 0 addresses left.
struct Best {
  const std::string* node = nullptr;
  std::int64_t spare = -1;

  void Offer(const std::string& other, std::int64_t others) {
    if (others <= spare) return;
    node = &other;
    spare = others;
  }
};

std::string NumberName(const std::string& resource) { return "ipam.berth.dev/" + resource; }

}  // namespace

// The addresses left for one pod, of the resources that the pod needs.
class Chooser::Ledger {
 public:
  Ledger(const Snapshot& snapshot, const std::map<std::string, Assumed>& assumed, const Units& needs)
      : snapshot_(snapshot), needs_(needs) {
    for (const auto& [uid, one] : assumed) {
      Units& units = one.node.empty() ? unplaced_ : placed_[one.node];
      for (const auto& [resource, count] : one.units) units[resource] += count;
    }
    if (snapshot.shared.empty()) return;
    for (const auto& [name, room] : snapshot.nodes) {
      if (room.shared.empty()) continue;
      for (const auto& [resource, units] : needs) {
        const std::int64_t own = OwnRoom(name, room, resource);
        if (own < 0) taken_[room.shared][resource] -= own;
      }
    }
  }

  // A needed resource for which no pool serves the node; nullptr: there is no such resource.
  [[nodiscard]] const std::string* Excluding(const NodeRoom& room) const {
    for (const auto& [resource, units] : needs_) {
      if (!room.left.contains(resource) && !HasShared(room, resource)) return &resource;
    }
    return nullptr;
  }

  // A resource of which the node has too few addresses for the pod; nullptr: there is no such resource.
  [[nodiscard]] const std::string* Lacking(const std::string& node, const NodeRoom& room) const {
    for (const auto& [resource, units] : needs_) {
      if (Room(node, room, resource) < units) return &resource;
    }
    return nullptr;
  }

  // How many addresses the node keeps if the pod and all assumed pods on unknown nodes go to this node: the smallest
  // number over the needed resources.
  [[nodiscard]] std::int64_t Spare(const std::string& node, const NodeRoom& room) const {
    std::int64_t spare = std::numeric_limits<std::int64_t>::max();
    for (const auto& [resource, units] : needs_)
      spare = std::min(spare, Room(node, room, resource) - At(unplaced_, resource) - units);
    return spare;
  }

 private:
  [[nodiscard]] std::int64_t OwnRoom(const std::string& node, const NodeRoom& room, const std::string& resource) const {
    const auto placed = placed_.find(node);
    return At(room.left, resource) - (placed == placed_.end() ? 0 : At(placed->second, resource));
  }

  [[nodiscard]] bool HasShared(const NodeRoom& room, const std::string& resource) const {
    return std::ranges::any_of(room.shared,
                               [&](std::size_t index) { return snapshot_.shared[index].resource == resource; });
  }

  // The addresses that the node's own blocks and Shared pools have left for the node. If another node has fewer than 0
  // addresses left, its pods take addresses of Shared pools, perhaps all of those that both nodes may take.
  [[nodiscard]] std::int64_t Room(const std::string& node, const NodeRoom& room, const std::string& resource) const {
    const std::int64_t own = OwnRoom(node, room, resource);
    if (!HasShared(room, resource)) return own;
    std::int64_t shared = 0;
    for (const std::size_t index : room.shared) {
      const SharedRoom& one = snapshot_.shared[index];
      if (one.resource == resource) shared += one.free;
    }
    for (const auto& [pools, units] : taken_) {
      std::int64_t common = 0;
      for (const std::size_t index : pools) {
        const SharedRoom& one = snapshot_.shared[index];
        const bool is_common = one.resource == resource && std::ranges::find(room.shared, index) != room.shared.end();
        if (is_common) common += one.free;
      }
      shared -= std::min(common, At(units, resource));
    }
    return std::max<std::int64_t>(0, own) + shared;
  }

  const Snapshot& snapshot_;
  const Units& needs_;
  std::map<std::string, Units> placed_;  // needs of assumed pods, by node
  Units unplaced_;                       // needs of assumed pods on unknown nodes
  // Key: NodeRoom::shared of one or several nodes. Value: the units that these nodes take from Shared pools.
  std::map<std::vector<std::size_t>, Units> taken_;
};

void Chooser::Lead(SteadyTime now) {
  const Lock lock(mutex_);
  leads_since_ = now;
  wakes_at_ = now + kLeadingPause;
}

bool Chooser::Publish(Snapshot snapshot, const Look& look, SteadyTime read_at) {
  const Lock lock(mutex_);
  snapshot_ = std::make_unique<const Snapshot>(std::move(snapshot));
  EndAssumed(look, read_at);
  Rooms rooms = Available();
  const bool wakes = (wakes_at_ && *wakes_at_ <= read_at) || HasGrown(rooms);
  if (wakes) {
    awaited_.clear();
    wakes_at_.reset();
  }
  available_ = std::move(rooms);
  return wakes;
}

// Assumed entries end only here, after a new snapshot. Compares with the time at which the snapshot was read, not with
// the present: when the assumed entry of a bound pod ends, the snapshot must already count the pod.
void Chooser::EndAssumed(const Look& look, SteadyTime read_at) {
  for (auto at = assumed_.begin(); at != assumed_.end();) {
    auto& [uid, one] = *at;
    const Seen seen = look(one.key, uid);
    // The world may not show a pod yet that was created a moment ago.
    const bool is_over =
        one.since + kAssumedMax <= read_at || seen == Seen::kSettled || (seen == Seen::kUnknown && one.was_seen);
    one.was_seen = one.was_seen || seen == Seen::kWaiting;
    at = is_over ? assumed_.erase(at) : std::next(at);
  }
}

Chooser::Rooms Chooser::Available() const {
  Rooms rooms;
  for (const auto& [name, room] : snapshot_->nodes) rooms[name] = room.left;
  for (const auto& [uid, one] : assumed_) {
    const auto found = rooms.find(one.node);
    if (found == rooms.end()) continue;
    for (const auto& [resource, units] : one.units) found->second[resource] -= units;
  }
  Units& common = rooms[""];
  for (const auto& [name, room] : snapshot_->nodes) {
    for (const auto& [resource, units] : rooms[name])
      common[resource] += room.shared.empty() ? 0 : std::min<std::int64_t>(0, units);
  }
  for (const SharedRoom& one : snapshot_->shared) common[one.resource] += one.free;
  return rooms;
}

// True if more addresses are left than before of a resource that waiting pods need.
bool Chooser::HasGrown(const Rooms& rooms) const {
  for (const auto& [name, units] : rooms) {
    const auto before = available_.find(name);
    for (const std::string& resource : awaited_) {
      const std::int64_t had = before == available_.end() ? 0 : At(before->second, resource);
      const std::int64_t has = At(units, resource);
      if (has > 0 && has > had) return true;
    }
  }
  return false;
}

Choice Chooser::Filter(const Pod& pod, const std::vector<std::string>& offered, SteadyTime now) {
  if (pod.needs.empty()) return {.nodes = offered};
  const Lock lock(mutex_);
  if (!leads_since_) return {.error = "this berth-controller does not lead"};
  if (now < *leads_since_ + kLeadingPause || !snapshot_)
    return {.error = "this berth-controller has just begun to lead; try again"};
  std::set<std::string> tried;
  if (const auto before = assumed_.extract(pod.uid); !before.empty()) tried = std::move(before.mapped().tried);
  const Ledger ledger(*snapshot_, assumed_, pod.needs);
  Choice choice;
  Best best;
  Best fresh;                 // among the nodes that the pod has not tried
  bool is_uncertain = false;  // a node has room unless assumed pods on unknown nodes take it
  for (const std::string& name : offered) {
    const auto found = snapshot_->nodes.find(name);
    if (found == snapshot_->nodes.end()) {
      choice.full.emplace(name, "berth does not know this node yet");
      continue;
    }
    const NodeRoom& room = found->second;
    if (const std::string* resource = ledger.Excluding(room); resource != nullptr) {
      choice.excluded.emplace(name, "no pool of " + NumberName(*resource) + " serves this node");
      continue;
    }
    if (const std::string* resource = ledger.Lacking(name, room); resource != nullptr) {
      choice.full.emplace(name, "no " + NumberName(*resource) + " address is left");
      continue;
    }
    const std::int64_t spare = ledger.Spare(name, room);
    if (spare >= kPlenty) choice.nodes.push_back(name);
    if (spare < 0) is_uncertain = true;
    best.Offer(name, spare);
    if (!tried.contains(name)) fresh.Offer(name, spare);
  }
  if (best.node == nullptr) {
    if (is_uncertain) return {.error = "other pods are being placed, and may take the last addresses; try again"};
    for (const auto& [resource, units] : pod.needs) {
      if (available_.at("").contains(resource)) awaited_.insert(resource);
    }
    wakes_at_ = wakes_at_.value_or(now + kAwaitedMax);
    return choice;
  }
  if (choice.nodes.size() <= 1) {
    if (fresh.node == nullptr) tried.clear();
    choice.nodes = {fresh.node == nullptr ? *best.node : *fresh.node};
    tried.insert(choice.nodes.front());
  }
  // `choice.nodes` has the order of `offered`.
  auto chosen = choice.nodes.begin();
  for (const std::string& name : offered) {
    if (chosen != choice.nodes.end() && *chosen == name) {
      ++chosen;
    } else if (!choice.excluded.contains(name)) {
      choice.full.emplace(name, "addresses are short, and berth has chosen another node");
    }
  }
  assumed_.emplace(pod.uid,
                   Assumed{.key = pod.key,
                           .node = choice.nodes.size() == 1 ? choice.nodes.front() : "",
                           .units = pod.needs,
                           .since = now,
                           .tried = std::move(tried)});
  return choice;
}

std::vector<int> Chooser::Scores(const Pod& pod, const std::vector<std::string>& nodes) const {
  constexpr std::int64_t kScoreMax = 10;
  const Lock lock(mutex_);
  std::vector<int> scores(nodes.size(), 0);
  if (!snapshot_ || pod.needs.empty()) return scores;
  std::map<std::string, Assumed> others = assumed_;
  others.erase(pod.uid);
  const Ledger ledger(*snapshot_, others, pod.needs);
  std::vector<std::int64_t> spares;
  for (const std::string& name : nodes) {
    const auto found = snapshot_->nodes.find(name);
    spares.push_back(found == snapshot_->nodes.end() ? 0
                                                     : std::max<std::int64_t>(0, ledger.Spare(name, found->second)));
  }
  const std::int64_t most = spares.empty() ? 0 : *std::ranges::max_element(spares);
  if (most == 0) return scores;
  for (std::size_t i = 0; i < nodes.size(); ++i) scores[i] = static_cast<int>(spares[i] * kScoreMax / most);
  return scores;
}

std::size_t Chooser::assumed() const {
  const Lock lock(mutex_);
  return assumed_.size();
}

}  // namespace berth::extender
