// SPDX-License-Identifier: Apache-2.0
// Two controllers that both believe that they lead, late watches, lost answers and late commits, while users and nodes
// act, also between any two requests of a pass. Whatever happens: no address is held twice, no answered address is
// lost, and no two conflicting pools are accepted; and in the end everything is as it should be.
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "crds/block.h"
#include "ipam/seeded.h"
#include "k8sclient/verbs.h"
#include "reconciler/controller_test_setup.h"
#include "reconciler/withheld.h"

namespace berth::reconciler {
namespace {

using k8sclient::testing::ApiFault;
using k8sclient::testing::ModelApi;

struct Leader {
  Leader(ModelApi& api, k8sclient::Clock& local) : clock(local), controller(api, clock, mailbox, metrics) {}
  k8sclient::ServerClock clock;
  Mailbox mailbox;
  Metrics metrics;
  Controller controller;
};

// An address that a node has written into a block. A pod has the address once the ADD is answered.
struct Taken {
  std::string block;
  ipam::Address address;
  std::string pool;
  std::string pool_uid;
};

class Storm {
 public:
  explicit Storm(ipam::SeededRandom& random) : random_(random) {
    spdlog::set_level(spdlog::level::off);
    leaders_.push_back(std::make_unique<Leader>(api_, clock_));
    leaders_.push_back(std::make_unique<Leader>(api_, clock_));
    api_.SetFaults([this](const k8sclient::Request&) { return BeforeRequest(); });
  }

  void Run(int steps) {
    for (int i = 0; i < steps && !testing::Test::HasFailure(); ++i) {
      if (Below(3) == 0) {
        Lead();
      } else {
        Act();
      }
      CheckAlways();
    }
  }

  // All ADDs finish, and the controllers come to rest.
  void Calm() {
    is_calm_ = true;
    while (!claims_.empty()) Verify(claims_.begin()->first);
    api_.ReleaseLateWrites();
    for (int pass = 0; pass < 40; ++pass) {
      for (const auto& leader : leaders_) {
        DeliverAll(api_, leader->mailbox);
        static_cast<void>(leader->controller.RunPass({}));
      }
      clock_.Advance(std::chrono::seconds(12));
      CheckAlways();
    }
  }

  // Requires: the storm is over.
  void CheckFinally() {
    World world;
    Mailbox mailbox;
    DeliverAll(api_, mailbox);
    mailbox.FetchInto(world, {});
    for (const auto& [name, pool] : world.pools) CheckPool(world, pool);
    for (const auto& [name, block] : world.blocks()) CheckBlock(world, block);
  }

 private:
  [[nodiscard]] unsigned Below(unsigned bound) { return static_cast<unsigned>(random_.Below(bound)); }

  template <typename Map>
  auto Any(Map& map) {
    auto at = map.begin();
    std::advance(at, Below(static_cast<unsigned>(map.size())));
    return at;
  }

  ApiFault BeforeRequest() {
    if (is_calm_ || is_acting_) return ApiFault::kNone;
    while (Below(2) == 0) Act();
    switch (Below(20)) {
      case 0:
        return ApiFault::kUnavailable;
      case 1:
        return ApiFault::kLostAfterCommit;
      case 2:
        return ApiFault::kLateCommit;
      default:
        return ApiFault::kNone;
    }
  }

  void Lead() {
    Leader& leader = *leaders_[Below(2)];
    const unsigned news = Below(16);
    if ((news & 1U) != 0) leader.mailbox.Replace(ViewOf<SeenPool>(api_, crds::kPoolsPath, ReadPool));
    if ((news & 2U) != 0) leader.mailbox.Replace(ViewOf<crds::Space>(api_, crds::kSpacesPath, ReadSpace));
    if ((news & 4U) != 0) {
      leader.mailbox.Replace(ViewOf<SeenReservation>(api_, crds::kReservationsPath, ReadReservation));
    }
    if ((news & 8U) != 0) leader.mailbox.Replace(ViewOf<SeenBlock>(api_, crds::kBlocksPath, ReadBlock));
    static_cast<void>(leader.controller.RunPass({}));
  }

