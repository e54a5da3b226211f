// SPDX-License-Identifier: Apache-2.0
// Rule `live-freed`: no address of a live container is freed.
#include <charconv>
#include <string>
#include <string_view>

#include "ipam/prefix.h"
#include "sim/checkers.h"

namespace berth::sim {
namespace {

// The entry of the address; empty: the block has none, or does not exist.
std::string EntryAt(const nlohmann::json& block, const ipam::Prefix& cidr, const std::string& address) {
  if (block.is_null()) return {};
  const std::string space = SpaceOf(block);
  const nlohmann::json allocations = block.value("allocations", nlohmann::json::object());
  for (const auto& [offset, entry] : allocations.items()) {
    std::uint32_t number = 0;
    std::from_chars(offset.data(), offset.data() + offset.size(), number);
    if (InSpace(cidr.At(number).ToString(), space) == address) return entry;
  }
  return {};
}

// The controller has freed the attachment's entry, and the cooling entry contains it, so that the node's agent can
// write it again.
bool IsMarkFor(const std::string& entry, const ipam::Attachment& attachment) {
  const auto freed = ipam::FreedUnder(entry);
  return freed && freed->entry.attachment == attachment;
}

class NothingLiveFreed final : public Checker {
 public:
  explicit NothingLiveFreed(Story& story) : story_(story) {}

  void MayBeFreed(const ipam::Attachment& attachment) override {
    told_.Forget(attachment);
    hanging_.erase(attachment);
  }
  void Ended(const Heard& call) override { told_.Ended(call); }
  void Hangs(const ipam::Attachment& attachment) override {
    const auto told = told_.addresses().find(attachment);
    if (told == told_.addresses().end()) return;
    hanging_.insert_or_assign(attachment, told->second);
    told_.Forget(attachment);
  }
  void Stored(const nlohmann::json& before, const nlohmann::json& after) override {
    if (before.is_null()) return;
    const auto left = after.is_null() ? RecordedAddresses() : told_.Recorded(after);
    for (const auto& [attachment, address] : told_.Recorded(before)) {
      if (!told_.Has(attachment, address) || left.contains(attachment)) continue;
      story_.Break("live-freed", "the entry of " + attachment + " at " + address + " is gone, and it lives");
    }
    CheckHanging(before, after);
  }

 private:
  // The entries of a container that hangs stay, or cooling entries contain them, and the block stays.
  void CheckHanging(const nlohmann::json& before, const nlohmann::json& after) {
    if (hanging_.empty()) return;
    const auto cidr = ipam::Prefix::Parse(before["spec"]["cidr"].get<std::string>());
    const auto is_kept = [](const std::string& entry, const ipam::Attachment& attachment) {
      return ipam::AttachmentOf(entry) == attachment || IsMarkFor(entry, attachment);
    };
    for (const auto& [attachment, addresses] : hanging_) {
      for (const std::string& address : addresses) {
        if (!is_kept(EntryAt(before, *cidr, address), attachment)) continue;
        const std::string now = EntryAt(after, *cidr, address);
        if (is_kept(now, attachment)) continue;
        story_.Break("live-freed", attachment + " hangs and has " + address + ", where there is now: \"" + now + "\"");
      }
    }
  }

  Story& story_;
  Told told_;
  std::map<ipam::Attachment, Addresses> hanging_;
};

}  // namespace

std::unique_ptr<Checker> MakeNothingLiveFreed(Story& story) { return std::make_unique<NothingLiveFreed>(story); }

}  // namespace berth::sim
