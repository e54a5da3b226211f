// SPDX-License-Identifier: Apache-2.0
// Address compared with the C library: both accept and print the same texts, except those that berth refuses or prints
// differently on purpose.
#include <arpa/inet.h>
#include <array>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "ipam/address.h"
#include "ipam/seeded.h"
#include "ipam/test_values.h"

namespace berth::ipam {
namespace {

template <std::size_t kBytes>
Uint128 BitsOf(const std::array<unsigned char, kBytes>& bytes) {
  Uint128 bits = 0;
  for (const unsigned char byte : bytes) bits = (bits << 8) | byte;
  return bits;
}

std::optional<Address> ParseByLibrary(const std::string& text) {
  std::array<unsigned char, 4> quad = {};
  if (inet_pton(AF_INET, text.c_str(), quad.data()) == 1) return Address::FromBits(Family::kIPv4, BitsOf(quad));
  std::array<unsigned char, 16> groups = {};
  if (inet_pton(AF_INET6, text.c_str(), groups.data()) != 1) return std::nullopt;
  const Uint128 bits = BitsOf(groups);
  if (bits >> 32 == kIPv4MappedMark) return std::nullopt;  // berth refuses IPv4-mapped addresses
  return Address::FromBits(Family::kIPv6, bits);
}

std::string PrintByLibrary(Uint128 bits) {
  std::array<unsigned char, 16> bytes = {};
  for (std::size_t i = bytes.size(); i-- > 0; bits >>= 8) bytes[i] = static_cast<unsigned char>(bits);
  std::array<char, INET6_ADDRSTRLEN> text = {};
  return inet_ntop(AF_INET6, bytes.data(), text.data(), text.size());
}

// Most groups are 0, 1 or ffff, so that runs of zeros of all forms occur.
Uint128 RandomGroups(SeededRandom& random) {
  Uint128 bits = 0;
  for (int group = 0; group < 8; ++group) {
    const std::uint64_t choices[] = {0, 0, 0, 1, 0xffff, random.Below(0x10000)};
    bits = (bits << 16) | choices[random.Below(6)];
  }
  return bits;
}

TEST(AddressLaws, IPv6IsPrintedAsTheLibraryPrintsItAndReadBack) {
  ForSeeds(2000, [](SeededRandom& random) {
    const Uint128 bits = RandomGroups(random);
    if (bits >> 32 == kIPv4MappedMark) return;
    const Address address = Address::FromBits(Family::kIPv6, bits);
    ASSERT_EQ(Address::Parse(address.ToString()), address) << address.ToString();
    // The library prints the deprecated IPv4-compatible addresses with a dotted quad; RFC 5952, section 5, recommends a
    // dotted quad only if the prefix is well-known.
    if (bits >> 32 != 0) {
      ASSERT_EQ(address.ToString(), PrintByLibrary(bits));
    }
  });
}

TEST(AddressLaws, IPv4IsReadBackAsPrinted) {
  ForSeeds(500, [](SeededRandom& random) {
    const Address address = Address::FromBits(Family::kIPv4, random.Below(Uint128{1} << 32));
    ASSERT_EQ(Address::Parse(address.ToString()), address);
  });
}

TEST(AddressLaws, DamagedTextsAreReadAsTheLibraryReadsThem) {
  static constexpr std::string_view kAlphabet = "0123456789abcdefABCDEF::::....g /-";
  ForSeeds(5000, [](SeededRandom& random) {
    const bool v4 = random.OneIn(3);
    const Uint128 bits = RandomGroups(random);
    std::string text = v4 ? Address::FromBits(Family::kIPv4, bits & 0xffffffffU).ToString()
                          : Address::FromBits(Family::kIPv6, bits).ToString();
    if (!v4 && random.OneIn(3)) {
      text.resize(text.rfind(':') + 1);
      text += Address::FromBits(Family::kIPv4, bits >> 96).ToString();
    }
    for (std::uint64_t change = random.Below(4); change > 0; --change) {
      const std::size_t at = random.Below(text.size() + 1);
      const char c = kAlphabet[random.Below(kAlphabet.size())];
      if (random.OneIn(3)) {
        text.insert(at, 1, c);
      } else if (at < text.size() && random.OneIn(2)) {
        text[at] = c;
      } else if (at < text.size()) {
        text.erase(at, 1 + random.Below(3));
      }
    }
    const auto want = ParseByLibrary(text);
    const auto got = Address::Parse(text);
    ASSERT_EQ(got.has_value(), want.has_value()) << Quoted(text);
    if (want) {
      ASSERT_EQ(*got, *want) << Quoted(text);
    }
  });
}

}  // namespace
}  // namespace berth::ipam
