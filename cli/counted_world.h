// SPDX-License-Identifier: Apache-2.0
// CountedWorld: the objects of the cluster from which the controller counts addresses, read once. Counting counts the
// addresses of these objects with the controller's code (docs/scheduling.md).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "ipam/label_selector.h"
#include "k8sclient/api.h"
#include "reconciler/census.h"
#include "reconciler/counts.h"
#include "reconciler/held_entries.h"
#include "reconciler/placement.h"
#include "reconciler/world.h"

namespace berth::cli {

// The data of the pod in question that reconciler::World does not keep.
struct AskedPod {
  reconciler::Placement placement = {};
  std::string scheduler_says = {};  // message of the condition PodScheduled if it is False; otherwise empty
  ipam::Labels namespace_labels = {};
};

struct CountedWorld {
  std::int64_t now_ms = 0;  // UNIX time, by the API server's clock
  reconciler::World world = {};
  std::optional<AskedPod> asked = {};  // nullopt: the call named no pod, or the pod does not exist
  std::vector<Error> unreadable = {};  // errors of objects that cannot be parsed
};

// Counts a CountedWorld with the controller's code. Refers to the CountedWorld, which must not change, and must outlive
// the Counting.
class Counting {
 public:
  explicit Counting(const CountedWorld& read);

  // The node's blocks of the pool, without blocks that cannot be parsed, but with blocks that are being deleted. Empty
  // `node`: Shared blocks.
  [[nodiscard]] const std::vector<const ipam::Block*>& BlocksOf(const std::string& node,
                                                                const std::string& pool_uid) const;

  std::map<std::string, reconciler::CountedPool> accepted;  // by the pool's UID
  reconciler::Census census;                                // counts of the accepted pools
  reconciler::CountedPools pools;
  reconciler::HeldEntries held;
  reconciler::Counts counts;

 private:
  std::map<std::pair<std::string, std::string>, std::vector<const ipam::Block*>> blocks_of_;
};

// Lists pools, spaces, blocks, pods and nodes with consistent lists. `pod`: "<namespace>/<name>" of the pod in
// question; empty: none. Errors: those of k8sclient::ListEach and Get; kForbidden names the missing right.
[[nodiscard]] Expected<CountedWorld> ReadCountedWorld(k8sclient::Api& server, const std::string& pod);

}  // namespace berth::cli
