// SPDX-License-Identifier: Apache-2.0
// World: what the controller has seen of pools, spaces, reservations and blocks, and of the pods and nodes that hold
// addresses. Decisions are made on this snapshot.
//
// The world may be outdated, and its kinds may show different moments. So every write contains the resourceVersion that
// the world shows. A decision that an outdated world could make unsafe is made only on a world that was just compared
// with consistent lists (relist.h). Only the controller's thread owns and changes the world.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/resource_version.h"
#include "crds/object_meta.h"
#include "crds/pool.h"
#include "crds/space.h"
#include "ipam/block.h"
#include "ipam/pool.h"
#include "reconciler/allocations.h"
#include "reconciler/nodes.h"
#include "reconciler/pods.h"

namespace berth::reconciler {

// The object as it was read. A status patch starts from it, so that fields which this version of berth does not know
// survive.
using ObjectView = std::shared_ptr<const nlohmann::json>;

struct SeenPool {
  crds::ObjectMeta meta;
  std::string created;             // metadata.creationTimestamp
  std::optional<ipam::Pool> pool;  // nothing: the pool cannot be read, see `problem`
  std::string problem;
  crds::PoolStatus status;
  ObjectView object;

  [[nodiscard]] bool IsReady() const;
};

// A space that cannot be read has no document. The controller leaves the space and its pools alone.
[[nodiscard]] inline bool IsUnreadable(const crds::Space& space) { return space.document == nullptr; }

// nullptr if the space has not accepted a pool with that UID.
[[nodiscard]] const crds::AcceptedPool* FindAccepted(const crds::Space& space, const std::string& pool_uid);

struct SeenReservation {
  std::string name;
  std::string space;  // set even if the reservation cannot be read
  // If the reservation cannot be read, this is empty and `problem` is set; all withheld addresses of the space stay
  // withheld.
  std::vector<ipam::AddressRange> addresses = {};
  std::optional<std::int64_t> expires_ms = {};  // UNIX time in ms
  std::string problem = {};

  [[nodiscard]] bool IsExpired(std::int64_t now_ms) const { return expires_ms && *expires_ms <= now_ms; }
};

// The numbers of a block's entries, counted once when the block is seen.
struct EntryCounts {
  std::uint32_t held = 0;  // including entries that cannot be read
  std::uint32_t reserved = 0;
  std::uint32_t cooling = 0;
  // Addresses on standby without an entry; the node's agent may have given them to pods already (docs/adr/0008).
  std::uint32_t standby = 0;
  // Cooling entries that contain a freed entry, because the node's agent has not checked yet whether the freed entry's
  // network namespace still exists (ipam::FreedUnder). The agent removes these entries when their time is over.
  std::uint32_t unchecked = 0;

  // True if a pod has or may have an address of the block.
  [[nodiscard]] bool IsInUse() const { return held > 0 || standby > 0 || unchecked > 0; }
};
[[nodiscard]] EntryCounts CountEntries(const ipam::Block& block);

struct SeenBlock {
  std::string name;
  std::string uid;
  std::string resource_version;
  std::string space;
  ipam::Prefix cidr;
  std::string pool_uid;   // empty: unknown
  ipam::BlockView block;  // nullptr: the block cannot be read, so it counts as in use
  std::string problem;
  EntryCounts entries;
  bool is_own_write = false;  // the controller itself wrote this version of the block

  // UNIX time (ms) at which the block's last cooling entry ends; 0: no entry cools.
  [[nodiscard]] std::int64_t CoolsUntil(std::int64_t now_ms) const;
  // True if the block is not in use and no entry cools any more. Reserved entries, and cooling entries that are over,
  // do not count.
  [[nodiscard]] bool IsEmpty(std::int64_t now_ms) const { return !entries.IsInUse() && CoolsUntil(now_ms) <= now_ms; }
  // True if the block belongs to the pool. If the block's pool is unknown, the block may belong to every pool that it
  // overlaps.
  [[nodiscard]] bool MayBelongTo(const std::string& of_pool_uid, const std::string& of_space,
                                 const ipam::Prefix& subnet) const;
};

// The key by which the world knows the object.
inline const std::string& NameOf(const SeenPool& pool) { return pool.meta.name; }
inline const std::string& NameOf(const crds::Space& space) { return space.meta.name; }
inline const std::string& NameOf(const SeenReservation& reservation) { return reservation.name; }
inline const std::string& NameOf(const SeenBlock& block) { return block.name; }
inline PodKey NameOf(const SeenPod& pod) { return NamespacedName(pod.name_space, pod.name); }
inline const std::string& NameOf(const SeenNode& node) { return node.name; }
inline AllocationKey NameOf(const SeenAllocation& one) { return NamespacedName(one.name_space, one.name); }
inline const std::string& NameOf(const SeenLease& lease) { return lease.node; }

// The resourceVersion as a number. 0 for reservations, pods, Leases and IPAllocations: the mailbox applies each event
// of these kinds, and does not compare versions (Mailbox::FetchInto).
inline std::uint64_t VersionOf(const SeenPool& pool) { return ParseVersion(pool.meta.resource_version); }
inline std::uint64_t VersionOf(const crds::Space& space) { return ParseVersion(space.meta.resource_version); }
inline std::uint64_t VersionOf(const SeenBlock& block) { return ParseVersion(block.resource_version); }
inline std::uint64_t VersionOf(const SeenNode& node) { return ParseVersion(node.resource_version); }
template <typename Seen>
std::uint64_t VersionOf(const Seen& /*object*/) {
  return 0;
}

class World {
 public:
  std::map<std::string, SeenPool> pools;
  std::map<std::string, crds::Space> spaces;
  std::map<std::string, SeenReservation> reservations;
  Pods pods;
  Nodes nodes;
  // Pods, nodes and their Leases were listed: an object of these kinds that is not in the world does not exist.
  bool knows_holders = false;
  Allocations allocations;
  bool knows_allocations = false;  // IPAllocations were listed

  [[nodiscard]] const std::map<std::string, SeenBlock>& blocks() const { return blocks_; }
  void PutBlock(SeenBlock block);
  void RemoveBlock(const std::string& name);

  // Grows when a block is added or removed, but not when only entries change.
  [[nodiscard]] std::uint64_t block_set_version() const { return block_set_version_; }

  // nullptr if no pool has that UID. A pool that is being deleted is found too.
  [[nodiscard]] const SeenPool* FindPoolByUid(const std::string& uid) const;

 private:
  std::map<std::string, SeenBlock> blocks_;
  std::uint64_t block_set_version_ = 1;
};

}  // namespace berth::reconciler
