// SPDX-License-Identifier: Apache-2.0
// Counts under random changes: kept counts equal new counts, no Node shows less than its pods request, and all Nodes
// together promise no more than is free.
#include <cstdint>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "ipam/seeded.h"
#include "reconciler/counts_world_test_setup.h"

namespace berth::reconciler {
namespace {

// A world of two families, with a Shared pool beside, that changes at random.
class RandomCounts {
 public:
  explicit RandomCounts(ipam::SeededRandom& random) : random_(random) {
    PutPool("v4", "10.55.0.0/24", 29);
    PutPool("v6", "2001:db8::/120", 126);
    world_.Pool("shared", SpecOf({{"affinity", "Shared"}}));
    for (const BlockPlace& place : kPlaces) world_.Block(place.cidr, {}, {.node = place.node}, place.pool);
  }

  void ChangeOne() {
    switch (random_.Below(8)) {
      case 0:
      case 1:
        return PutPod();
      case 2:
        world_.Remove(NameOfPod());
        return;
      case 3:
        if (random_.OneIn(2)) return PutPool("v4", "10.55.0.0/24", 29);
        return PutPool("v6", "2001:db8::/120", 126);
      default:
        return PutBlock();
    }
  }

  // Checks the counts after a change.
  void Check() {
    world_.Update();
    ASSERT_EQ(world_.counts().all(), world_.Anew());
    std::map<std::string, std::int64_t> left;  // by resource: what further pods may request of all nodes
    for (const auto& [node, tallies] : world_.counts().all()) {
      for (const auto& [resource, tally] : tallies) {
        const auto number = tally.Number();
        if (!number) continue;
        ASSERT_GE(*number, tally.requested) << node << " " << resource;
        left[resource] += *number - tally.requested;
      }
    }
    for (const auto& [resource, count] : left) ASSERT_LE(count, FreeOf(resource)) << resource;
  }

 private:
  struct BlockPlace {
    const char* cidr;
    const char* node;  // empty: of a Shared pool
    const char* pool;
    int size;
  };
  static constexpr BlockPlace kPlaces[] = {{"10.55.0.0/29", "n1", "v4", 8},
                                           {"10.55.0.8/29", "n2", "v4", 8},
                                           {"10.55.0.16/29", "n1", "v4", 8},
                                           {"2001:db8::/126", "n1", "v6", 4},
                                           {"2001:db8::4/126", "n2", "v6", 4},
                                           {"10.66.0.0/29", "", "shared", 8}};

  std::string NameOfPod() { return "p" + std::to_string(random_.Below(12)); }
  std::string UidOf(const std::string& pod) { return "uid-of-" + pod + std::to_string(random_.Below(2)); }

  void PutPool(const std::string& name, const char* subnet, int block_size) {
    json spec = {{"subnet", subnet}, {"blockSize", block_size}, {"allowEdgeAddresses", true}};
    if (random_.OneIn(4)) spec["disabled"] = true;
    const bool is_ready = !random_.OneIn(6);
    is_counted_[name] = is_ready && !spec.contains("disabled");
    world_.Pool(name, spec, is_ready);
  }

  void PutPod() {
    const std::string name = NameOfPod();
    std::vector<UnitRequest> requests;
    for (const char* resource : {"ipv4", "ipv6"}) {
      if (random_.OneIn(2)) requests.push_back({resource, 1 + static_cast<std::int64_t>(random_.Below(3))});
    }
    world_.Pod({.name = name,
                .uid = UidOf(name),
                .node = random_.OneIn(5) ? "" : NodeName(),
                .is_terminal = random_.OneIn(6),
                .requests = requests});
  }
  std::string NodeName() { return random_.OneIn(2) ? "n1" : "n2"; }

  void PutBlock() {
    const BlockPlace& place = kPlaces[random_.Below(std::size(kPlaces))];
    const bool is_shared = place.node[0] == 0;
    std::map<ipam::BlockOffset, std::string> entries;
    for (int offset = 0; offset < place.size; ++offset) {
      const std::string pod = NameOfPod();
      std::string& entry = entries[static_cast<ipam::BlockOffset>(offset)];
      switch (random_.Below(8)) {
        case 0:
          entry = kCooling;
          break;
        case 1:
          entry = kCooled;
          break;
        case 2:
          entry = "! printers";
          break;
        case 3:
        case 4:
          entry = EntryOf(pod, UidOf(pod), is_shared ? NodeName() : "");
          break;
        default:
          entries.erase(static_cast<ipam::BlockOffset>(offset));
      }
    }
    const BlockTraits traits = {.is_deleting = random_.OneIn(6), .node = place.node};
    std::int64_t& free = free_[place.cidr];
    free = place.size;
    for (const auto& [offset, entry] : entries) free -= entry == kCooled ? 0 : 1;
    if (traits.is_deleting || is_shared) free = 0;
    world_.Block(place.cidr, std::move(entries), traits, place.pool);
  }

  // Returns what a pod may get that the scheduler places by an address count.
  [[nodiscard]] std::int64_t FreeOf(const std::string& resource) const {
    std::int64_t free = 0;
    for (const BlockPlace& place : kPlaces) {
      const std::string pool = place.pool;
      if (pool == "shared" || (pool == "v4") != (resource == "ipv4") || !is_counted_.at(pool)) continue;
      const auto found = free_.find(place.cidr);
      free += found == free_.end() ? place.size : found->second;
    }
    return free;
  }

  ipam::SeededRandom& random_;
  CountsWorld world_;
  std::map<std::string, bool> is_counted_;    // by pool
  std::map<std::string, std::int64_t> free_;  // by block; a block that never changed has no entries
};

void ChangeAtRandom(ipam::SeededRandom& random) {
  RandomCounts counts(random);
  for (int step = 0; step < 300 && !testing::Test::HasFatalFailure(); ++step) {
    SCOPED_TRACE("step " + std::to_string(step));
    counts.ChangeOne();
    counts.Check();
  }
}

TEST(Counts, AreTheSameAsCountedFromScratchAfterRandomChanges) {
  ipam::ForSeeds(4, [](ipam::SeededRandom& random) { ChangeAtRandom(random); });
}

}  // namespace
}  // namespace berth::reconciler
