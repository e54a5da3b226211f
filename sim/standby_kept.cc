// SPDX-License-Identifier: Apache-2.0
// Rule `standby`: only programs of the node use addresses that the node's agent has on standby, because the agent may
// have given them to pods already.
#include <algorithm>
#include <string>

#include "sim/checkers.h"

namespace berth::sim {
namespace {

class StandbyKept final : public Checker {
 public:
  explicit StandbyKept(Story& story) : story_(story) {}

  void StoredBy(const std::string& sender, const nlohmann::json& before, const nlohmann::json& after) override {
    if (before.is_null() || after.is_null() || !before.contains("standby")) return;
    // This rule ignores people (no sender) and the block's own node. Other rules check two machines with one node name.
    if (sender.empty() || sender == "node " + before["spec"].value("node", "")) return;
    const nlohmann::json left = after.value("standby", nlohmann::json::array());
    for (const nlohmann::json& offset : before["standby"]) {
      const auto entry = after["allocations"].find(offset.dump());
      const bool is_written = entry != after["allocations"].end() && !before["allocations"].contains(offset.dump());
      if (is_written) {
        story_.Break("standby", sender + " wrote where an agent has an address on standby: " + entry->dump());
      } else if (std::ranges::find(left, offset) == left.end()) {
        story_.Break("standby", sender + " took an address off an agent's standby: " + offset.dump());
      }
    }
  }

 private:
  Story& story_;
};

}  // namespace

std::unique_ptr<Checker> MakeStandbyKept(Story& story) { return std::make_unique<StandbyKept>(story); }

}  // namespace berth::sim
