// SPDX-License-Identifier: Apache-2.0
// The text of a note, and the offsets of notes in a block.
#include "node/handed_out.h"

#include <nlohmann/json.hpp>

namespace berth::node {

using nlohmann::json;

ipam::OffsetSet HandedOutOf(const ipam::Block& block, const std::vector<HandedOut>& handed_out) {
  ipam::OffsetSet offsets;
  for (const HandedOut& one : handed_out) {
    const bool is_here = one.block_uid == block.uid && one.offset < block.size();
    if (is_here && !block.allocations.contains(one.offset) && !ipam::Find(block, one.attachment)) {
      offsets.insert(one.offset);
    }
  }
  return offsets;
}

std::string FormatHandedOut(const HandedOut& handed_out) {
  const json document = {{"attachment", handed_out.attachment},
                         {"block", handed_out.block},
                         {"uid", handed_out.block_uid},
                         {"offset", handed_out.offset},
                         {"entry", handed_out.entry}};
  return document.dump(-1, ' ', false, json::error_handler_t::replace);
}

Expected<HandedOut> ParseHandedOut(const std::string& text) {
  const json document = json::parse(text, nullptr, /*allow_exceptions=*/false);
  const auto has = [&](const char* key, bool (json::*is_type)() const noexcept) {
    return document.contains(key) && (document[key].*is_type)();
  };
  const bool is_whole = document.is_object() && has("attachment", &json::is_string) && has("block", &json::is_string) &&
                        has("uid", &json::is_string) && has("offset", &json::is_number_unsigned) &&
                        has("entry", &json::is_string);
  if (!is_whole) return Fail(ErrorCode::kDecode, "is not a note about an address");
  return HandedOut{.attachment = document["attachment"].get<std::string>(),
                   .block = document["block"].get<std::string>(),
                   .block_uid = document["uid"].get<std::string>(),
                   .offset = document["offset"].get<ipam::BlockOffset>(),
                   .entry = document["entry"].get<std::string>()};
}

}  // namespace berth::node