  // One step of a user or a node.
  void Act() {
    is_acting_ = true;
    const unsigned choice = Below(40);
    if (choice < 3) {
      CreatePool();
    } else if (choice < 5) {
      if (Below(2) == 0) DeleteAny(crds::kPoolsPath);
    } else if (choice < 7) {
      CreateReservation();
    } else if (choice < 9) {
      DeleteAny(crds::kReservationsPath);
    } else if (choice < 11) {
      DeleteAny(Below(4) == 0 ? crds::kSpacesPath : crds::kBlocksPath);
    } else if (choice < 17) {
      Claim();
    } else if (choice < 22) {
      if (!claims_.empty()) Verify(Any(claims_)->first);
    } else if (choice < 26) {
      Take();
    } else if (choice < 31) {
      if (!answered_.empty()) Release(Any(answered_)->first);
    } else if (choice < 35) {
      pools_seen_ = ViewOf<SeenPool>(api_, crds::kPoolsPath, ReadPool);
    } else {
      clock_.Advance(std::chrono::milliseconds(Below(3000)));
      if (Below(4) == 0) api_.ReleaseLateWrites();
    }
    is_acting_ = false;
  }

  void CreatePool() {
    static const std::vector<std::string> kSubnets = {
        "10.55.0.0/25", "10.55.0.0/24", "10.55.0.64/26", "10.55.0.16/28", "10.66.0.0/24"};
    const std::string name = "p" + std::to_string(Below(4));
    for (const json& object : api_.Objects(std::string(crds::kPoolsPath))) {
      if (object["metadata"]["name"] == name) return;
    }
    json spec = {{"subnet", kSubnets[Below(5)]}, {"blockSize", 28 + Below(2)}};
    if (Below(4) == 0)
      spec["gateway"] = spec["subnet"].get<std::string>().starts_with("10.55") ? "10.55.0.20" : "10.66.0.1";
    if (Below(6) == 0) spec["disabled"] = true;
    const json metadata = {{"name", name}, {"generation", 1}};
    api_.Put(std::string(crds::kPoolsPath), {{"metadata", metadata}, {"spec", spec}});
  }

  void CreateReservation() {
    const std::string first = "10.55.0." + std::to_string(Below(64));
    json spec = {{"addresses", {first, "10.55.0.64-10.55.0." + std::to_string(64 + Below(30))}}};
    if (Below(3) == 0) {
      const auto wall = clock_.WallNow().time_since_epoch() + std::chrono::seconds(Below(20));
      const auto end = std::chrono::duration_cast<std::chrono::milliseconds>(wall).count();
      spec["expires"] = FormatTimestamp(end);
    }
    api_.Put(std::string(crds::kReservationsPath),
             {{"metadata", {{"name", "r" + std::to_string(Below(3))}}}, {"spec", spec}});
  }

  void DeleteAny(std::string_view collection) {
    const std::vector<json> objects = api_.Objects(std::string(collection));
    if (objects.empty()) return;
    const std::string name = objects[Below(static_cast<unsigned>(objects.size()))]["metadata"]["name"];
    static_cast<void>(k8sclient::Delete(api_, k8sclient::ObjectPath(collection, name), {}, {}));
  }

