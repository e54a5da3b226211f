// SPDX-License-Identifier: Apache-2.0
// Sends the requests of each action.
#include "reconciler/perform.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <ranges>
#include <set>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>
#include <spdlog/spdlog.h>

#include "base/resource_version.h"
#include "crds/allocation.h"
#include "crds/block.h"
#include "crds/names.h"
#include "crds/quantity.h"
#include "k8sclient/text_at.h"
#include "k8sclient/verbs.h"
#include "reconciler/ask_pods.h"
#include "reconciler/decide_lost.h"
#include "reconciler/decide_orphans.h"
#include "reconciler/events.h"
#include "reconciler/logging.h"
#include "reconciler/read_holders.h"
#include "reconciler/read_objects.h"

namespace berth::reconciler {

namespace {

// Time limit of the request that writes an event. The limit is short, because no other action needs the event.
constexpr std::chrono::milliseconds kEventLimit{2'000};
// After a failed event, no event is sent for this many times as long as the request took: 30 s after 2 s without an
// answer. The API server may keep events in an etcd of their own, and nothing else should wait for this etcd.
constexpr int kEventPauseFactor = 15;

// Limit of entries in one write of a block: the performer first asks for each entry's pod, all within one time limit.
constexpr std::size_t kEntriesMax = 20;
constexpr std::chrono::seconds kAskMax{5};           // half of an action's time limit (controller.cc)
constexpr std::chrono::seconds kWatchMax{10};        // the longest time that a watch may be behind the API server
constexpr std::chrono::minutes kPoolEventPeriod{1};  // between two events of a pool with the same reason

using k8sclient::ObjectPath;
using nlohmann::json;

std::unexpected<Error> Vanished(const ObjectKey& key) { return Fail(ErrorCode::kNotFound, key + " is gone"); }

// The watch does not show yet what the API server says about a pod: the controller tries again a little later.
std::unexpected<Error> BehindItsWatch(std::string what) {
  return std::unexpected(Error{.code = ErrorCode::kConflict,
                               .message = std::move(what) + ", which the controller's watch has not shown yet",
                               .retry_after = kWatchMax});
}

std::string AllocationsPath(const std::string& name_space) {
  return std::string(crds::kNamespacesPath) + k8sclient::Path({name_space, crds::kAllocationsResource});
}

}  // namespace

struct Performer::Visitor {
  k8sclient::Api& api;
  k8sclient::Clock& clock;
  World& world;
  ControllerState& state;
  Metrics& metrics;
  SteadyTime& events_again;
  const Now& now;
  const k8sclient::CallOptions& options;

