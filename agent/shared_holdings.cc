// SPDX-License-Identifier: Apache-2.0
// Takes the attachments of this node from a list of Shared blocks.
#include "agent/shared_holdings.h"

#include <string_view>
#include <utility>
#include <variant>

#include "base/mutex.h"

namespace berth::agent {

void SharedHoldings::Note(std::uint64_t writes, const std::string& node, std::span<const ipam::BlockView> blocks) {
  std::set<ipam::Attachment> attachments;
  for (const ipam::BlockView& block : blocks) {
    for (const auto& [offset, text] : block->allocations) {
      const std::string_view attachment = ipam::AttachmentOf(text);
      if (attachment.empty()) continue;
      const ipam::Entry entry = ipam::ParseEntry(text);
      const auto* held = std::get_if<ipam::HeldEntry>(&entry);
      const bool is_others = held != nullptr && !held->node.empty() && held->node != node;
      if (!is_others) attachments.emplace(attachment);
    }
  }
  const Lock lock(mutex_);
  noted_at_ = writes;
  attachments_ = std::move(attachments);
}

bool SharedHoldings::HasNone(const ipam::Attachment& attachment) const {
  const Lock lock(mutex_);
  return noted_at_ == writes_ && !attachments_.contains(attachment);
}

}  // namespace berth::agent
