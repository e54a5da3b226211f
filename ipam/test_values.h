// SPDX-License-Identifier: Apache-2.0
// For tests only: addresses, prefixes and ranges from valid texts, and how GoogleTest prints them.
#pragma once

#include <ostream>
#include <string_view>

#include "ipam/address.h"
#include "ipam/interval_set.h"
#include "ipam/prefix.h"

namespace berth::ipam {

[[nodiscard]] inline Address AddressOf(std::string_view text) { return Address::Parse(text).value(); }
[[nodiscard]] inline Prefix PrefixOf(std::string_view text) { return Prefix::Parse(text).value(); }
[[nodiscard]] inline AddressRange RangeOf(std::string_view text) { return AddressRange::Parse(text).value(); }

inline void PrintTo(const Address& address, std::ostream* out) { *out << address.ToString(); }
inline void PrintTo(const Prefix& prefix, std::ostream* out) { *out << prefix.ToString(); }
inline void PrintTo(const AddressRange& range, std::ostream* out) { *out << range.ToString(); }

}  // namespace berth::ipam
