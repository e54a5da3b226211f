// SPDX-License-Identifier: Apache-2.0
// Address: parses (RFC 4291, section 2.2; strict dotted decimal) and prints addresses (RFC 5952, section 4).
//
// berth does not use the C library's functions, because different systems accept different texts. If two programs read
// a text differently, an address could get two holders.
#include "ipam/address.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <optional>

#include "base/check.h"

namespace berth::ipam {

namespace {

constexpr std::size_t kQuadNumbers = 4;
constexpr std::size_t kQuadDigitsMax = 3;
constexpr int kByteBits = 8;
constexpr std::size_t kGroups = 8;
constexpr std::size_t kGroupDigitsMax = 4;
constexpr int kGroupBits = 16;
constexpr int kIPv4Bits = AddressBits(Family::kIPv4);

// Parses all of `text` as a number with at most `digits_max` digits.
std::optional<std::uint32_t> ParseNumber(std::string_view text, int base, std::size_t digits_max) {
  if (text.empty() || text.size() > digits_max) return std::nullopt;
  std::uint32_t number = 0;
  // For unsigned types, from_chars accepts no sign, no blanks and no prefix.
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// The rest of a text that TakePart splits at separators, one part at each call.
struct Parts {
  std::string_view rest;
  bool over = false;  // true: the last part has been taken
};

std::string_view TakePart(Parts& parts, char separator) {
  const std::size_t at = parts.rest.find(separator);
  const std::string_view part = parts.rest.substr(0, at);
  parts.over = at == std::string_view::npos;
  parts.rest.remove_prefix(parts.over ? parts.rest.size() : at + 1);
  return part;
}

struct Quad {
  std::uint32_t bits = 0;
  std::string_view leading_zero;  // the first number with a leading zero, if any: then the quad is invalid
};

std::optional<Quad> ParseQuad(std::string_view text) {
  Quad quad;
  Parts parts{.rest = text};
  for (std::size_t i = 0; i < kQuadNumbers; ++i) {
    if (parts.over) return std::nullopt;
    const std::string_view part = TakePart(parts, '.');
    const auto number = ParseNumber(part, 10, kQuadDigitsMax);
    if (!number || *number > std::numeric_limits<std::uint8_t>::max()) return std::nullopt;
    if (part.size() > 1 && part.front() == '0' && quad.leading_zero.empty()) quad.leading_zero = part;
    quad.bits = (quad.bits << kByteBits) | *number;
  }
  if (!parts.over) return std::nullopt;
  return quad;
}

struct GroupList {
  std::array<std::uint16_t, kGroups> groups = {};
  std::size_t count = 0;

  bool Push(std::uint32_t group) {
    if (count == kGroups) return false;
    groups[count++] = static_cast<std::uint16_t>(group);
    return true;
  }
};

// Parses groups between colons. If `quad_at_end`, the last part may be a dotted quad, which counts as two groups. An
// empty text has no groups.
std::optional<GroupList> ParseGroups(std::string_view text, bool quad_at_end) {
  GroupList list;
  if (text.empty()) return list;
  Parts parts{.rest = text};
  while (!parts.over) {
    const std::string_view part = TakePart(parts, ':');
    if (quad_at_end && parts.over && part.find('.') != std::string_view::npos) {
      const auto quad = ParseQuad(part);
      if (!quad || !quad->leading_zero.empty()) return std::nullopt;
      if (!list.Push(quad->bits >> kGroupBits) || !list.Push(quad->bits & 0xffffU)) return std::nullopt;
      break;
    }
    const auto group = ParseNumber(part, 16, kGroupDigitsMax);
    if (!group || !list.Push(*group)) return std::nullopt;
  }
  return list;
}

std::optional<Uint128> ParseIPv6(std::string_view text) {
  const std::size_t gap = text.find("::");
  const bool has_gap = gap != std::string_view::npos;
  const auto head = ParseGroups(text.substr(0, gap), !has_gap);
  const auto tail = ParseGroups(has_gap ? text.substr(gap + 2) : std::string_view(), true);
  if (!head || !tail) return std::nullopt;
  // "::" replaces one or more groups.
  const std::size_t count = head->count + tail->count;
  if (has_gap ? count >= kGroups : count != kGroups) return std::nullopt;

  std::array<std::uint16_t, kGroups> groups = {};
  std::copy_n(head->groups.begin(), head->count, groups.begin());
  std::copy_n(tail->groups.begin(), tail->count, groups.end() - static_cast<std::ptrdiff_t>(tail->count));
  Uint128 bits = 0;
  for (const std::uint16_t group : groups) bits = (bits << kGroupBits) | group;
  return bits;
}

std::string QuadToString(std::uint32_t bits) {
  std::string text;
  for (int shift = kIPv4Bits - kByteBits; shift >= 0; shift -= kByteBits) {
    if (!text.empty()) text += '.';
    text += std::to_string((bits >> shift) & 0xffU);
  }
  return text;
}

Expected<Address> ParseAsIPv4(std::string_view text) {
  const auto quad = ParseQuad(text);
  if (!quad) {
    return Fail(ErrorCode::kInvalid,
                Quoted(text) + ": not an address; write one like 10.55.0.9 or 2001:db8::9, without blanks");
  }
  if (!quad->leading_zero.empty()) {
    return Fail(ErrorCode::kInvalid,
                Quoted(text) + ": leading zero in " + Quoted(quad->leading_zero) +
                    ", which some programs read as octal; write " + QuadToString(quad->bits));
  }
  return Address::FromBits(Family::kIPv4, quad->bits);
}

Expected<Address> ParseAsIPv6(std::string_view text) {
  const auto bits = ParseIPv6(text);
  if (!bits) return Fail(ErrorCode::kInvalid, Quoted(text) + ": not an IPv6 address; write one like 2001:db8::9");
  if (*bits >> kIPv4Bits == kIPv4MappedMark) {
    return Fail(ErrorCode::kInvalid,
                Quoted(text) + ": IPv4-mapped, a second name of an IPv4 address; write " +
                    QuadToString(static_cast<std::uint32_t>(*bits)));
  }
  return Address::FromBits(Family::kIPv6, *bits);
}

// The longest run of zero groups, and the first of several runs with this length. A single zero group is not a run (RFC
// 5952, section 4.2).
struct ZeroRun {
  std::size_t begin = kGroups;
  std::size_t count = 0;
};

ZeroRun LongestZeroRun(const std::array<std::uint16_t, kGroups>& groups) {
  ZeroRun longest;
  for (std::size_t begin = 0; begin < kGroups; ++begin) {
    std::size_t end = begin;
    while (end < kGroups && groups[end] == 0) ++end;
    if (end - begin > std::max<std::size_t>(longest.count, 1)) longest = {.begin = begin, .count = end - begin};
    begin = end;
  }
  return longest;
}

std::string GroupsToString(const std::array<std::uint16_t, kGroups>& groups) {
  const ZeroRun gap = LongestZeroRun(groups);
  std::string text;
  for (std::size_t i = 0; i < kGroups; ++i) {
    if (i == gap.begin) {
      text += "::";
      i += gap.count - 1;
      continue;
    }
    if (i != 0 && i != gap.begin + gap.count) text += ':';
    std::array<char, kGroupDigitsMax> digits = {};
    const auto written = std::to_chars(digits.begin(), digits.end(), static_cast<unsigned>(groups[i]), 16);
    text.append(digits.begin(), written.ptr);
  }
  return text;
}

}  // namespace

std::string ToString(Uint128 number) {
  constexpr unsigned kTen = 10;
  std::string digits;
  do {
    digits += static_cast<char>('0' + static_cast<int>(number % kTen));
    number /= kTen;
  } while (number != 0);
  std::reverse(digits.begin(), digits.end());
  return digits;
}

std::string_view ToString(Family family) { return family == Family::kIPv4 ? "IPv4" : "IPv6"; }

Address Address::FromBits(Family family, Uint128 bits) {
  BERTH_CHECK(family == Family::kIPv6 || bits <= std::numeric_limits<std::uint32_t>::max());
  return {family, bits};
}

Expected<Address> Address::Parse(std::string_view text) {
  const std::size_t zone = text.find('%');
  if (zone != std::string_view::npos) {
    return Fail(ErrorCode::kInvalid, Quoted(text) + ": has a zone; leave out " + Quoted(text.substr(zone)));
  }
  return text.find(':') == std::string_view::npos ? ParseAsIPv4(text) : ParseAsIPv6(text);
}

std::string Address::ToString() const {
  if (family_ == Family::kIPv4) return QuadToString(static_cast<std::uint32_t>(bits_));
  std::array<std::uint16_t, kGroups> groups = {};
  Uint128 rest = bits_;
  for (std::size_t i = kGroups; i-- > 0; rest >>= kGroupBits) groups[i] = static_cast<std::uint16_t>(rest);
  return GroupsToString(groups);
}

}  // namespace berth::ipam
