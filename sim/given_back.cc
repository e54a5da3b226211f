// SPDX-License-Identifier: Apache-2.0
// Rule `given-back`: when a controller deletes a block, the block has no held entry and no address on standby.
#include <algorithm>
#include <string_view>
#include <variant>

#include "sim/checkers.h"

namespace berth::sim {
namespace {

class GivenBack final : public Checker {
 public:
  explicit GivenBack(Story& story) : story_(story) {}

  void Stored(const nlohmann::json& before, const nlohmann::json& after) override {
    // Only programs use the network. People and the other actors change the store directly.
    constexpr std::string_view kNetwork = "network";
    if (before.is_null() || before["metadata"].contains("deletionTimestamp") || CurrentProcess()->name != kNetwork)
      return;
    if (!after.is_null() && !after["metadata"].contains("deletionTimestamp")) return;
    const bool is_held = std::ranges::any_of(before["allocations"], [](const nlohmann::json& text) {
      const auto entry = ipam::ParseEntry(text.get_ref<const std::string&>());
      return std::holds_alternative<ipam::HeldEntry>(entry) || std::holds_alternative<ipam::OpaqueEntry>(entry);
    });
    if (!is_held && before.value("standby", nlohmann::json::array()).empty()) return;
    story_.Break("given-back", "a block in use was deleted: " + before.dump());
  }

 private:
  Story& story_;
};

}  // namespace

std::unique_ptr<Checker> MakeGivenBack(Story& story) { return std::make_unique<GivenBack>(story); }

}  // namespace berth::sim
