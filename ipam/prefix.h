// SPDX-License-Identifier: Apache-2.0
// Prefix: an aligned range of addresses such as 10.55.0.0/26 or 2001:db8::/122 (RFC 4632, section 3.1).
//
// Pools, blocks and the engine use this class, and all arithmetic with masks is here.
#pragma once

#include <compare>
#include <string>
#include <string_view>

#include "base/error.h"
#include "ipam/address.h"

namespace berth::ipam {

class Prefix {
 public:
  // 0.0.0.0/0, so that structs can contain a prefix before it is set.
  constexpr Prefix() = default;

  // The prefix with this length that contains `address`. Requires: 0 <= length <= AddressBits(address.family()).
  [[nodiscard]] static Prefix Around(Address address, int length);

  // Parses "address/length". The address must be the first of the prefix: if Parse accepted "10.55.0.7/26" and cleared
  // the host bits, a typing error could give pods addresses that nobody meant.
  // Errors: kInvalid, with the quoted text. If host bits are set, the message names the prefix that was probably meant.
  [[nodiscard]] static Expected<Prefix> Parse(std::string_view text);

  [[nodiscard]] constexpr Family family() const { return first_.family(); }
  [[nodiscard]] constexpr int length() const { return length_; }
  [[nodiscard]] constexpr Address First() const { return first_; }
  [[nodiscard]] Address Last() const;

  // Number of addresses minus 1: 0 to 2^128 - 1, so that it fits for ::/0.
  [[nodiscard]] Uint128 LastOffset() const;

  // Requires: offset <= LastOffset().
  [[nodiscard]] Address At(Uint128 offset) const;

  // Requires: Contains(address).
  [[nodiscard]] Uint128 OffsetOf(Address address) const;

  [[nodiscard]] bool Contains(Address address) const;
  [[nodiscard]] bool Contains(const Prefix& other) const;
  [[nodiscard]] bool Overlaps(const Prefix& other) const;

  // "10.55.0.0/26"; for IPv6 as in RFC 5952.
  [[nodiscard]] std::string ToString() const;

  friend constexpr auto operator<=>(const Prefix&, const Prefix&) = default;

 private:
  constexpr Prefix(Address first, int length) : first_(first), length_(length) {}

  Address first_;  // host bits are 0
  int length_ = 0;
};

}  // namespace berth::ipam
