// SPDX-License-Identifier: Apache-2.0
// Rule `block-limit`: a node that knows all its blocks creates no more blocks of a pool than the pool's
// `maxBlocksPerNode`.
#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include <spdlog/fmt/fmt.h>

#include "sim/checkers.h"

namespace berth::sim {
namespace {

class BlockLimit final : public Checker {
 public:
  explicit BlockLimit(Story& story) : story_(story) {}

  void MayLoseBlocks(bool may) override { may_lose_ = may; }
  void PoolStored(const nlohmann::json& /*before*/, const nlohmann::json& after) override {
    if (after.is_null()) return;
    limits_[after["metadata"]["uid"]] = after["spec"].value("maxBlocksPerNode", std::int64_t{0});
  }
  void Stored(const nlohmann::json& before, const nlohmann::json& after) override {
    const nlohmann::json& block = after.is_null() ? before : after;
    const std::string uid = block["metadata"]["uid"];
    // No pod gets an address of a block that is being deleted.
    if (after.is_null() || after["metadata"].contains("deletionTimestamp")) {
      blocks_.erase(uid);
      return;
    }
    const Owner owner(block["spec"].value("node", ""), block["spec"]["poolUID"]);
    if (owner.first.empty() || !blocks_.try_emplace(uid, owner).second) return;
    const auto limit = limits_.find(owner.second);
    if (limit == limits_.end() || limit->second == 0) return;
    const auto count = std::ranges::count(blocks_, owner, &std::pair<const std::string, Owner>::second);
    if (count <= limit->second || may_lose_) return;
    story_.Break("block-limit",
                 fmt::format("{} has {} blocks of a pool that allows {}: {} is one more",
                             owner.first,
                             count,
                             limit->second,
                             block["metadata"]["name"].get<std::string>()));
  }

 private:
  using Owner = std::pair<std::string, std::string>;  // a node, and a pool's UID

  Story& story_;
  bool may_lose_ = false;
  std::map<std::string, std::int64_t> limits_;  // by the pool's UID; 0: none
  std::map<std::string, Owner> blocks_;         // by UID
};

}  // namespace

std::unique_ptr<Checker> MakeBlockLimit(Story& story) { return std::make_unique<BlockLimit>(story); }

}  // namespace berth::sim
