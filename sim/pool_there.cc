// SPDX-License-Identifier: Apache-2.0
// Rule `pool-gone`: no ADD returns an address of a block that was created after its pool was gone. Another pool may
// have the range by then, with blocks of another size.
#include <algorithm>

#include "sim/checkers.h"

namespace berth::sim {
namespace {

class PoolThere final : public Checker {
 public:
  explicit PoolThere(Story& story) : story_(story) {}

  void PoolStored(const nlohmann::json& before, const nlohmann::json& after) override {
    if (after.is_null()) pools_.erase(before["metadata"]["uid"].get<std::string>());
    if (before.is_null()) pools_.insert(after["metadata"]["uid"].get<std::string>());
  }
  void Stored(const nlohmann::json& before, const nlohmann::json& after) override {
    const std::string uid = (after.is_null() ? before : after)["metadata"]["uid"];
    if (after.is_null()) {
      blocks_.erase(uid);
      return;
    }
    const bool is_new = before.is_null() && !pools_.contains(after["spec"]["poolUID"].get<std::string>());
    if (!is_new && !blocks_.contains(uid)) return;
    blocks_[uid] = told_.Recorded(after);
    for (const auto& [attachment, addresses] : told_.addresses()) Check(attachment, addresses);
  }
  void Leaving(const ipam::Attachment& attachment) override { told_.Forget(attachment); }
  void Ended(const Heard& call) override {
    told_.Ended(call);
    if (call.verb == "ADD") Check(call.attachment, call.addresses);
  }

 private:
  void Check(const ipam::Attachment& attachment, const Addresses& addresses) {
    for (const auto& [uid, recorded] : blocks_) {
      const auto [first, last] = recorded.equal_range(attachment);
      const auto found = std::find_if(first, last, [&](const auto& entry) { return addresses.contains(entry.second); });
      if (found == last) continue;
      story_.Break("pool-gone", attachment + " has " + found->second + " of a block created after its pool was gone");
    }
  }

  Story& story_;
  Told told_;
  std::set<std::string> pools_;  // by UID
  // Blocks that were created after their pools were gone, by UID, and what they record.
  std::map<std::string, RecordedAddresses> blocks_;
};

}  // namespace

std::unique_ptr<Checker> MakePoolThere(Story& story) { return std::make_unique<PoolThere>(story); }

}  // namespace berth::sim
