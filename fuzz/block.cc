// SPDX-License-Identifier: Apache-2.0
// IPBlocks: what is understood can be written, and is then understood as the same.
#include "crds/block.h"

#include <nlohmann/json.hpp>

#include "base/check.h"
#include "fuzz/target.h"
#include "ipam/entry.h"

namespace berth::fuzz {

void RunBlock(std::string_view bytes) {
  const auto object = nlohmann::json::parse(bytes, nullptr, /*allow_exceptions=*/false);
  if (object.is_discarded()) return;
  const auto block = crds::ParseBlock(object);
  if (!block) return;
  for (const auto& [offset, entry] : block->allocations) {
    static_cast<void>(ipam::CoolingUntil(entry, 0).has_value());
    static_cast<void>(ipam::AttachmentOf(entry).size());
    // The schema bounds entries, and what is written keeps the bound.
    if (entry.empty() || entry.size() > ipam::kEntryLengthMax) return;
  }
  nlohmann::json written = crds::BlockToJson(*block);
  written["metadata"]["uid"] = block->uid;
  written["metadata"]["resourceVersion"] = block->resource_version;
  if (block->deleting) written["metadata"]["deletionTimestamp"] = object["metadata"]["deletionTimestamp"];
  auto again = crds::ParseBlock(written);
  BERTH_CHECK(again.has_value());
  again->has_managed_fields = block->has_managed_fields;
  BERTH_CHECK(*again == *block);
}

}  // namespace berth::fuzz
