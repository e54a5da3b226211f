// SPDX-License-Identifier: Apache-2.0
// Prefix: computes with masks and last offsets, because the size of ::/0, 2^128, does not fit into 128 bits.
#include "ipam/prefix.h"

#include <charconv>

#include "base/check.h"

namespace berth::ipam {

namespace {

// A number with all host bits set.
Uint128 HostMask(Family family, int length) {
  const int host_bits = AddressBits(family) - length;
  // A shift by the full width of the type is undefined.
  return host_bits == AddressBits(Family::kIPv6) ? ~Uint128{0} : (Uint128{1} << host_bits) - 1;
}

// Returns -1 unless `text` is a prefix length of this family, in digits without a leading zero.
int ParseLength(std::string_view text, Family family) {
  constexpr std::size_t kDigitsMax = 3;
  if (text.empty() || text.size() > kDigitsMax || text.front() == '-') return -1;
  if (text.size() > 1 && text.front() == '0') return -1;
  int length = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), length);
  if (error != std::errc() || end != text.data() + text.size() || length > AddressBits(family)) return -1;
  return length;
}

}  // namespace

Prefix Prefix::Around(Address address, int length) {
  BERTH_CHECK(length >= 0);
  BERTH_CHECK(length <= AddressBits(address.family()));
  return {Address::FromBits(address.family(), address.bits() & ~HostMask(address.family(), length)), length};
}

Expected<Prefix> Prefix::Parse(std::string_view text) {
  const std::size_t slash = text.find('/');
  const auto address = Address::Parse(text.substr(0, slash));
  if (!address && slash == std::string_view::npos) return std::unexpected(address.error());
  if (!address) return std::unexpected(address.error().Within(Quoted(text)));
  const int bits = AddressBits(address->family());
  if (slash == std::string_view::npos) {
    return Fail(ErrorCode::kInvalid,
                Quoted(text) + ": has no prefix length; for this one address write " + address->ToString() + "/" +
                    std::to_string(bits));
  }
  const int length = ParseLength(text.substr(slash + 1), address->family());
  if (length < 0) {
    return Fail(ErrorCode::kInvalid,
                Quoted(text) + ": " + Quoted(text.substr(slash + 1)) +
                    " is not a prefix length; write a number from 0 to " + std::to_string(bits));
  }
  const Prefix prefix = Around(*address, length);
  if (prefix.First() != *address) {
    return Fail(ErrorCode::kInvalid,
                Quoted(text) + ": has bits set right of the mask; the prefix that contains it is " + prefix.ToString());
  }
  return prefix;
}

Address Prefix::Last() const { return Address::FromBits(family(), first_.bits() | LastOffset()); }

Uint128 Prefix::LastOffset() const { return HostMask(family(), length_); }

Address Prefix::At(Uint128 offset) const {
  BERTH_CHECK(offset <= LastOffset());
  return Address::FromBits(family(), first_.bits() | offset);
}

Uint128 Prefix::OffsetOf(Address address) const {
  BERTH_CHECK(Contains(address));
  return address.bits() & LastOffset();
}

bool Prefix::Contains(Address address) const {
  return address.family() == family() && (address.bits() & ~LastOffset()) == first_.bits();
}

bool Prefix::Contains(const Prefix& other) const { return other.length_ >= length_ && Contains(other.first_); }

bool Prefix::Overlaps(const Prefix& other) const { return Contains(other) || other.Contains(*this); }

std::string Prefix::ToString() const { return first_.ToString() + "/" + std::to_string(length_); }

}  // namespace berth::ipam
