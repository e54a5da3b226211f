// SPDX-License-Identifier: Apache-2.0
// IPBlocks: a block that ParseBlock understands can be written, and the written text is understood as the same block.
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
    // The CRD's schema limits the length of an entry, so berth never writes such an entry.
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