  Expected<void> operator()(const CreateSpace& action) const {
    json object = crds::NewSpaceToJson(action.space);
    // The space has the finalizer from the start, so that nobody can delete a list of accepted pools that is in force.
    object["metadata"]["finalizers"] = json::array({crds::kPoolFinalizer});
    auto created = Take(k8sclient::Create(api, std::string(crds::kSpacesPath), object, options), ReadSpace);
    if (created) spdlog::info("space created space={}", action.space);
    return created;
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

  Expected<void> operator()(const SetFinalizers& action) const {
    if (action.collection == crds::kSpacesPath) return WriteFinalizers(action, world.spaces, ReadSpace);
    return WriteFinalizers(action, world.pools, ReadPool);
  }

  Expected<void> operator()(const SetSpaceStatus& action) const {
    const std::string& name = action.after.meta.name;
    const auto patch = crds::SpaceStatusPatch(action.after);
    if (!patch) return std::unexpected(patch.error());
    if (patch->is_null()) return {};
    auto patched =
        Take(k8sclient::MergePatch(api, ObjectPath(crds::kSpacesPath, name) + "/status", *patch, options), ReadSpace);
    if (!patched) return patched;
    if (action.has_new_counts) state.space_counts_written[name] = now.steady;
    spdlog::debug("space status written space={} pools={}", name, action.after.accepted.size());
    return {};
  }

  Expected<void> operator()(const SetPoolStatus& action) const {
    const auto found = world.pools.find(action.pool);
    if (found == world.pools.end()) return Vanished(PoolKey(action.pool));
    const SeenPool before = found->second;
    const auto patch = crds::PoolStatusPatch(*before.object, action.status);
    if (!patch) return std::unexpected(patch.error());
    if (patch->is_null()) return {};
    auto patched = Take(
        k8sclient::MergePatch(api, ObjectPath(crds::kPoolsPath, action.pool) + "/status", *patch, options), ReadPool);
    if (!patched) return patched;
    if (action.has_new_counts) state.pool_counts_written[before.meta.uid] = now.steady;
    const SeenPool& after = world.pools.at(action.pool);
    LogPoolStatus(before, after);
    for (const Announcement& one : PoolAnnouncements(before, after)) Announce(one);
    return {};
  }

  Expected<void> operator()(const ChangeBlock& action) const {
    if (!action.gone_node.empty()) {
      const auto is_gone = IsNodeGone(action.gone_node);
      if (!is_gone) return std::unexpected(is_gone.error());
      if (!*is_gone) return {};
    }
    const ipam::Block& before = *action.before;
    const bool lets_go = action.gone_node.empty() && before.finalizers != action.after.finalizers;
    if (lets_go) {
      if (auto unused = EnsureUnused(before); !unused) return unused;
    }
    auto written = PatchBlock(before, action.after);
    if (!written) return written;
    if (!action.gone_node.empty()) {
      spdlog::info("removed the standby list and unreadable entries, because the node is gone block={} pool={} node={}",
                   before.name,
                   before.pool,
                   before.node);
    } else if (lets_go) {
      spdlog::info("deleted block is empty, removing it block={} pool={}", before.name, before.pool);
    } else {
      spdlog::info("entries of reservations written block={} used={}", before.name, action.after.used());
    }
    return {};
  }

  Expected<void> operator()(const DeleteBlock& action) const {
    const ipam::Block& block = *action.block;
    if (auto unused = EnsureUnused(block); !unused) return unused;
    auto deleted = k8sclient::Delete(api,
                                     ObjectPath(crds::kBlocksPath, block.name),
                                     {.uid = block.uid, .resource_version = block.resource_version},
                                     options);
    if (deleted) {
      spdlog::info(
          "block deleted block={} pool={} node={} why={}", block.name, block.pool, block.node, Quoted(action.why));
    }
    return deleted;
  }

  Expected<void> operator()(const FreeEntries& action) const {
    ipam::Block after = *action.before;
    std::vector<FreedEntry> freed;
    Expected<void> skipped;
    std::size_t asked = 0;
    for (const FreedEntry& one : action.entries) {
      if (asked == kEntriesMax || (!freed.empty() && IsLate())) break;
      const auto is_gone = MayBeFreed(one, after.cidr.At(one.offset));
      if (!is_gone) {
        // kInvalid: no pod can have the name in this entry. Leave the entry out, and free the block's other entries.
        skipped = std::unexpected(is_gone.error());
        if (is_gone.error().code == ErrorCode::kInvalid) continue;
        break;
      }
      ++asked;
      if (!*is_gone) {
        skipped = BehindItsWatch("pod " + one.entry.pod + " lives");
        continue;
      }
      const bool agent_looks = !one.node_is_gone && !after.shared();
      after.allocations[one.offset] =
          ipam::FreedMark(one.entry, one.text, agent_looks, now.unix_ms + kFreedRest / std::chrono::milliseconds(1));
      freed.push_back(one);
    }
    if (freed.empty()) return skipped;
    auto written = PatchBlock(*action.before, after);
    if (!written && written.error().code == ErrorCode::kUnknownOutcome) {
      state.in_doubt.insert_or_assign(after.name, ControllerState::InDoubt{after, freed});
    }
    if (!written) return written;
    TellFreed(after, freed);
    return {};
  }

  void TellFreed(const ipam::Block& after, const std::vector<FreedEntry>& freed) const {
    for (const FreedEntry& one : freed) {
      state.freed.emplace_back(after.name, one);
      metrics.Freed(WhyFreed(one));
      LogFreed(after, one);
    }
    Announce(FreedAnnouncement(after, freed));
  }

  Expected<void> operator()(const ReportInUse& action) const {
    spdlog::warn("freed addresses are still in use, an event names them block={}", action.block->name);
    metrics.FreedInUse(action.entries.size());
    Announce(InUseAnnouncement(*action.block, action.entries));
    return {};
  }

  Expected<void> operator()(const PutBack& action) const {
    ipam::Block after = *action.before;
    std::vector<LostEntry> put;
    for (const LostEntry& one : action.entries | std::views::take(kEntriesMax)) {
      if (!put.empty() && IsLate()) break;
      const auto has_it = HasLostAddress(api, one, options);
      if (!has_it && !put.empty()) break;
      if (!has_it) return std::unexpected(has_it.error());
      if (!*has_it) continue;
      auto text = ipam::FormatEntry(one.entry);
      if (!text) return std::unexpected(std::move(text.error()));
      after.allocations[static_cast<ipam::BlockOffset>(after.cidr.OffsetOf(one.address))] = *std::move(text);
      put.push_back(one);
    }
    if (put.empty()) return BehindItsWatch("no pod has an address that block " + after.name + " lost");
    auto written = PatchBlock(*action.before, after);
    if (!written) return written;
    for (const LostEntry& one : put) {
      metrics.PutBack();
      spdlog::warn(
          "entry put back, because no entry recorded the pod's address any more pool={} block={} address={} pod={} "
          "node={}",
          after.pool,
          after.name,
          one.address.ToString(),
          LogValue(NamespacedName(one.entry.pod_namespace, one.entry.pod)),
          LogValue(one.node));
    }
    Announce(PutBackAnnouncement(after, put));
    return {};
  }

  Expected<void> operator()(const ReportContested& action) const {
    std::set<std::string> told;
    std::map<std::string, std::vector<ContestedAddress>> news;
    for (const ContestedAddress& one : action.addresses) {
      told.insert(one.text);
      if (state.contested.contains(one.text)) continue;
      spdlog::error("a pod has an address of another pod block={} found={}", one.block, Quoted(one.text));
      news[one.block].push_back(one);
    }
    for (const auto& [block, of_block] : news) Announce(ContestedAnnouncement(of_block));
    state.contested = std::move(told);
    return {};
  }

  Expected<void> operator()(const CreateAllocation& action) const {
    const crds::Allocation& allocation = action.allocation;
    if (action.is_again) {
      const auto pod = AskForPod(api, allocation.meta.name_space, allocation.pod, options);
      if (!pod) return std::unexpected(pod.error());
      const bool is_gone = !*pod || (*pod)->identity() != allocation.uid;
      if (is_gone) return BehindItsWatch("pod " + allocation.pod + " is gone");
    }
    return Take(k8sclient::Create(
                    api, AllocationsPath(allocation.meta.name_space), crds::AllocationToJson(allocation), options),
                ReadAllocation);
  }

  Expected<void> operator()(const DeleteAllocation& action) const {
    const SeenAllocation& allocation = action.allocation;
    auto deleted = k8sclient::Delete(api,
                                     AllocationsPath(allocation.name_space) + k8sclient::Path({allocation.name}),
                                     {.uid = allocation.uid},
                                     options);
    // kNotFound: the garbage collector was faster.
    if (!deleted && deleted.error().code != ErrorCode::kNotFound) return deleted;
    world.allocations.Remove(NamespacedName(allocation.name_space, allocation.name));
    return {};
  }

  Expected<void> operator()(const ReportOrphans& action) const {
    for (const auto& one : action.entries) {
      if (state.reported.contains(one)) continue;
      spdlog::info("orphan found, --reclaim=on would free it block={} entry={}", one.first, Quoted(one.second));
    }
    state.reported = action.entries;
    return {};
  }

  Expected<void> operator()(const CreateBlock& action) const {
    auto created = Take(
        k8sclient::Create(api, std::string(crds::kBlocksPath), crds::BlockToJson(action.block), options), ReadBlock);
    if (!created) return created;
    spdlog::info("block created for a node block={} pool={} node={} why={}",
                 action.block.name,
                 action.block.pool,
                 action.block.node,
                 Quoted(action.why));
    return {};
  }

  Expected<void> operator()(const ShowNumbers& action) const {
    json numbers = json::object();
    for (const auto& [resource, number] : action.numbers) {
      json& value = numbers[std::string(crds::kResourcePrefix) + resource];
      if (number) value = std::to_string(*number);
    }
    const json patch = {{"metadata", {{"resourceVersion", action.resource_version}}},
                        {"status", {{"capacity", numbers}, {"allocatable", numbers}}}};
    auto patched = k8sclient::MergePatch(api, ObjectPath(kNodesPath, action.node) + "/status", patch, options);
    if (!patched) return std::unexpected(std::move(patched.error()));
    auto node = ReadNode(*std::move(patched));
    if (!node) return std::unexpected(std::move(node.error()));
    spdlog::info("address counts of a Node written node={} numbers={}", action.node, numbers.dump());
    state.numbers_written[action.node] = now.steady;
    metrics.NodeWritten();
    TellOfNumbers(*node, action);
    world.nodes.PutWritten(*std::move(node));
    return {};
  }

  // Writes no event that repeats the Node's last event. Writes that the Node shows a count only if an earlier event may
  // have said that the Node shows none.
  void TellOfNumbers(const SeenNode& node, const ShowNumbers& action) const {
    if (action.news.empty()) return;
    const bool is_new = action.is_bad_news ? state.without_numbers.insert(node.name).second
                                           : state.without_numbers.erase(node.name) > 0;
    if (!is_new) return;
    Announce({.kind = kNodeKind,
              .name = node.name,
              .uid = node.uid,
              .is_warning = action.is_bad_news,
              .reason = action.is_bad_news ? "AddressesNotCounted" : "AddressesCounted",
              .message = action.news});
  }

  Expected<void> operator()(const ListPods& action) const {
    auto pods = ReadPodsOf(api, action.node, options);
    if (!pods) return std::unexpected(std::move(pods.error()));
    state.pods_listed.insert_or_assign(action.node,
                                       ControllerState::PodsListed{.at = now.steady, .pods = *std::move(pods)});
    return {};
  }

  // Lists at most one Lease: the resourceVersion of the list is the version at which the API server answered.
  Expected<void> operator()(const AskLeases& /*action*/) const {
    const auto list = k8sclient::Get(api, {.path = std::string(kNodeLeasesPath), .query = {{"limit", "1"}}}, options);
    if (!list) return std::unexpected(list.error());
    const std::uint64_t version =
        ParseVersion(k8sclient::TextAt(k8sclient::ValueAt(*list, "metadata"), "resourceVersion"));
    if (version == 0) return Fail(ErrorCode::kInternal, "the list of Leases has no resourceVersion");
    state.leases = ControllerState::LeasesAsked{.asked = now.steady, .version = version};
    return {};
  }

 private:
  // True if the action must stop asking for pods, to have time left to write the entries for which it has an answer.
  [[nodiscard]] bool IsLate() const { return clock.Now() - now.steady > kAskMax; }

  // Writes an event about something that has happened. If the event fails, nothing is undone or tried again.
  void Announce(const Announcement& announcement) const {
    const SteadyTime began = clock.Now();
    if (began < events_again || IsToldAlready(announcement)) return;
    const auto told = k8sclient::Create(api,
                                        std::string(kEventsPath),
                                        EventOf(announcement, now.unix_ms),
                                        k8sclient::CallOptions::Within(kEventLimit, options.stop));
    // kAlreadyExists: the event was written, and the answer was lost.
    if (told || told.error().code == ErrorCode::kAlreadyExists) return;
    events_again = clock.Now() + kEventPauseFactor * (clock.Now() - began);
    spdlog::debug("cannot write an event object={} err={}", announcement.name, Quoted(told.error().message));
  }

  // True if a pool's event with the same reason was written less than a minute ago; otherwise notes this event. A pool
  // that is almost full may change its condition a hundred times a minute.
  [[nodiscard]] bool IsToldAlready(const Announcement& announcement) const {
    if (announcement.kind != crds::kPoolKind) return false;
    std::erase_if(state.pool_events, [this](const auto& item) { return item.second + kPoolEventPeriod <= now.steady; });
    return !state.pool_events.try_emplace({announcement.uid, announcement.reason}, now.steady).second;
  }

  [[nodiscard]] Expected<void> PatchBlock(const ipam::Block& before, const ipam::Block& after) const {
    return Take(k8sclient::MergePatch(
                    api, ObjectPath(crds::kBlocksPath, before.name), crds::BlockMergePatch(before, after), options),
                ReadBlock);
  }

  // Fails if a pod of the block's node has an address of the block that no entry records. Asks the API server, because
  // the watch of pods may be behind the watch of blocks. Checks nothing for a Shared block, because pods of every node
  // may use it.
  [[nodiscard]] Expected<void> EnsureUnused(const ipam::Block& block) const {
    if (block.shared()) return {};
    const auto pods = ReadPodsOf(api, block.node, options);
    if (!pods) {
      Error failed = pods.error().Within("pods of node " + block.node);
      failed.code = ErrorCode::kInternal;  // so that the controller does not pause its requests about other objects
      return std::unexpected(std::move(failed));
    }
    const auto lacks = [&](const SeenPod& pod) { return LacksEntryOf(world, block, pod); };
    const auto found = std::ranges::find_if(*pods, lacks);
    if (found == pods->end()) return {};
    return BehindItsWatch("pod " + NamespacedName(found->name_space, found->name) + " has an address of block " +
                          block.name);
  }

  [[nodiscard]] Expected<bool> MayBeFreed(const FreedEntry& one, const ipam::Address& address) const {
    if (!one.node_is_gone) return IsPodGone(api, one, address, options);
    auto is_node_gone = IsNodeGone(one.node);
    if (!is_node_gone || !*is_node_gone) return is_node_gone;
    if (!CanBePod(one.entry)) return is_node_gone;
    // The machine may run again and start pods before its Node is Ready, and before the watch shows the pods.
    return IsPodGone(api, one, address, options);
  }

  [[nodiscard]] Expected<bool> IsNodeGone(const std::string& name) const {
    auto object = k8sclient::Get(api, ObjectPath(kNodesPath, name), options);
    if (!object && object.error().code == ErrorCode::kNotFound) return true;
    if (!object) return std::unexpected(std::move(object.error()));
    auto node = ReadNode(*std::move(object));
    if (!node) return std::unexpected(std::move(node.error()));
    const bool is_gone = node->is_out_of_service && !node->is_ready;
    world.nodes.Put(*std::move(node));
    return is_gone;
  }

  // `objects`: the world's objects of the collection that the action names.
  template <typename Seen>
  [[nodiscard]] Expected<void> WriteFinalizers(const SetFinalizers& action, const std::map<std::string, Seen>& objects,
                                               Expected<Seen> (*read)(json)) const {
    const auto found = objects.find(action.name);
    if (found == objects.end()) return Vanished(KeyOf(action));
    const crds::ObjectMeta& meta = found->second.meta;
    const bool is_end = meta.deleting() && action.collection == crds::kPoolsPath;
    auto patched = Take(
        k8sclient::MergePatch(
            api, ObjectPath(action.collection, action.name), crds::FinalizersPatch(meta, action.finalizers), options),
        read);
    if (patched && is_end) spdlog::info("deleted pool is empty, removing it pool={}", action.name);
    return patched;
  }

  // Puts the answer to a write into the world.
  template <typename Seen>
  [[nodiscard]] Expected<void> Take(Expected<json> answer, Expected<Seen> (*read)(json)) const {
    if (!answer) return std::unexpected(std::move(answer.error()));
    auto seen = read(*std::move(answer));
    if (!seen) return std::unexpected(std::move(seen.error()));
    Put(*std::move(seen));
    return {};
  }

  void Put(SeenPool pool) const {
    std::string name = pool.meta.name;
    world.pools.insert_or_assign(std::move(name), std::move(pool));
  }
  void Put(crds::Space space) const {
    std::string name = space.meta.name;
    world.spaces.insert_or_assign(std::move(name), std::move(space));
  }
  void Put(SeenBlock block) const {
    block.is_own_write = true;
    world.PutBlock(std::move(block));
  }
  void Put(SeenAllocation allocation) const { world.allocations.Put(std::move(allocation)); }
};

Expected<void> Performer::Perform(const Action& action, const Now& now, const k8sclient::CallOptions& options) {
  return std::visit(Visitor{api_, clock_, world_, state_, metrics_, events_again_, now, options}, action);
}

void Performer::SettleDoubts(const Now& now, const k8sclient::CallOptions& options) {
  const Visitor visitor{api_, clock_, world_, state_, metrics_, events_again_, now, options};
  std::erase_if(state_.in_doubt, [&](const auto& item) {
    const auto& [after, freed] = item.second;
    const auto seen = world_.blocks().find(item.first);
    if (seen == world_.blocks().end() || seen->second.block == nullptr) return true;
    const ipam::Block& now_there = *seen->second.block;
    if (now_there.resource_version == after.resource_version) return false;
    // An entry contains the time of its write, so no two writes produce the same text.
    const ipam::BlockOffset offset = freed.front().offset;
    const auto found = now_there.allocations.find(offset);
    if (found != now_there.allocations.end() && found->second == after.allocations.at(offset))
      visitor.TellFreed(after, freed);
    return true;
  });
}

}  // namespace berth::reconciler
