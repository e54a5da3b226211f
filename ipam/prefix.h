// SPDX-License-Identifier: Apache-2.0
// Prefix: an aligned range of addresses such as 10.55.0.0/26 or 2001:db8::/122 (RFC 4632, section 3.1).
//
// Pools, blocks and the allocator compute with it, so every rule about masks is here and nowhere else.
#pragma once

#include <compare>
#include <string>
#include <string_view>

#include "base/error.h"
#include "ipam/address.h"

namespace berth::ipam {

class Prefix {
 public:
  // 0.0.0.0/0, so that structs can hold one before they are filled.
  constexpr Prefix() = default;

  // The prefix of that length that `address` lies in. Requires: 0 <= length <= AddressBits(address.family()).
  [[nodiscard]] static Prefix Around(Address address, int length);

  // Parses "address/length". The address must be the first of the prefix: rounding a typing error down would hand out
  // addresses that nobody asked for.
  // Errors: kInvalid, with the text quoted; for host bits the message names the prefix that was probably meant.
  [[nodiscard]] static Expected<Prefix> Parse(std::string_view text);

  [[nodiscard]] constexpr Family family() const { return first_.family(); }
  [[nodiscard]] constexpr int length() const { return length_; }
  [[nodiscard]] constexpr Address First() const { return first_; }
  [[nodiscard]] Address Last() const;

  // Number of addresses that the prefix has beyond its first: 0 to 2^128 - 1, so that ::/0 can say it too.
  [[nodiscard]] Uint128 LastOffset() const;

  // Requires: offset <= LastOffset().
  [[nodiscard]] Address At(Uint128 offset) const;

  // Requires: Contains(address).
  [[nodiscard]] Uint128 OffsetOf(Address address) const;

  [[nodiscard]] bool Contains(Address address) const;
  [[nodiscard]] bool Contains(const Prefix& other) const;
  [[nodiscard]] bool Overlaps(const Prefix& other) const;

  // "10.55.0.0/26", RFC 5952 for IPv6.
  [[nodiscard]] std::string ToString() const;

  friend constexpr auto operator<=>(const Prefix&, const Prefix&) = default;

 private:
  constexpr Prefix(Address first, int length) : first_(first), length_(length) {}

  Address first_;  // bits right of the mask are 0
  int length_ = 0;
};

}  // namespace berth::ipam
