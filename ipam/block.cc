// SPDX-License-Identifier: Apache-2.0
// Takes and frees addresses of one block.
#include "ipam/block.h"

#include <algorithm>

#include "base/check.h"

namespace berth::ipam {

namespace {

// True: no pod may get the entry's address at `now_ms`.
bool Occupies(std::string_view entry_text, std::int64_t now_ms) {
  const auto until = CoolingUntil(entry_text, now_ms);
  return !until || *until > now_ms;
}

bool IsFree(const Block& block, BlockOffset offset, std::int64_t now_ms) {
  const auto found = block.allocations.find(offset);
  return found == block.allocations.end() || !Occupies(found->second, now_ms);
}

// True: the text is a held entry of another node than `node`, or cannot be parsed.
bool IsOfOther(const std::string& text, std::string_view node) {
  if (text.starts_with("! ") || text.starts_with("~ ")) return false;
  if (!text.contains(node)) return true;  // fast: most entries of a Shared block are of other nodes
  const Entry entry = ParseEntry(text);
  const auto* held = std::get_if<HeldEntry>(&entry);
  return held == nullptr || held->node != node;
}

// A range of offsets in the block, both ends included.
struct OffsetRange {
  BlockOffset first;
  BlockOffset last;
};

std::vector<OffsetRange> AssignableOffsets(const Block& block, const Pool& pool) {
  std::vector<OffsetRange> offsets;
  const IntervalSet assignable = AssignableIn(pool, block.cidr);
  offsets.reserve(assignable.ranges().size());
  for (const AddressRange& range : assignable.ranges()) {
    offsets.push_back({static_cast<BlockOffset>(block.cidr.OffsetOf(range.first)),
                       static_cast<BlockOffset>(block.cidr.OffsetOf(range.last))});
  }
  return offsets;
}

bool Covers(const std::vector<OffsetRange>& assignable, BlockOffset offset) {
  return std::ranges::any_of(assignable,
                             [offset](const OffsetRange& r) { return r.first <= offset && offset <= r.last; });
}

std::uint32_t CountFree(const Block& block, const std::vector<OffsetRange>& assignable, std::int64_t now_ms) {
  std::uint32_t free = 0;
  for (const OffsetRange& range : assignable) free += range.last - range.first + 1;
  for (const auto& [offset, entry] : block.allocations) {
    if (Occupies(entry, now_ms) && Covers(assignable, offset)) --free;
  }
  return free;
}

// The first offset from `from` on that `is_free` accepts; after the last offset the search continues at 0.
std::optional<BlockOffset> NextFree(const std::vector<OffsetRange>& assignable, BlockOffset from, const auto& is_free) {
  std::optional<BlockOffset> wrapped;
  for (const OffsetRange& range : assignable) {
    for (BlockOffset offset = range.first; offset <= range.last; ++offset) {
      if (!is_free(offset)) continue;
      if (offset >= from) return offset;
      if (!wrapped) wrapped = offset;
    }
  }
  return wrapped;
}

std::string Describe(const Block& block) { return "block " + block.name; }

Expected<BlockOffset> RequestedOffset(const Block& block, const Pool& pool, const std::vector<OffsetRange>& assignable,
                                      Address requested, std::int64_t now_ms) {
  const std::string quoted = "requested address " + requested.ToString();
  if (!block.cidr.Contains(requested)) {
    return Fail(ErrorCode::kInvalid, quoted + " is not in " + Describe(block));
  }
  const auto offset = static_cast<BlockOffset>(block.cidr.OffsetOf(requested));
  if (!IsFree(block, offset, now_ms)) {
    const Entry entry = ParseEntry(block.allocations.at(offset));
    if (const auto* reserved = std::get_if<ReservedEntry>(&entry)) {
      return Fail(ErrorCode::kAddressTaken, quoted + " is reserved by IPReservation " + reserved->reservation);
    }
    return Fail(ErrorCode::kAddressTaken,
                quoted + " is taken (" + Describe(block) + ")",
                "see who has it: kubectl get ipblock " + block.name + " -o yaml");
  }
  if (!Covers(assignable, offset)) return std::unexpected(WhyNotAssignable(pool, requested));
  return offset;
}

// The first free, assignable offset of `among` from `from` on; after the last offset the search continues at 0.
std::optional<BlockOffset> NextAmong(const Block& block, const std::vector<OffsetRange>& assignable,
                                     const OffsetSet& among, BlockOffset from, std::int64_t now_ms) {
  std::optional<BlockOffset> wrapped;
  for (const BlockOffset offset : among) {
    if (!IsFree(block, offset, now_ms) || !Covers(assignable, offset)) continue;
    if (offset >= from) return offset;
    if (!wrapped) wrapped = offset;
  }
  return wrapped;
}

// Errors: kConflict.
Expected<void> CheckTakeable(const Block& block, const Pool& pool) {
  if (block.deleting) return Fail(ErrorCode::kConflict, Describe(block) + " is being deleted");
  if (block.pool_uid == pool.uid) return {};
  return Fail(ErrorCode::kConflict, Describe(block) + " does not belong to pool " + pool.name + " any more");
}

std::unexpected<Error> Full(const Block& block) { return Fail(ErrorCode::kExhausted, Describe(block) + " is full"); }

Expected<Address> Put(Block& block, const Pool& pool, HeldEntry entry, BlockOffset offset, std::int64_t now_ms) {
  if (!block.shared()) entry.node.clear();
  entry.cooldown_s = pool.cooldown.count();
  auto text = FormatEntry(entry);
  if (!text) return std::unexpected(text.error());
  block.allocations[offset] = std::move(*text);
  block.standby.erase(offset);
  block.free = CountFree(block, pool, now_ms);
  return block.cidr.At(offset);
}

}  // namespace

std::string BlockName(std::string_view space, const Prefix& cidr) {
  std::string name = cidr.ToString();
  std::ranges::replace(name, ':', '-');
  std::ranges::replace(name, '/', '-');
  if (name.starts_with('-')) name.insert(name.begin(), '0');
  if (space != kDefaultSpace) name = std::string(space) + '.' + name;
  return name;
}

bool FitsPool(const Block& block, const Pool& pool) {
  return block.space == pool.space && block.cidr.length() == pool.BlockLength() && pool.subnet.Contains(block.cidr);
}

bool BelongsTo(const Block& block, const Pool& pool) {
  return block.pool == pool.name && block.pool_uid == pool.uid && !block.deleting && FitsPool(block, pool);
}

Block NewBlock(const Pool& pool, const Prefix& cidr, std::string_view node) {
  BERTH_CHECK(AddressBits(cidr.family()) - cidr.length() <= kBlockBitsMax);
  Block block;
  block.name = BlockName(pool.space, cidr);
  block.finalizers = {std::string(kBlockFinalizer)};
  block.space = pool.space;
  block.pool = pool.name;
  block.pool_uid = pool.uid;
  block.cidr = cidr;
  block.node = node;
  block.free = CountFree(block, AssignableOffsets(block, pool), 0);
  return block;
}

std::optional<BlockOffset> Find(const Block& block, std::string_view attachment) {
  for (const auto& [offset, entry] : block.allocations) {
    // Search for the text first, which is fast: this function looks at every entry in every call.
    if (entry.contains(attachment) && AttachmentOf(entry) == attachment) return offset;
  }
  return std::nullopt;
}

std::uint32_t CountFree(const Block& block, const Pool& pool, std::int64_t now_ms) {
  return CountFree(block, AssignableOffsets(block, pool), now_ms);
}

Expected<Address> Take(Block& block, const Pool& pool, HeldEntry entry, std::optional<Address> requested,
                       std::int64_t now_ms) {
  if (const auto held = Find(block, entry.attachment)) return block.cidr.At(*held);
  if (auto takeable = CheckTakeable(block, pool); !takeable) return std::unexpected(takeable.error());
  const std::vector<OffsetRange> assignable = AssignableOffsets(block, pool);
  if (requested) {
    const auto wanted = RequestedOffset(block, pool, assignable, *requested, now_ms);
    if (!wanted) return std::unexpected(wanted.error());
    return Put(block, pool, std::move(entry), *wanted, now_ms);
  }
  const auto found = NextFree(assignable, block.next, [&](BlockOffset offset) {
    return IsFree(block, offset, now_ms) && !block.standby.contains(offset);
  });
  const auto offset = found ? found : NextAmong(block, assignable, block.standby, block.next, now_ms);
  if (!offset) return Full(block);
  auto taken = Put(block, pool, std::move(entry), *offset, now_ms);
  if (taken) block.next = (*offset + 1) % block.size();
  return taken;
}

Expected<Address> TakeStandby(Block& block, const Pool& pool, HeldEntry entry, const OffsetSet& among,
                              std::int64_t now_ms) {
  if (const auto held = Find(block, entry.attachment)) return block.cidr.At(*held);
  if (auto takeable = CheckTakeable(block, pool); !takeable) return std::unexpected(takeable.error());
  const std::vector<OffsetRange> assignable = AssignableOffsets(block, pool);
  const auto offset = NextAmong(block, assignable, among, block.next, now_ms);
  if (!offset) return Full(block);
  return Put(block, pool, std::move(entry), *offset, now_ms);
}

void RefillStandby(Block& block, const Pool& pool, std::size_t wanted, std::int64_t now_ms) {
  const std::vector<OffsetRange> assignable = AssignableOffsets(block, pool);
  EraseIf(block.standby, [&](BlockOffset offset) { return !Covers(assignable, offset); });
  while (block.standby.size() < wanted) {
    const auto offset = NextFree(assignable, block.next, [&block](BlockOffset one) {
      return !block.allocations.contains(one) && !block.standby.contains(one);
    });
    if (!offset) break;
    block.standby.insert(*offset);
    block.next = (*offset + 1) % block.size();
  }
  block.free = CountFree(block, assignable, now_ms);
}

bool HasHeldEntry(const Block& block) {
  return std::ranges::any_of(block.allocations, [](const auto& item) {
    const Entry entry = ParseEntry(item.second);
    return !std::holds_alternative<CoolingEntry>(entry) && !std::holds_alternative<ReservedEntry>(entry);
  });
}

void TrimStandby(Block& block) {
  if (block.deleting) block.standby.clear();
  EraseIf(block.standby, [&block](BlockOffset offset) { return block.allocations.contains(offset); });
}

bool Release(Block& block, std::string_view attachment, std::int64_t now_ms, bool was_used) {
  const auto offset = Find(block, attachment);
  if (!offset) return false;
  const Entry entry = ParseEntry(block.allocations.at(*offset));
  const auto* held = std::get_if<HeldEntry>(&entry);
  if (was_used && held != nullptr && held->cooldown_s > 0) {
    const std::int64_t cooldown_s = std::min(held->cooldown_s, kCooldownMaxSeconds);
    const CoolingEntry cooling{.until_ms = now_ms + cooldown_s * 1000, .forget = {}};
    block.allocations[*offset] = FormatEntry(cooling).value();
    return true;
  }
  block.allocations.erase(*offset);
  // This is a guess: without the pool, this function cannot know whether the address is still assignable. The next ADD
  // counts `free` again.
  if (block.free < block.size()) ++block.free;
  return true;
}

void HideEntriesOfOthers(Block& block, std::string_view node) {
  if (!block.shared()) return;
  for (auto& [offset, text] : block.allocations) {
    if (IsOfOther(text, node)) std::string(kHiddenEntry).swap(text);  // an assignment would keep the longer buffer
  }
}

void Touch(Block& block) {
  // A block with one address uses the values 0 and 1 of `next` in turn; both mean its only address.
  const BlockOffset wrap = std::max<BlockOffset>(block.size(), 2);
  block.next = (block.next + 1) % wrap;
}

}  // namespace berth::ipam
