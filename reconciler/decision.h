// SPDX-License-Identifier: Apache-2.0
// Decision: what to do about a world. Values only; perform.h carries them out.
//
// An action says what an object is to become. The write is a merge patch with the resourceVersion that the object has
// in the world, or a deletion with preconditions. If the object has changed in the meantime, the API server answers
// 409, and the next pass decides again from the newer state.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "crds/allocation.h"
#include "crds/pool.h"
#include "crds/space.h"
#include "extender/choice.h"
#include "ipam/block.h"
#include "ipam/entry.h"
#include "ipam/interval_set.h"
#include "reconciler/allocations.h"
#include "reconciler/backoff.h"
#include "reconciler/pods.h"

namespace berth::reconciler {

// The time at which a decision is made.
struct Now {
  std::int64_t unix_ms = 0;                      // UNIX time; for times that objects contain
  std::chrono::steady_clock::time_point steady;  // for time spans
};

// A range of addresses that an IPReservation reserves.
struct ReservedRange {
  ipam::AddressRange range;
  std::string reservation;
  friend auto operator<=>(const ReservedRange&, const ReservedRange&) = default;
};

struct CreateSpace {
  std::string space;
};
struct DeleteSpace {
  std::string space;
};
struct SetFinalizers {
  std::string_view collection;  // crds::kPoolsPath or crds::kSpacesPath
  std::string name;
  std::vector<std::string> finalizers;
};
struct SetSpaceStatus {
  crds::Space after;
  bool has_new_counts = false;
};
struct SetPoolStatus {
  std::string pool;
  crds::PoolStatus status;
  bool has_new_counts = false;
};
// Changes reserved entries, finalizers or standby addresses of a block. If the block's node is gone, also changes
// unreadable and cooling entries.
struct ChangeBlock {
  ipam::BlockView before;
  ipam::Block after;
  std::string gone_node = {};  // not empty: the performer writes only if the API server confirms that this node is gone
};
struct DeleteBlock {
  ipam::BlockView block;
  std::string_view why = "its pool is being deleted";
};
// A held entry to free: its pod is gone, has ended, or lives with other addresses.
struct FreedEntry {
  ipam::BlockOffset offset = 0;
  std::string text = {};  // the entry as it stands in the block
  ipam::HeldEntry entry;
  std::string node;
  bool was_terminal = false;     // the pod ended (Succeeded or Failed), and may still exist
  bool was_replaced = false;     // the pod lives, with other addresses
  bool sandbox_unknown = false;  // the pod is gone, and nobody saw its sandbox end
  bool node_is_gone = false;     // the node is gone, and with it all containers that ran there
};
// Replaces held entries by cooling entries, which tell the node's agent to forget the attachments. The performer first
// asks the API server about each entry's pod, and if the node is gone, also about the node.
struct FreeEntries {
  ipam::BlockView before;
  std::vector<FreedEntry> entries;
};
// Reports freed entries that the node's agent has written again, because the containers still exist. The performer
// sends only an event.
struct ReportInUse {
  ipam::BlockView block;
  std::vector<FreedEntry> entries;
};
// A held entry to write again: a live pod has the address, but no entry records the address any more.
struct LostEntry {
  ipam::Address address;
  ipam::HeldEntry entry;
  std::string node;  // the pod's node
};
// Writes lost entries into a block again. The performer first asks the API server whether each pod still has its
// address.
struct PutBack {
  ipam::BlockView before;
  std::vector<LostEntry> entries;
};
struct CreateAllocation {
  crds::Allocation allocation;
  // An earlier object of this name was deleted. If the garbage collector deleted it, the pod is gone. So the performer
  // first asks the API server for the pod.
  bool is_again = false;
};
struct DeleteAllocation {
  SeenAllocation allocation;
};
// Logs the entries that the controller would free, with their blocks, so that people can check them first. The
// performer sends no request.
struct ReportOrphans {
  std::set<std::pair<std::string, std::string>> entries;
};
// An address that one pod has, although the block's entry names another pod.
struct ContestedAddress {
  std::string block;
  std::string block_uid;
  std::string text;  // for people: which pod has the address, and which pod the entry names
};

// Reports the contested addresses that were not reported before.
struct ReportContested {
  std::vector<ContestedAddress> addresses;  // all that exist
};

// Creates an empty block for a node whose agent did not ask for it, because pods wait that could run there.
struct CreateBlock {
  ipam::Block block;
  std::string why;  // for the log: which pod waits
};
// Address counts that a Node is to show; nothing: the count of this resource is removed.
struct ShowNumbers {
  std::string node;
  std::string resource_version;                                // version of the Node on which the controller decided
  std::map<std::string, std::optional<std::int64_t>> numbers;  // by resource
  // The text of an event: why the Node shows no count any more, or that it shows one. Empty: no event.
  std::string news = {};
  bool is_bad_news = false;
};
// Reads the node's pods with a consistent list, into ControllerState::pods_listed.
struct ListPods {
  std::string node;
};

// Reads the present resourceVersion of the Leases, and stores it in ControllerState::leases.
struct AskLeases {};

using Action = std::variant<CreateSpace, DeleteSpace, SetFinalizers, SetSpaceStatus, SetPoolStatus, ChangeBlock,
                            DeleteBlock, FreeEntries, ReportInUse, PutBack, CreateAllocation, DeleteAllocation,
                            ReportOrphans, ReportContested, CreateBlock, ShowNumbers, ListPods, AskLeases>;

// The object that an action is about, such as "IPPool/web"; for back-off and logs.
using ObjectKey = std::string;
[[nodiscard]] ObjectKey KeyOf(const Action& action);
[[nodiscard]] ObjectKey PoolKey(const std::string& name);
[[nodiscard]] ObjectKey SpaceKey(const std::string& name);
[[nodiscard]] ObjectKey BlockKey(const std::string& name);
[[nodiscard]] ObjectKey NodeKey(const std::string& name);
[[nodiscard]] ObjectKey PodListKey(const std::string& node);
[[nodiscard]] ObjectKey AllocationObjectKey(const AllocationKey& key);
// Back-off key of all writes of IPAllocations.
inline constexpr const char* kAllocationsKey = "IPAllocations";

// Numbers of held entries whose pods may be gone, and the state of the brake (decide_orphans.h).
struct OrphanFindings {
  std::size_t due = 0;                      // entries to free now
  std::map<std::string, std::size_t> kept;  // by reason
  // By pool UID: number of entries whose pods do not exist and whose pods' deletion the controller did not see. Counts
  // only entries of nodes that are not gone and were Ready at some time since the suspicion began.
  std::map<std::string, std::size_t> unseen;
  bool is_braked = false;  // so many entries are in `unseen` that the controller frees no entry
};

struct Decision {
  // In the order in which to perform them. Controller::InOrder puts ShowNumbers first, and moves back actions that have
  // failed before.
  std::vector<Action> actions;
  // Objects about which the controller can decide only on a relisted world (decide.h).
  std::set<ObjectKey> wants_relist;
  OrphanFindings orphans;
  // Contested addresses by pool UID. nullopt: the controller has not compared pods with blocks, or for less than
  // kContestedMin.
  std::optional<std::map<std::string, std::vector<ContestedAddress>>> contested;
  // UIDs of pools with too few blocks for their nodes. nullopt: the controller has not listed all pods, nodes and
  // Leases yet.
  std::optional<std::set<std::string>> scarce;
  // For the extender. Nothing: there is no extender, or pods and nodes are not known yet.
  std::optional<extender::Snapshot> extender_snapshot;
  // When to decide again even if nothing happens.
  std::optional<std::int64_t> wake_unix_ms;
  std::optional<std::chrono::steady_clock::time_point> wake_steady;

