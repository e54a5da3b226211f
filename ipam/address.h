// SPDX-License-Identifier: Apache-2.0
// Address: one IPv4 or IPv6 address, as a number with a family.
//
// Address prints only the canonical text: dotted decimal without leading zeros (RFC 6943, section 3.1.1), and RFC 5952
// for IPv6. Parse refuses IPv4-mapped IPv6 addresses (::ffff:a.b.c.d) and zones, because each of them would be a second
// name of an address, and the address could get a second holder.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"

namespace berth::ipam {

__extension__ using Uint128 = unsigned __int128;

// Prints the number in decimal, as status fields show counts. An IPv6 pool may have more than 2^64 addresses.
[[nodiscard]] std::string ToString(Uint128 number);

enum class Family : std::uint8_t { kIPv4, kIPv6 };

[[nodiscard]] constexpr int AddressBits(Family family) { return family == Family::kIPv4 ? 32 : 128; }

// Bits 127 to 32 of an IPv4-mapped IPv6 address (RFC 4291, section 2.5.5.2).
inline constexpr Uint128 kIPv4MappedMark = 0xffff;

// Returns "IPv4" or "IPv6".
[[nodiscard]] std::string_view ToString(Family family);

class Address {
 public:
  // 0.0.0.0, so that arrays and maps can contain addresses.
  constexpr Address() = default;

  // Requires: no bit above AddressBits(family) is set.
  [[nodiscard]] static Address FromBits(Family family, Uint128 bits);

  // Accepts any form of RFC 4291 for IPv6 (also upper case and uncompressed), and strict dotted decimal.
  // Errors: kInvalid, with the quoted text, the reason (leading zero, IPv4-mapped, zone, not an address) and the
  // remedy.
  [[nodiscard]] static Expected<Address> Parse(std::string_view text);

  [[nodiscard]] constexpr Family family() const { return family_; }
  // The address as a number in host byte order; IPv4 in the low 32 bits.
  [[nodiscard]] constexpr Uint128 bits() const { return bits_; }

  [[nodiscard]] std::string ToString() const;

  // IPv4 before IPv6, then by number.
  friend constexpr auto operator<=>(const Address&, const Address&) = default;

 private:
  constexpr Address(Family family, Uint128 bits) : family_(family), bits_(bits) {}

  Family family_ = Family::kIPv4;
  Uint128 bits_ = 0;
};

}  // namespace berth::ipam
