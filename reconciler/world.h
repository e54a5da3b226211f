// SPDX-License-Identifier: Apache-2.0
// World: what the controller has seen of pools, spaces, reservations and blocks, and of the pods and nodes that hold
// addresses. The snapshot that decisions are made on.
//
// It may be stale, and its kinds need not be of one moment: every write that is decided on it carries the
// resourceVersion seen here, and what staleness could make unsafe is decided only on a world that was compared with
// consistent lists just before (relist.h). Owned and changed by the controller's thread alone.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "crds/object_meta.h"
#include "crds/pool.h"
#include "crds/space.h"
#include "ipam/block.h"
#include "ipam/pool.h"
#include "reconciler/allocations.h"
#include "reconciler/nodes.h"
#include "reconciler/pods.h"

namespace berth::reconciler {

// The object as it was read: a status patch starts from it, so that fields this version does not know survive.
using ObjectView = std::shared_ptr<const nlohmann::json>;

struct SeenPool {
  crds::ObjectMeta meta;
  std::string created;             // metadata.creationTimestamp
  std::optional<ipam::Pool> pool;  // unset: spec or status cannot be read, see problem
  std::string problem;
  crds::PoolStatus status;
  ObjectView object;

  [[nodiscard]] bool IsReady() const;
};

// A space that cannot be understood has no document. It is left alone, and so are the pools that are in it.
[[nodiscard]] inline bool IsUnreadable(const crds::Space& space) { return space.document == nullptr; }

// nullptr if the space has not accepted a pool with that UID.
[[nodiscard]] const crds::AcceptedPool* FindAccepted(const crds::Space& space, const std::string& pool_uid);

struct SeenReservation {
  std::string name;
  std::string space;  // also of one that cannot be read
  // Empty and a problem: it cannot be read, so what it kept before stays kept.
  std::vector<ipam::AddressRange> addresses = {};
  std::optional<std::int64_t> expires_ms = {};  // UNIX time
  std::string problem = {};

  [[nodiscard]] bool IsExpired(std::int64_t now_ms) const { return expires_ms && *expires_ms <= now_ms; }
};

// What the entries of one block come to, counted once when it is seen.
struct EntryCounts {
  std::uint32_t held = 0;  // what cannot be parsed included
  std::uint32_t reserved = 0;
  std::uint32_t cooling = 0;
  // Without entry; the node's agent may have given them to somebody already (docs/adr/0008).
  std::uint32_t standby = 0;
  // Cooling ones of which the node's agent has not said that their containers are gone (ipam::FreedUnder): it takes
  // them out when they are over.
  std::uint32_t unlooked = 0;

  // Whether somebody has an address here, or may have.
  [[nodiscard]] bool IsInUse() const { return held > 0 || standby > 0 || unlooked > 0; }
};
[[nodiscard]] EntryCounts CountEntries(const ipam::Block& block);

struct SeenBlock {
  std::string name;
  std::string uid;
  std::string resource_version;
  std::string space;
  ipam::Prefix cidr;
  std::string pool_uid;   // empty: unknown
  ipam::BlockView block;  // null: it cannot be read, so it counts as in use
  std::string problem;
  EntryCounts entries;
  bool is_own_write = false;  // it is as this controller wrote it, and nothing else has come of it yet

  // The time at which the last of its cooling entries is over; 0: none cools.
  [[nodiscard]] std::int64_t CoolsUntil(std::int64_t now_ms) const;
  // Whether nobody has an address here and nobody may still want one: entries of reservations and cooling ones that are
  // over do not count.
  [[nodiscard]] bool IsEmpty(std::int64_t now_ms) const { return !entries.IsInUse() && CoolsUntil(now_ms) <= now_ms; }
  // Whether it belongs to the pool; one of unknown owner belongs to every pool it lies in.
  [[nodiscard]] bool MayBelongTo(const std::string& of_pool_uid, const std::string& of_space,
                                 const ipam::Prefix& subnet) const;
};

class World {
 public:
  std::map<std::string, SeenPool> pools;
  std::map<std::string, crds::Space> spaces;
  std::map<std::string, SeenReservation> reservations;
  Pods pods;
  Nodes nodes;
  // Pods, nodes and their Leases were listed: who is not there is not there.
  bool knows_holders = false;
  Allocations allocations;
  bool knows_allocations = false;  // they were listed

  [[nodiscard]] const std::map<std::string, SeenBlock>& blocks() const { return blocks_; }
  void PutBlock(SeenBlock block);
  void RemoveBlock(const std::string& name);

  // Grows whenever a block appears or goes, and not when only entries change.
  [[nodiscard]] std::uint64_t block_set_version() const { return block_set_version_; }

  // nullptr if no pool has that UID. A pool that is being deleted is found too.
  [[nodiscard]] const SeenPool* FindPoolByUid(const std::string& uid) const;

 private:
  std::map<std::string, SeenBlock> blocks_;
  std::uint64_t block_set_version_ = 1;
};

}  // namespace berth::reconciler
