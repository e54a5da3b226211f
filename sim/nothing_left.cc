// SPDX-License-Identifier: Apache-2.0
// At rest the record is what callers were told, no more and no less.
#include <algorithm>
#include <charconv>

#include "ipam/prefix.h"
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
    std::map<ipam::Attachment, std::string> recorded;
    for (const nlohmann::json& block : blocks) {
      for (const auto& [attachment, address] : told_.Recorded(block)) {
        // Put back while the pod's kubelet could not say that it has another by now: it goes with the pod (dead-freed).
        if (attachment.starts_with(reconciler::kNoNetwork)) continue;
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

std::multimap<ipam::Attachment, std::string> Told::Recorded(const nlohmann::json& block) const {
  std::multimap<ipam::Attachment, std::string> recorded;
  const auto cidr = ipam::Prefix::Parse(block["spec"]["cidr"].get<std::string>());
  const nlohmann::json allocations = block.value("allocations", nlohmann::json::object());
  for (const auto& [offset, entry] : allocations.items()) {
    std::uint32_t number = 0;
    std::from_chars(offset.data(), offset.data() + offset.size(), number);
    ipam::Attachment attachment(ipam::AttachmentOf(entry.get_ref<const std::string&>()));
    if (attachment.empty()) continue;
    const std::string address = cidr->At(number).ToString();
    const auto has_it = [&address](const auto& told) { return told.second == address; };
    const auto holder = std::ranges::find_if(addresses_, has_it);
    if (attachment.starts_with(reconciler::kNoNetwork) && holder != addresses_.end()) attachment = holder->first;
    recorded.emplace(attachment, address);
  }
  return recorded;
}

std::unique_ptr<Checker> MakeNothingLeft(Story& story) { return std::make_unique<NothingLeft>(story); }

}  // namespace berth::sim
