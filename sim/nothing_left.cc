// SPDX-License-Identifier: Apache-2.0
// At rest the record is what callers were told, no more and no less (invariants 2, 4 and 6 of docs/simulation.md).
#include <charconv>

#include "ipam/prefix.h"
#include "sim/checkers.h"

namespace berth::sim {
namespace {

class NothingLeft final : public Checker {
 public:
  explicit NothingLeft(Story& story) : story_(story) {}

  void Leaving(const ipam::Attachment& attachment) override { told_.Leaving(attachment); }
  void Ended(const Heard& call) override { told_.Ended(call); }
  void AtRest(const std::vector<nlohmann::json>& blocks) override {
    std::map<ipam::Attachment, std::string> recorded;
    for (const nlohmann::json& block : blocks) {
      for (const auto& [attachment, address] : Recorded(block)) {
        const bool is_new = recorded.emplace(attachment, address).second;
        if (!is_new) story_.Break("left", attachment + " has two entries");
        const auto told = told_.addresses().find(attachment);
        if (told == told_.addresses().end()) {
          story_.Break("left", attachment + " is recorded at " + address + ", and nobody has it");
        } else if (told->second != address) {
          story_.Break("lost", attachment + " is recorded at " + address + ", and was told " + told->second);
        }
      }
    }
    for (const auto& [attachment, address] : told_.addresses()) {
      if (!recorded.contains(attachment))
        story_.Break("lost", attachment + " has " + address + ", and no entry says so");
    }
  }

 private:
  Story& story_;
  Told told_;
};

}  // namespace

std::multimap<ipam::Attachment, std::string> Recorded(const nlohmann::json& block) {
  std::multimap<ipam::Attachment, std::string> recorded;
  const auto cidr = ipam::Prefix::Parse(block["spec"]["cidr"].get<std::string>());
  const nlohmann::json allocations = block.value("allocations", nlohmann::json::object());
  for (const auto& [offset, entry] : allocations.items()) {
    std::uint32_t number = 0;
    std::from_chars(offset.data(), offset.data() + offset.size(), number);
    const std::string_view attachment = ipam::AttachmentOf(entry.get_ref<const std::string&>());
    if (!attachment.empty()) recorded.emplace(attachment, cidr->At(number).ToString());
  }
  return recorded;
}

std::unique_ptr<Checker> MakeNothingLeft(Story& story) { return std::make_unique<NothingLeft>(story); }

}  // namespace berth::sim
