// SPDX-License-Identifier: Apache-2.0
// HeldEntries: which held entries exist, for which pods, and which came and went with the last update.
//
// The entries are kept from update to update, so a block without changes costs one comparison. If a block becomes
// unreadable, HeldEntries keeps the entries that it read last, because pods still hold these addresses.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ipam/block.h"
#include "ipam/entry.h"
#include "reconciler/world.h"

namespace berth::reconciler {

// The pod that an entry names, as "<namespace>/<name>"; the UID if the entry names no pod; empty if it names neither.
[[nodiscard]] std::string HolderOf(const ipam::HeldEntry& entry);

// The block's name, and the offset.
using EntryKey = std::pair<std::string, ipam::BlockOffset>;

class HeldEntries {
 public:
  struct Entry {
    EntryKey key;
    std::string text;
    ipam::HeldEntry held;
    ipam::BlockView block;  // the block that has or had the entry

    // The node whose agent wrote the entry: an agent writes entries only for pods of its own node.
    [[nodiscard]] const std::string& node() const { return block->shared() ? held.node : block->node; }
  };

  // The place of an entry; Read returns the parsed entry. came() and went() consist of places instead of parsed
  // entries, because the first came() has every entry of the cluster.
  struct Place {
    ipam::BlockView block;
    ipam::BlockOffset offset = 0;
  };
  // Requires: `place` is from came() or went().
  [[nodiscard]] static Entry Read(const Place& place);

  void Update(const World& world);

  // The entries that came or went with the last Update. An entry whose text changed is in both.
  [[nodiscard]] const std::vector<Place>& came() const { return came_; }
  [[nodiscard]] const std::vector<Place>& went() const { return went_; }

  [[nodiscard]] std::size_t count() const { return by_holder_.size(); }
  // Requires: the entry is held.
  [[nodiscard]] Entry At(const EntryKey& key) const;
  [[nodiscard]] bool Has(const EntryKey& key, const std::string& text) const;
  [[nodiscard]] std::vector<EntryKey> Keys() const;
  // The entries with that holder (HolderOf), sorted by key.
  [[nodiscard]] std::vector<Entry> Of(const std::string& holder) const;

 private:
  void UpdateBlock(const ipam::BlockView& before, const ipam::BlockView& after);

  std::map<std::string, ipam::BlockView> blocks_;             // as the last Update saw them; nullptr: never readable
  std::unordered_multimap<std::size_t, EntryKey> by_holder_;  // by the hash of the holder
  std::vector<Place> came_;
  std::vector<Place> went_;
};

}  // namespace berth::reconciler
