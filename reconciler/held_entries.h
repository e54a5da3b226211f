// SPDX-License-Identifier: Apache-2.0
// HeldEntries: which held entries there are, and which came and went since the last look.
//
// Kept up rather than taken: a block whose entries did not change costs one comparison. Of a block that cannot be read
// any more it is what was read last: it still holds that.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ipam/block.h"
#include "ipam/entry.h"
#include "reconciler/world.h"

namespace berth::reconciler {

// Block and offset.
using EntryKey = std::pair<std::string, ipam::BlockOffset>;

class HeldEntries {
 public:
  struct Entry {
    EntryKey key;
    std::string text;
    ipam::HeldEntry held;
    ipam::BlockView block;  // that it is, or was, in

    // Whose agent wrote it: a node writes no other's.
    [[nodiscard]] const std::string& node() const { return block->shared() ? held.node : block->node; }
  };

  // Where an entry stands; at the start all of them came, so they are not read before they are looked at.
  struct Place {
    ipam::BlockView block;
    ipam::BlockOffset offset = 0;
  };
  // Requires: it is of came() or went().
  [[nodiscard]] static Entry Read(const Place& place);

  void Update(const World& world);

  // Since the last Update but one. An entry that changed is in both.
  [[nodiscard]] const std::vector<Place>& came() const { return came_; }
  [[nodiscard]] const std::vector<Place>& went() const { return went_; }

  [[nodiscard]] std::size_t count() const { return count_; }
  // Requires: it is held.
  [[nodiscard]] Entry At(const EntryKey& key) const;
  [[nodiscard]] bool Has(const EntryKey& key, const std::string& text) const;
  [[nodiscard]] std::vector<EntryKey> Keys() const;

 private:
  void UpdateBlock(const ipam::BlockView& before, const ipam::BlockView& after);

  std::map<std::string, ipam::BlockView> blocks_;  // as they were looked at last; null: never read
  std::size_t count_ = 0;
  std::vector<Place> came_;
  std::vector<Place> went_;
};

}  // namespace berth::reconciler
