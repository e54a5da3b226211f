// SPDX-License-Identifier: Apache-2.0
// CountedWorld: what the controller counts addresses on, read once, and its own counting of that (docs/scheduling.md).
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

// What the world does not keep of the pod that somebody asks about.
struct AskedPod {
  reconciler::Placement placement = {};
  std::string scheduler_says = {};  // message of its condition PodScheduled if that is False; empty: nothing
  ipam::Labels namespace_labels = {};
};

struct CountedWorld {
  std::int64_t now_ms = 0;  // UNIX time, by the API server's clock
  reconciler::World world = {};
  std::optional<AskedPod> asked = {};  // nothing: no pod was asked for, or it does not exist
  std::vector<Error> unreadable = {};  // objects that are not what they should be
};

// The counting of such a world. It points into the world, which must not change and must live as long.
class Counting {
 public:
  explicit Counting(const CountedWorld& read);

  // Readable blocks of a pool, also those that are being deleted. node: empty for Shared ones.
  [[nodiscard]] const std::vector<const ipam::Block*>& BlocksOf(const std::string& node,
                                                                const std::string& pool_uid) const;

  std::map<std::string, reconciler::CountedPool> accepted;  // by UID
  reconciler::Census census;                                // of these
  reconciler::CountedPools pools;
  reconciler::HeldEntries held;
  reconciler::Counts counts;

 private:
  std::map<std::pair<std::string, std::string>, std::vector<const ipam::Block*>> blocks_of_;
};

// Lists pools, spaces, blocks, pods and nodes consistently. `pod`: "<namespace>/<name>" of the one that is asked for;
// empty: none. Errors: those of k8sclient::ListEach and Get; kForbidden names the right that is missing.
[[nodiscard]] Expected<CountedWorld> ReadCountedWorld(k8sclient::Api& server, const std::string& pod);

}  // namespace berth::cli