  ipam::HeldEntry NewEntry() {
    const std::string digits = std::to_string(100'000 + ++attachments_);
    return {.pod_namespace = "default",
            .pod = "web",
            .uid = "u",
            .attachment = "0123456789ab-0000000000" + digits,
            .interface = "eth0",
            .since_ms = 1,
            .node = "",
            .cooldown_s = 0,
            .has_shared_sibling = false,
            .unknown = {}};
  }

  // A node whose view of the pools is old claims a block. The ADD is not answered yet.
  void Claim() {
    std::map<std::string, SeenPool> ready = pools_seen_;
    std::erase_if(ready, [](const auto& item) { return !item.second.IsReady() || item.second.meta.deleting(); });
    if (ready.empty()) return;
    const SeenPool& seen = Any(ready)->second;
    const ipam::PoolBlocks blocks(*seen.pool);
    if (blocks.Count() == 0) return;
    ipam::Block block = ipam::NewBlock(*seen.pool, blocks.At(Below(static_cast<unsigned>(blocks.Count()))), "n1");
    const ipam::HeldEntry entry = NewEntry();
    const auto address = ipam::Take(block, *seen.pool, entry, std::nullopt, NowMs());
    if (!address) return;
    const auto created = k8sclient::Create(api_, std::string(crds::kBlocksPath), crds::BlockToJson(block), {});
    if (!created) return;
    claims_.emplace(entry.attachment,
                    Taken{.block = block.name, .address = *address, .pool = block.pool, .pool_uid = block.pool_uid});
  }

  // The node reads the pool before a claimed block gives its first answer.
  void Verify(std::string attachment) {  // NOLINT(performance-unnecessary-value-param): it is erased below
    const Taken taken = claims_.at(attachment);
    claims_.erase(attachment);
    const auto read = k8sclient::Get(api_, k8sclient::ObjectPath(crds::kPoolsPath, taken.pool), {});
    if (read) {
      const SeenPool pool = ReadPool(*read).value();
      pools_seen_.insert_or_assign(taken.pool, pool);
      const bool is_usable = pool.meta.uid == taken.pool_uid && pool.IsReady() && !pool.meta.deleting();
      if (is_usable && ipam::Assignable(*pool.pool).Contains(taken.address)) {
        Answer(attachment, taken);
        return;
      }
    } else if (read.error().code == ErrorCode::kNotFound) {
      // The node's list of pools is older than this answer: what the list says about that name no longer holds.
      pools_seen_.erase(taken.pool);
    }
    RemoveEntry(taken.block, attachment);
  }

  // A node whose view of the pools is old takes an address of a block that exists.
  void Take() {
    auto blocks = ViewOf<SeenBlock>(api_, crds::kBlocksPath, ReadBlock);
    if (blocks.empty() || pools_seen_.empty()) return;
    const SeenBlock& seen = Any(blocks)->second;
    const auto pool = pools_seen_.find(seen.block->pool);
    if (pool == pools_seen_.end() || !pool->second.IsReady() || pool->second.meta.uid != seen.pool_uid) return;
    ipam::Block block = *seen.block;
    // A block gives no address while its claim is not verified.
    for (const auto& [attachment, claim] : claims_) {
      if (claim.block == block.name) return;
    }
    const ipam::HeldEntry entry = NewEntry();
    const auto address = ipam::Take(block, *pool->second.pool, entry, std::nullopt, NowMs());
    if (!address) return;
    if (!Patch(*seen.block, block)) return;
    Answer(entry.attachment,
           Taken{.block = block.name, .address = *address, .pool = block.pool, .pool_uid = block.pool_uid});
  }

  void Answer(const std::string& attachment, const Taken& taken) {
    for (const auto& [other, has] : answered_) {
      EXPECT_NE(has.address, taken.address) << taken.address.ToString() << " has two holders";
    }
    answered_.emplace(attachment, taken);
  }

  void Release(std::string attachment) {  // NOLINT(performance-unnecessary-value-param): it is erased below
    RemoveEntry(answered_.at(attachment).block, attachment);
    answered_.erase(attachment);
  }

  void RemoveEntry(const std::string& name, const std::string& attachment) {
    const auto read = k8sclient::Get(api_, k8sclient::ObjectPath(crds::kBlocksPath, name), {});
    ASSERT_TRUE(read.has_value()) << "block " << name << " went with an entry in it";
    const ipam::Block before = crds::ParseBlock(*read).value();
    ipam::Block after = before;
    ASSERT_TRUE(ipam::Release(after, attachment, NowMs())) << attachment << " is lost";
    ASSERT_TRUE(Patch(before, after));
  }

  bool Patch(const ipam::Block& before, const ipam::Block& after) {
    const json patch = crds::BlockMergePatch(before, after);
    return k8sclient::MergePatch(api_, k8sclient::ObjectPath(crds::kBlocksPath, before.name), patch, {}).has_value();
  }

  std::int64_t NowMs() {
    return std::chrono::duration_cast<std::chrono::milliseconds>(clock_.WallNow().time_since_epoch()).count();
  }

  void CheckAlways() {
    const auto blocks = ViewOf<SeenBlock>(api_, crds::kBlocksPath, ReadBlock);
    const auto pools = ViewOf<SeenPool>(api_, crds::kPoolsPath, ReadPool);
    for (const auto& [attachment, taken] : answered_) {
      const auto found = blocks.find(taken.block);
      ASSERT_TRUE(found != blocks.end()) << "block " << taken.block << " went with " << attachment << " in it";
      ASSERT_TRUE(ipam::Find(*found->second.block, attachment)) << attachment << " is lost from " << taken.block;
      ASSERT_TRUE(pools.contains(taken.pool) && pools.at(taken.pool).meta.uid == taken.pool_uid)
          << "pool " << taken.pool << " went while " << attachment << " had an address of it";
    }
    const auto spaces = ViewOf<crds::Space>(api_, crds::kSpacesPath, ReadSpace);
    for (const auto& [name, space] : spaces) {
      for (const crds::AcceptedPool& a : space.accepted) {
        for (const crds::AcceptedPool& b : space.accepted) {
          ASSERT_FALSE(a.subnet.Overlaps(b.subnet) && a.block_length != b.block_length)
              << a.pool << " and " << b.pool << " are both accepted";
        }
      }
    }
  }

  static void CheckPool(const World& world, const SeenPool& pool) {
    SCOPED_TRACE("pool " + pool.meta.name);
    std::size_t held = 0;
    bool has_reason = !ipam::Validate(*pool.pool).has_value();
    const crds::Space* space = world.spaces.contains("default") ? &world.spaces.at("default") : nullptr;
    for (const auto& [name, block] : world.blocks()) {
      if (block.pool_uid == pool.meta.uid) held += block.entries.held;
      has_reason =
          has_reason || (block.cidr.length() != pool.pool->BlockLength() && block.cidr.Overlaps(pool.pool->subnet));
    }
    EXPECT_TRUE(!pool.meta.deleting() || held > 0) << "deleted and empty, but still there";
    const bool is_accepted = space != nullptr && FindAccepted(*space, pool.meta.uid) != nullptr;
    EXPECT_EQ(pool.IsReady(), is_accepted && !pool.meta.deleting() && !pool.pool->disabled);
    if (is_accepted) {
      EXPECT_EQ(pool.status.used, held);
      return;
    }
    if (space == nullptr) return;
    for (const crds::AcceptedPool& entry : space->accepted) {
      has_reason =
          has_reason || (entry.block_length != pool.pool->BlockLength() && entry.subnet.Overlaps(pool.pool->subnet));
    }
    EXPECT_TRUE(has_reason || pool.meta.deleting()) << "refused for no reason";
  }

  void CheckBlock(const World& world, const SeenBlock& block) {
    SCOPED_TRACE("block " + block.name);
    const SeenPool* pool = world.FindPoolByUid(block.pool_uid);
    if (block.block->deleting || pool == nullptr || pool->meta.deleting()) {
      EXPECT_GT(block.entries.held, 0U) << "empty, and still there";
      return;
    }
    const std::vector<ReservedRange> reserved = ReservedRanges(world, "default", NowMs());
    for (ipam::BlockOffset offset = 0; offset < block.block->size(); ++offset) {
      const auto entry = block.block->allocations.find(offset);
      const std::string text = entry == block.block->allocations.end() ? "" : entry->second;
      bool is_kept = false;
      bool is_keeper = false;
      for (const ReservedRange& item : reserved) {
        if (!item.range.Contains(block.cidr.At(offset))) continue;
        is_kept = true;
        is_keeper = is_keeper || text == "! " + item.reservation;
      }
      EXPECT_TRUE(!is_kept || !text.empty()) << "offset " << offset << " is reserved, and free";
      EXPECT_TRUE(!text.starts_with("! ") || is_keeper) << "offset " << offset << " has " << text;
    }
  }

  ipam::SeededRandom& random_;
  ModelApi api_;
  k8sclient::testing::FakeClock clock_;
  std::vector<std::unique_ptr<Leader>> leaders_;
  std::map<std::string, SeenPool> pools_seen_;  // as the nodes know them
  std::map<std::string, Taken> claims_;         // by attachment: in a block, but the ADD is not answered
  std::map<std::string, Taken> answered_;       // by attachment
  int attachments_ = 0;
  bool is_acting_ = false;
  bool is_calm_ = false;
};

TEST(ControllerStorm, KeepsTheAddressesOfLivePodsAndFreesAllOthers) {
  ipam::ForSeeds(4, [](ipam::SeededRandom& random) {
    Storm storm(random);
    storm.Run(600);
    storm.Calm();
    storm.CheckFinally();
  });
}

}  // namespace
}  // namespace berth::reconciler
