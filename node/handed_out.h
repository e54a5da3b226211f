// SPDX-License-Identifier: Apache-2.0
// HandedOut: an address that an agent told an ADD before it wrote the entry (docs/adr/0008), and what its successor
// makes of it.
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

// Offsets of those that are this block's and have no entry there.
[[nodiscard]] ipam::OffsetSet HandedOutOf(const ipam::Block& block, const std::vector<HandedOut>& handed_out);

// For a file of its own. Errors of Parse: kDecode.
[[nodiscard]] std::string FormatHandedOut(const HandedOut& handed_out);
[[nodiscard]] Expected<HandedOut> ParseHandedOut(const std::string& text);

}  // namespace berth::node
