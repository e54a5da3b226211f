// SPDX-License-Identifier: Apache-2.0
// Rule `withheld`: no container takes a reserved address, and no new container gets an address that was withheld for a
// while.
#include <string>
#include <variant>

#include "reconciler/suspects.h"
#include "sim/checkers.h"

namespace berth::sim {
namespace {

class WithheldKept final : public Checker {
 public:
  explicit WithheldKept(Story& story) : story_(story) {}

  void Stored(const nlohmann::json& before, const nlohmann::json& after) override {
    if (before.is_null() || after.is_null()) return;
    for (const auto& [offset, entry] : before["allocations"].items()) {
      const auto was = ipam::ParseEntry(entry.get_ref<const std::string&>());
      const auto now = after["allocations"].find(offset);
      if (!std::holds_alternative<ipam::ReservedEntry>(was) || now == after["allocations"].end()) continue;
      // An agent writes the entry of a container again that had the address before, and the controller puts the entry
      // of a pod back whose status has the address.
      const ipam::Attachment attachment(ipam::AttachmentOf(now->get_ref<const std::string&>()));
      const bool is_put_back = attachment.starts_with(reconciler::kNoNetwork);
      if (attachment.empty() || is_put_back || told_.contains(attachment)) continue;
      story_.Break("withheld", "a reserved address was taken: " + now->dump());
    }
  }
  void Ended(const Heard& call) override {
    if (call.verb != "ADD" || call.addresses.empty() || !told_.insert(call.attachment).second) return;
    for (const std::string& address : call.addresses) {
      if (!withheld_.contains(address)) continue;
      story_.Break("withheld", call.attachment + " was told " + address + ", which is withheld");
    }
  }
  void Withheld(const std::set<std::string>& addresses) override { withheld_ = addresses; }

 private:
  Story& story_;
  std::set<ipam::Attachment> told_;
  std::set<std::string> withheld_;
};

}  // namespace

std::unique_ptr<Checker> MakeWithheldKept(Story& story) { return std::make_unique<WithheldKept>(story); }

}  // namespace berth::sim
