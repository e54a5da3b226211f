// SPDX-License-Identifier: Apache-2.0
// No address of a live container is freed.
#include "sim/checkers.h"

namespace berth::sim {
namespace {

class NothingLiveFreed final : public Checker {
 public:
  explicit NothingLiveFreed(Story& story) : story_(story) {}

  void Leaving(const ipam::Attachment& attachment) override { told_.Leaving(attachment); }
  void Ended(const Heard& call) override { told_.Ended(call); }
  // That nobody else gets the address meanwhile is for one-holder to say.
  void Hangs(const ipam::Attachment& attachment) override { told_.Leaving(attachment); }
  void Stored(const nlohmann::json& before, const nlohmann::json& after) override {
    if (before.is_null()) return;
    const auto left = after.is_null() ? std::multimap<ipam::Attachment, std::string>() : told_.Recorded(after);
    for (const auto& [attachment, address] : told_.Recorded(before)) {
      const auto told = told_.addresses().find(attachment);
      if (told == told_.addresses().end() || told->second != address || left.contains(attachment)) continue;
      story_.Break("live-freed", "the entry of " + attachment + " at " + address + " is gone, and it lives");
    }
  }

 private:
  Story& story_;
  Told told_;
};

}  // namespace

std::unique_ptr<Checker> MakeNothingLiveFreed(Story& story) { return std::make_unique<NothingLiveFreed>(story); }

}  // namespace berth::sim
