// SPDX-License-Identifier: Apache-2.0
// Decision: what is to be done about a world. Values only; perform.h does it.
//
// An action says what an object shall become. The write is a merge patch with the resourceVersion that the object has
// in the world, or a deletion with preconditions: if it has changed meanwhile the answer is 409, and the next round
// decides anew on what came instead.
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
struct Moment {
  std::int64_t unix_ms = 0;                      // for what is recorded or compared with recorded times
  std::chrono::steady_clock::time_point steady;  // for distances
};

// An address range that an IPReservation keeps.
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
struct SetSpaceFinalizers {
  std::string space;
  std::vector<std::string> finalizers;
};
struct SetSpaceStatus {
  crds::Space after;
  bool has_new_counts = false;
};
struct SetPoolFinalizers {
  std::string pool;
  std::vector<std::string> finalizers;
};
struct SetPoolStatus {
  std::string pool;
  crds::PoolStatus status;
  bool has_new_counts = false;
};
// Entries of reservations, finalizers, or what is on standby.
struct ChangeBlock {
  ipam::BlockView before;
  ipam::Block after;
  std::string gone_node = {};  // not empty: only if that node is gone, which is looked at once more before
};
struct DeleteBlock {
  ipam::BlockView block;
  std::string_view why = "its pool is being deleted";
};
// An entry of which the pod is gone.
struct FreedEntry {
  ipam::BlockOffset offset = 0;
  std::string text = {};  // of the entry, as it stands in the block
  ipam::HeldEntry entry;
  std::string node;
  bool was_terminal = false;  // the pod may still be there, Succeeded or Failed
  bool was_replaced = false;  // the pod lives, with other addresses
  bool left_sandbox = false;  // the pod went, and nobody saw its sandbox end
  bool node_is_gone = false;  // and so is whatever ran there
};
// Entries that become cooling ones, which tell the node's agent to forget them. Each pod, or the node that is gone, is
// looked at once more before.
struct FreeEntries {
  ipam::BlockView before;
  std::vector<FreedEntry> entries;
};
// No request: entries that were freed, and that their node's agent has written again, since their containers are still
// there.
struct ReportInUse {
  ipam::BlockView block;
  std::vector<FreedEntry> entries;
};
// Entries of pods that live and have these addresses, which nothing records any more. Each pod is looked at once more
// before.
struct LostEntry {
  ipam::Address address;
  ipam::HeldEntry entry;
  std::string node;  // the pod's
};
struct PutBack {
  ipam::BlockView before;
  std::vector<LostEntry> entries;
};
struct CreateAllocation {
  crds::Allocation allocation;
  // Somebody deleted it: the collector, if the pod is gone, which is asked for once more before.
  bool is_again = false;
};
struct DeleteAllocation {
  SeenAllocation allocation;
};
// No request: what would be freed, block and entry, for those who want to read it first.
struct ReportOrphans {
  std::set<std::pair<std::string, std::string>> entries;
};
// An address that a pod has, and of which the block says that another has it.
struct ContestedAddress {
  std::string block;
  std::string block_uid;
  std::string text;  // for people: who has it, and for whom it is recorded
};

// Tells of those that were not told of before.
struct ReportContested {
  std::vector<ContestedAddress> addresses;  // all there are
};
// No request: after these reservations had been withheld from all pools of the space, every block that existed was
// looked at, and each of their addresses was held or had its entry.
struct ConfirmReserved {
  std::string space;
  std::vector<ReservedRange> reserved;
};

// A block for a node whose agent did not ask for it: pods wait that could run there. It is empty.
struct CreateBlock {
  ipam::Block block;
  std::string why;  // for the log: which pod waits
};
// What a Node shall show of some resources from now on; nothing: no number.
struct ShowNumbers {
  std::string node;
  std::string resource_version;                                // that it was decided on
  std::map<std::string, std::optional<std::int64_t>> numbers;  // by resource
  // Not empty: for an event, why there is no number any more, or that there is one again.
  std::string news = {};
  bool is_bad_news = false;
};
// Reads the node's pods as they are now, into Memory::pods_listed.
struct ListPods {
  std::string node;
};

// Asks at which version the API server's record of Leases is now, into Memory::leases.
struct AskLeases {};

