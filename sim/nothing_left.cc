// SPDX-License-Identifier: Apache-2.0
// Rules `lost` and `left`: at rest, the held entries are exactly those of the addresses that ADDs returned.
#include <algorithm>

#include "reconciler/suspects.h"
#include "sim/checkers.h"

namespace berth::sim {
namespace {

class NothingLeft final : public Checker {
 public:
  explicit NothingLeft(Story& story) : story_(story) {}

  void Leaving(const ipam::Attachment& attachment) override { told_.Forget(attachment); }
  void Ended(const Heard& call) override { told_.Ended(call); }
  void AtRest(const std::vector<nlohmann::json>& blocks) override {
    std::map<ipam::Attachment, Addresses> recorded;
    for (const nlohmann::json& block : blocks) {
      for (const auto& [attachment, address] : told_.Recorded(block)) {
        // The controller put this entry back before the kubelet could report that the pod has another address by now.
        // The entry stays until the pod is gone (rule `dead-freed`).
        if (attachment.starts_with(reconciler::kNoNetwork)) continue;
        Addresses& others = recorded[attachment];
        const auto is_like = [&](const std::string& other) { return IsIpv6(other) == IsIpv6(address); };
        if (std::ranges::any_of(others, is_like)) story_.Break("left", attachment + " has two entries");
        others.insert(address);
        const auto told = told_.addresses().find(attachment);
        if (told == told_.addresses().end()) {
          story_.Break("left", attachment + " is recorded at " + address + ", and nobody has it");
        } else if (!told->second.contains(address)) {
          story_.Break("lost", attachment + " is recorded at " + address + ", and was told " + ToText(told->second));
        }
      }
    }
    for (const auto& [attachment, addresses] : told_.addresses()) {
      for (const std::string& address : addresses) {
        if (recorded[attachment].contains(address)) continue;
        story_.Break("lost", attachment + " has " + address + ", and no entry says so");
      }
    }
  }

 private:
  Story& story_;
  Told told_;
};

}  // namespace

std::unique_ptr<Checker> MakeNothingLeft(Story& story) { return std::make_unique<NothingLeft>(story); }

}  // namespace berth::sim
