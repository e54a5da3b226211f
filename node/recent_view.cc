// SPDX-License-Identifier: Apache-2.0
// Reads and writes files of objects, each with the time at which the objects were read.
#include "node/recent_view.h"

#include <algorithm>
#include <memory>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/resource_version.h"
#include "crds/block.h"
#include "crds/object_meta.h"
#include "crds/pool.h"
#include "k8sclient/text_at.h"

namespace berth::node {

using ipam::BlockView;
using nlohmann::json;

namespace {

constexpr const char* kNote = "recent-blocks";
constexpr const char* kPoolsNote = "recent-pools";
constexpr const char* kProvedNote = "blocks-with-pools";
// The file keeps proofs for the last 256 blocks (NotePoolProved). For any other block a process reads the pool once
// more.
constexpr std::size_t kProvedMax = 256;

json ToObject(const ipam::Block& block) {
  json object = crds::BlockToJson(block);
  json& metadata = object["metadata"];
  metadata["uid"] = block.uid;
  metadata["resourceVersion"] = block.resource_version;
  if (block.has_managed_fields) metadata["managedFields"] = {{{"operation", "Update"}}};
  return object;
}

// A proof in the file: the block's UID, and the pool's resourceVersion.
constexpr const char* kProofBlock = "block";
constexpr const char* kProofPool = "poolVersion";

struct Record {
  BootNanos at = 0;
  json objects;
};

// The objects in the file. Nothing if the file is missing, is older than `max`, or is from another boot or API server.
std::optional<Record> Load(const NodeDirectory& directory, const char* name, std::chrono::nanoseconds max) {
  const auto text = directory.ReadNote(name);
  if (!text) return std::nullopt;
  json record = json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (!record.is_object() || !record.contains("at") || !record["at"].is_number_integer()) return std::nullopt;
  if (!record.contains("server") || record["server"] != directory.server()) return std::nullopt;
  if (!record.contains("objects") || !record["objects"].is_array()) return std::nullopt;
  const BootNanos at = record["at"].get<BootNanos>();
  const BootNanos age = BootTimeNow() - at;
  if (age < 0 || age > max.count()) return std::nullopt;
  return Record{.at = at, .objects = std::move(record["objects"])};
}

void Write(const NodeDirectory& directory, const char* name, BootNanos at, json objects) {
  directory.WriteNote(name, json{{"server", directory.server()}, {"at", at}, {"objects", std::move(objects)}}.dump());
}

}  // namespace

std::optional<std::vector<ipam::PoolView>> RecentView::Pools(std::span<const std::string> names) const {
  if (!is_kept_) return std::nullopt;
  const auto record = Load(directory_, kPoolsNote, limits_.pools);
  if (!record) return std::nullopt;
  std::vector<ipam::PoolView> pools;
  for (const std::string& name : names) {
    const auto found =
        std::ranges::find_if(record->objects, [&name](const json& object) { return crds::NameOf(object) == name; });
    if (found == record->objects.end()) return std::nullopt;
    auto pool = crds::ParsePool(*found);
    if (!pool) return std::nullopt;
    pools.push_back(std::make_shared<const ipam::Pool>(*std::move(pool)));
  }
  return pools;
}

void RecentView::NotePools(const std::vector<json>& objects, BootNanos at) const {
  if (is_kept_) Write(directory_, kPoolsNote, at, objects);
}

bool RecentView::IsPoolProved(const std::string& block_uid, const ipam::Pool& pool) const {
  const auto record = is_kept_ ? Load(directory_, kProvedNote, std::chrono::nanoseconds::max()) : std::nullopt;
  return record && std::ranges::any_of(record->objects, [&](const json& proof) {
           return k8sclient::TextAt(proof, kProofBlock) == block_uid &&
                  !IsOlder(pool.resource_version, k8sclient::TextAt(proof, kProofPool));
         });
}

void RecentView::NotePoolProved(const std::string& block_uid, const ipam::Pool& pool) const {
  if (!is_kept_) return;
  const auto record = Load(directory_, kProvedNote, std::chrono::nanoseconds::max());
  json proofs = record ? record->objects : json::array();
  for (std::size_t i = proofs.size(); i-- > 0;) {
    if (k8sclient::TextAt(proofs[i], kProofBlock) == block_uid) proofs.erase(i);
  }
  if (proofs.size() >= kProvedMax) proofs.erase(0);
  proofs.push_back({{kProofBlock, block_uid}, {kProofPool, pool.resource_version}});
  Write(directory_, kProvedNote, BootTimeNow(), std::move(proofs));
}

std::optional<std::vector<BlockView>> RecentView::Take() {
  if (std::exchange(was_taken_, true) || !is_kept_) return std::nullopt;
  const auto record = Load(directory_, kNote, limits_.blocks);
  if (!record) return std::nullopt;
  std::vector<BlockView> blocks;
  for (const json& object : record->objects) {
    auto block = crds::ParseBlock(object);
    if (!block) return std::nullopt;
    blocks.push_back(std::make_shared<const ipam::Block>(*std::move(block)));
  }
  listed_at_ = record->at;
  blocks_.clear();
  for (const BlockView& block : blocks) blocks_[block->name] = block;
  return blocks;
}

void RecentView::NoteAll(const std::vector<BlockView>& blocks, BootNanos at) {
  if (!is_kept_) return;
  listed_at_ = at;
  blocks_.clear();
  for (const BlockView& block : blocks) blocks_[block->name] = block;
  Save();
}

void RecentView::Forget() {
  Drop();
  directory_.WriteNote(kNote, "");
}

void RecentView::BeginWrite(const std::string& block) {
  if (!is_kept_) return;
  directory_.WriteNote(kNote, "");
  // A write of another block has begun and got no NoteWritten, so its outcome is unknown.
  if (!writing_.empty() && writing_ != block) Drop();
  writing_ = block;
}

void RecentView::NoteWritten(const BlockView& block) {
  if (!is_kept_ || writing_ != block->name) return;
  writing_.clear();
  blocks_[block->name] = block;
  Save();
}

void RecentView::Save() const {
  if (!listed_at_) return;
  json objects = json::array();
  for (const auto& [name, block] : blocks_) {
    // Save nothing: a later process could not know whether this block is gone already.
    if (block->deleting) return directory_.WriteNote(kNote, "");
    objects.push_back(ToObject(*block));
  }
  Write(directory_, kNote, *listed_at_, std::move(objects));
}

}  // namespace berth::node