  void WakeAt(std::int64_t unix_ms);
  void WakeAt(std::chrono::steady_clock::time_point steady);
};

// Results of the controller's own actions that it cannot read back from the world.
struct ControllerState {
  // Which actions failed, and when they may be tried again.
  Backoff backoff;
  // When counts were last written, by UID of the pool and by name of the space.
  std::map<std::string, std::chrono::steady_clock::time_point> pool_counts_written;
  std::map<std::string, std::chrono::steady_clock::time_point> space_counts_written;
  // By block name: a write that frees entries and whose answer was lost. `after`: the block after the write, but with
  // the resourceVersion before the write. `freed`: the entries that the write frees.
  struct InDoubt {
    ipam::Block after;
    std::vector<FreedEntry> freed;
  };
  std::map<std::string, InDoubt> in_doubt;
  // Entries that the controller freed since the last decision, each with the name of its block.
  std::vector<std::pair<std::string, FreedEntry>> freed;
  // The orphans that ReportOrphans logged last.
  std::set<std::pair<std::string, std::string>> reported;
  // When an event was last written, by UID of the pool and reason.
  std::map<std::pair<std::string, std::string>, std::chrono::steady_clock::time_point> pool_events;
  // Texts of the contested addresses that were reported last.
  std::set<std::string> contested;
  // `version`: the resourceVersion of the Leases at `asked` or later. A Lease with a later version was renewed after
  // `asked`. The versions of other kinds cannot be compared with `version`, because the API server may keep Leases in
  // another etcd.
  struct LeasesAsked {
    SteadyTime asked;
    std::uint64_t version = 0;
  };
  std::optional<LeasesAsked> leases;
  // Until this time the world may show old states of pods, because the watch of pods began at the resourceVersion that
  // the previous leader left.
  SteadyTime pods_are_old_until = SteadyTime::min();
  // The pods of a node from a consistent list, by node; `at`: when the list was requested.
  struct PodsListed {
    SteadyTime at;
    std::vector<SeenPod> pods;
  };
  std::map<std::string, PodsListed> pods_listed;
  // When the address counts of a Node were last written, by node.
  std::map<std::string, SteadyTime> numbers_written;
  NodePatches node_patches;
  // Nodes whose last event said that the Node shows no count, or may have said so before this controller became the
  // leader.
  std::set<std::string> without_numbers;
};

}  // namespace berth::reconciler
