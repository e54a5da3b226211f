// SPDX-License-Identifier: Apache-2.0
// AddressRange and IntervalSet: sets of addresses as sorted, disjoint, closed intervals.
//
// What a pool may hand out is ranges minus excludes, edges, gateways and reservations; all of that is interval
// arithmetic, so that a /0 of IPv6 costs as little as a /30.
#pragma once

#include <compare>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "ipam/address.h"
#include "ipam/prefix.h"

namespace berth::ipam {

// first to last, both included, of one family.
struct AddressRange {
  Address first;
  Address last;  // >= first, same family

  // Parses "a-b" (no blanks), a prefix in CIDR notation, or one address.
  // Errors: kInvalid, quoting the text: mixed families, a > b, malformed.
  [[nodiscard]] static Expected<AddressRange> Parse(std::string_view text);
  [[nodiscard]] static AddressRange Of(const Prefix& prefix) { return {prefix.First(), prefix.Last()}; }

  [[nodiscard]] bool Contains(Address address) const;
  // A prefix in CIDR notation where the range is one, a single address as itself, else "a-b".
  [[nodiscard]] std::string ToString() const;
  friend auto operator<=>(const AddressRange&, const AddressRange&) = default;
};

// Addresses of both families may be in one set; no interval spans them. Requires of every range that is passed in: one
// family, and last not before first.
class IntervalSet {
 public:
  IntervalSet() = default;
  // The ranges may overlap and come in any order.
  explicit IntervalSet(std::span<const AddressRange> ranges);

  // One range at a time costs a search and a move of what lies behind it.
  void Add(const AddressRange& range);
  void Subtract(const AddressRange& range);
  [[nodiscard]] IntervalSet Intersection(const AddressRange& range) const;
  // Two sets cost one pass over both.
  void Subtract(const IntervalSet& other);
  [[nodiscard]] IntervalSet Intersection(const IntervalSet& other) const;

  [[nodiscard]] bool Contains(Address address) const;
  [[nodiscard]] bool Overlaps(const AddressRange& range) const;
  [[nodiscard]] bool empty() const { return ranges_.empty(); }

  // Number of addresses; 2^128 and more are counted as 2^128 - 1.
  [[nodiscard]] Uint128 Count() const;

  // Sorted, disjoint, adjacent ones merged.
  [[nodiscard]] const std::vector<AddressRange>& ranges() const { return ranges_; }

  // The fewest prefixes that cover exactly this set, in order, at most `limit` of them (0: no limit; what comes after
  // is left out).
  [[nodiscard]] std::vector<Prefix> ToPrefixes(std::size_t limit = 0) const;

  friend bool operator==(const IntervalSet&, const IntervalSet&) = default;

 private:
  std::vector<AddressRange> ranges_;
};

}  // namespace berth::ipam
