// SPDX-License-Identifier: Apache-2.0
// OffsetSet: a set of addresses of a block, by their offset.
//
// It has the interface of std::set, as far as berth uses it, but needs only four words: each ADD copies blocks, and
// copies of a std::set with 64 nodes took a sixth of the agent's time for an ADD.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>

#include "base/check.h"

namespace berth::ipam {

// Offset of an address in its block: 0 to 255.
using BlockOffset = std::uint32_t;

class OffsetSet {
 public:
  static constexpr BlockOffset kEnd = 256;

  // NOLINTBEGIN(readability-identifier-naming): the standard library requires these names
  // Iterates in ascending order.
  class const_iterator {
   public:
    using iterator_category = std::forward_iterator_tag;
    using difference_type = std::ptrdiff_t;
    using value_type = BlockOffset;
    using pointer = const BlockOffset*;
    using reference = BlockOffset;

    const_iterator() = default;
    const_iterator(const OffsetSet* set, BlockOffset at) : set_(set), at_(at) {}
    BlockOffset operator*() const { return at_; }
    const_iterator& operator++() {
      at_ = set_->NextFrom(at_ + 1);
      return *this;
    }
    const_iterator operator++(int) {
      const const_iterator before = *this;
      ++*this;
      return before;
    }
    friend bool operator==(const const_iterator& a, const const_iterator& b) { return a.at_ == b.at_; }

   private:
    const OffsetSet* set_ = nullptr;
    BlockOffset at_ = kEnd;
  };
  using iterator = const_iterator;
  using value_type = BlockOffset;
  // NOLINTEND(readability-identifier-naming)

  OffsetSet() = default;
  OffsetSet(std::initializer_list<BlockOffset> offsets) {
    for (const BlockOffset offset : offsets) insert(offset);
  }

  // Requires: offset < kEnd.
  void insert(BlockOffset offset) {
    BERTH_CHECK(offset < kEnd);
    words_[offset / kBits] |= Bit(offset);
  }
  void erase(BlockOffset offset) {
    if (offset < kEnd) words_[offset / kBits] &= ~Bit(offset);
  }
  void clear() { words_ = {}; }

  [[nodiscard]] bool contains(BlockOffset offset) const {
    return offset < kEnd && (words_[offset / kBits] & Bit(offset)) != 0;
  }
  [[nodiscard]] bool empty() const { return *this == OffsetSet(); }
  [[nodiscard]] std::size_t size() const {
    std::size_t count = 0;
    for (const std::uint64_t word : words_) count += static_cast<std::size_t>(std::popcount(word));
    return count;
  }
  [[nodiscard]] const_iterator begin() const { return {this, NextFrom(0)}; }
  [[nodiscard]] const_iterator end() const { return {this, kEnd}; }

  friend bool operator==(const OffsetSet&, const OffsetSet&) = default;

 private:
  static constexpr BlockOffset kBits = 64;
  [[nodiscard]] static std::uint64_t Bit(BlockOffset offset) { return std::uint64_t{1} << (offset % kBits); }

  // The lowest offset from `from` on; kEnd: none.
  [[nodiscard]] BlockOffset NextFrom(BlockOffset from) const {
    for (BlockOffset word = from / kBits; word < words_.size(); ++word) {
      const std::uint64_t rest =
          word == from / kBits ? words_[word] & (~std::uint64_t{0} << (from % kBits)) : words_[word];
      if (rest != 0) return word * kBits + static_cast<BlockOffset>(std::countr_zero(rest));
    }
    return kEnd;
  }

  std::array<std::uint64_t, kEnd / kBits> words_{};
};

// Like std::erase_if.
void EraseIf(OffsetSet& offsets, auto&& is_unwanted) {
  for (const BlockOffset offset : OffsetSet(offsets)) {
    if (is_unwanted(offset)) offsets.erase(offset);
  }
}

}  // namespace berth::ipam
