// SPDX-License-Identifier: Apache-2.0
// HandedOut: the note of an address that an agent has answered to an ADD before it wrote the entry (docs/adr/0008), and
// how the agent's successor uses such notes.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "ipam/block.h"

namespace berth::node {

struct HandedOut {
  ipam::Attachment attachment;
  std::string block;
  std::string block_uid;
  ipam::BlockOffset offset = 0;
  std::string entry;

  friend bool operator==(const HandedOut&, const HandedOut&) = default;
};

// Offsets of the noted addresses that belong to this block. Leaves out an address that has an entry, and an address
// whose attachment has an entry in this block.
[[nodiscard]] ipam::OffsetSet HandedOutOf(const ipam::Block& block, const std::vector<HandedOut>& handed_out);

// The text of a note's file. Errors of ParseHandedOut: kDecode.
[[nodiscard]] std::string FormatHandedOut(const HandedOut& handed_out);
[[nodiscard]] Expected<HandedOut> ParseHandedOut(const std::string& text);

}  // namespace berth::node