using Action =
    std::variant<CreateSpace, DeleteSpace, SetSpaceFinalizers, SetSpaceStatus, SetPoolFinalizers, SetPoolStatus,
                 ChangeBlock, DeleteBlock, FreeEntries, ReportInUse, PutBack, CreateAllocation, DeleteAllocation,
                 ReportOrphans, ReportContested, ConfirmReserved, CreateBlock, ShowNumbers, ListPods, AskLeases>;

// "IPPool/web": what an action is about, for back-off and logs.
using ObjectKey = std::string;
[[nodiscard]] ObjectKey KeyOf(const Action& action);
[[nodiscard]] ObjectKey PoolKey(const std::string& name);
[[nodiscard]] ObjectKey SpaceKey(const std::string& name);
[[nodiscard]] ObjectKey BlockKey(const std::string& name);
[[nodiscard]] ObjectKey NodeKey(const std::string& name);
[[nodiscard]] ObjectKey AllocationObjectKey(const AllocationKey& key);
// What fails if no IPAllocation, or no Node, can be written at all.
inline constexpr const char* kAllocationsKey = "IPAllocations";
inline constexpr const char* kNodesKey = "Nodes";

// What became of the entries whose pods are not known to live.
struct OrphanFindings {
  std::size_t due = 0;                      // to be freed now
  std::map<std::string, std::size_t> kept;  // by why
  // On nodes that are there, of pods that were not seen to vanish; by UID of the pool.
  std::map<std::string, std::size_t> unseen;
  bool is_braked = false;  // so many that nothing is freed
};

struct Decision {
  std::vector<Action> actions;  // in the order in which they are to be done
  // Objects about which something can only be decided on a world that was just compared with consistent lists.
  std::set<ObjectKey> wants_relist;
  OrphanFindings orphans;
  // By UID of the pool. Nothing: not looked at, or not for long enough to say that there is none.
  std::optional<std::map<std::string, std::vector<ContestedAddress>>> contested;
  // UIDs of pools with too few blocks for their nodes. Nothing: not looked at.
  std::optional<std::set<std::string>> scarce;
  // For the extender. Nothing: there is none, or pods and nodes are not known yet.
  std::optional<extender::Snapshot> rooms;
  // When to decide again even if nothing happens.
  std::optional<std::int64_t> wake_unix_ms;
  std::optional<std::chrono::steady_clock::time_point> wake_steady;

  void WakeAt(std::int64_t unix_ms);
  void WakeAt(std::chrono::steady_clock::time_point steady);
};

// What was done and cannot be read back from the world.
struct Memory {
  // What failed, and when it may be tried again.
  Backoff backoff;
  // When counts were last written, by UID of the pool and by name of the space.
  std::map<std::string, std::chrono::steady_clock::time_point> pool_counts_written;
  std::map<std::string, std::chrono::steady_clock::time_point> space_counts_written;
  // By name of the space.
  std::map<std::string, std::vector<ReservedRange>> confirmed;
  // By block: what was freed if a write landed of which the answer was lost, and the block as it is then, but for its
  // version.
  struct InDoubt {
    ipam::Block after;
    std::vector<FreedEntry> freed;
  };
  std::map<std::string, InDoubt> in_doubt;
  // Entries that were freed since the last decision, each with the name of its block.
  std::vector<std::pair<std::string, FreedEntry>> freed;
  // What was last said that would be freed.
  std::set<std::pair<std::string, std::string>> reported;
  // When an event was last told, by UID of the pool and reason.
  std::map<std::pair<std::string, std::string>, std::chrono::steady_clock::time_point> pool_events;
  // The texts of the contested addresses that were told of last.
  std::set<std::string> contested;
  // A Lease with a later version than this was renewed after `asked`. Versions of other kinds are not comparable: the
  // API server may keep Leases in an etcd of their own.
  struct LeasesAsked {
    SteadyTime asked;
    std::uint64_t version = 0;
  };
  std::optional<LeasesAsked> leases;
  // By node: its pods, as a consistent list said; `at`: when the list was asked for.
  struct PodsListed {
    SteadyTime at;
    std::vector<SeenPod> pods;
  };
  std::map<std::string, PodsListed> pods_listed;
  // By node: when its numbers were last written.
  std::map<std::string, SteadyTime> numbers_written;
  // Nodes of which an event said that they show no number.
  std::set<std::string> without_numbers;
};

}  // namespace berth::reconciler
