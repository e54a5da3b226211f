// SPDX-License-Identifier: Apache-2.0
// Inventory: everything that berthctl knows about a cluster, read once. show, check and release decide from it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "crds/allocation.h"
#include "crds/pool.h"
#include "ipam/block.h"
#include "ipam/entry.h"
#include "ipam/pool.h"
#include "k8sclient/api.h"

namespace berth::cli {

struct Pod {
  std::string name_space = {};
  std::string name = {};
  std::string uid = {};
  std::string config_hash = {};  // of a mirror pod: the UID that the runtime got; empty: not a mirror pod
  std::string node = {};
  std::string phase = {};
  bool host_network = false;
  std::vector<ipam::Address> addresses = {};

  // True: all containers of the pod have ended, and none will start again.
  [[nodiscard]] bool ended() const { return phase == "Succeeded" || phase == "Failed"; }
};

// Namespace and name.
using PodName = std::pair<std::string, std::string>;

struct SeenPool {
  ipam::Pool pool = {};
  crds::PoolStatus status = {};
};

struct Inventory {
  std::int64_t now_ms = 0;  // UNIX time, by the API server's clock
  std::vector<SeenPool> pools = {};
  std::set<std::string> unreadable_pools = {};  // UIDs of pools that cannot be parsed, so they are not in `pools`
  std::vector<ipam::Block> blocks = {};
  std::vector<crds::Allocation> allocations = {};
  std::map<PodName, Pod> pods = {};
  std::set<std::string> nodes = {};
  std::vector<Error> unreadable = {};  // errors of objects that cannot be parsed

  // nullptr: not found.
  [[nodiscard]] const SeenPool* FindPool(const std::string& uid) const;
  [[nodiscard]] const Pod* FindPod(const std::string& name_space, const std::string& name) const;
};

// An address with an entry.
struct Use {
  const ipam::Block* block = nullptr;
  ipam::BlockOffset offset = 0;
  ipam::Entry entry = {};

  [[nodiscard]] ipam::Address address() const { return block->cidr.At(offset); }
  // nullptr: not held, or an entry that this version cannot parse.
  [[nodiscard]] const ipam::HeldEntry* held() const { return std::get_if<ipam::HeldEntry>(&entry); }
  [[nodiscard]] const std::string& node() const;
};

// All entries, in the order of the blocks. They refer to the inventory, which must outlive them.
[[nodiscard]] std::vector<Use> UsesOf(const Inventory& inventory);

// True: the entry belongs to this pod, and not to an earlier pod with the same name. An entry without UID belongs to
// each pod with its name.
[[nodiscard]] bool IsOf(const ipam::HeldEntry& entry, const Pod& pod);

// The part of a Pod object that berthctl needs.
[[nodiscard]] Pod ParsePod(const nlohmann::json& object);

// Reads pools, blocks and IPAllocations, and if `with_pods` also pods and nodes. If `with_pods`, also reads
// IPReservations, but keeps only the errors of those that cannot be parsed (in `unreadable`).
// Errors: those of k8sclient::ListEach; kForbidden names the missing right.
[[nodiscard]] Expected<Inventory> ReadInventory(k8sclient::Api& server, bool with_pods);

}  // namespace berth::cli
