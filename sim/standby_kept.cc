// SPDX-License-Identifier: Apache-2.0
// What a node's agent has on standby, nobody else gives away: the agent may have handed it out already.
#include <string>

#include "reconciler/suspects.h"
#include "sim/checkers.h"

namespace berth::sim {
namespace {

class StandbyKept final : public Checker {
 public:
  explicit StandbyKept(Story& story) : story_(story) {}

  void Stored(const nlohmann::json& before, const nlohmann::json& after) override {
    if (before.is_null() || after.is_null() || !before.contains("standby")) return;
    for (const nlohmann::json& offset : before["standby"]) {
      const auto entry = after["allocations"].find(offset.dump());
      if (entry == after["allocations"].end()) continue;
      // Those that are put back name no network.
      const ipam::Attachment attachment(ipam::AttachmentOf(entry->get_ref<const std::string&>()));
      if (!attachment.starts_with(reconciler::kNoNetwork)) continue;
      story_.Break("standby", "an entry was put back where the agent has an address on standby: " + entry->dump());
    }
  }

 private:
  Story& story_;
};

}  // namespace

std::unique_ptr<Checker> MakeStandbyKept(Story& story) { return std::make_unique<StandbyKept>(story); }

}  // namespace berth::sim
