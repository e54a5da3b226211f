// SPDX-License-Identifier: Apache-2.0
// AddressRange and IntervalSet: sets of addresses as sorted, disjoint intervals with both ends included.
//
// A pool's assignable addresses are its ranges without excluded, edge, gateway and reserved addresses. All of this is
// computed with intervals, so an IPv6 /0 costs as little as a /30.
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

// The addresses from `first` to `last`, both included; one family.
struct AddressRange {
  Address first;
  Address last;  // >= first, same family

  // Parses "a-b" (without blanks), a prefix in CIDR notation, or one address.
  // Errors: kInvalid, with the quoted text: mixed families, a > b, malformed.
  [[nodiscard]] static Expected<AddressRange> Parse(std::string_view text);
  [[nodiscard]] static AddressRange Of(const Prefix& prefix) { return {prefix.First(), prefix.Last()}; }

  [[nodiscard]] bool Contains(Address address) const;
  // A range of one address: "a". A range that is a prefix: CIDR notation. Any other range: "a-b".
  [[nodiscard]] std::string ToString() const;
  friend auto operator<=>(const AddressRange&, const AddressRange&) = default;
};

// A set may contain addresses of both families; no interval spans both. Requires: every range that is passed in has one
// family, and `last` is not before `first`.
class IntervalSet {
 public:
  IntervalSet() = default;
  // `ranges` may overlap and have any order.
  explicit IntervalSet(std::span<const AddressRange> ranges);

  // These functions find the range by bisection. Add and Subtract then move the intervals behind it.
  void Add(const AddressRange& range);
  void Subtract(const AddressRange& range);
  [[nodiscard]] IntervalSet Intersection(const AddressRange& range) const;
  // These functions go once through both sets.
  void Subtract(const IntervalSet& other);
  [[nodiscard]] IntervalSet Intersection(const IntervalSet& other) const;

  [[nodiscard]] bool Contains(Address address) const;
  [[nodiscard]] bool Overlaps(const AddressRange& range) const;
  [[nodiscard]] bool empty() const { return ranges_.empty(); }

  // Number of addresses; 2^128 and more count as 2^128 - 1.
  [[nodiscard]] Uint128 Count() const;

  // Sorted and disjoint; adjacent ranges are merged.
  [[nodiscard]] const std::vector<AddressRange>& ranges() const { return ranges_; }

  // The fewest prefixes that cover exactly this set, in order; only the first `limit` of them (0: no limit).
  [[nodiscard]] std::vector<Prefix> ToPrefixes(std::size_t limit = 0) const;

  friend bool operator==(const IntervalSet&, const IntervalSet&) = default;

 private:
  std::vector<AddressRange> ranges_;
};

}  // namespace berth::ipam
