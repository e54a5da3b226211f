// SPDX-License-Identifier: Apache-2.0
// IntervalSet: passes over sorted intervals. Both ends belong to an interval, so the code needs no number after the
// last address of a family. Every +1 and -1 below is safe, because the next or previous address exists there.
#include "ipam/interval_set.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <optional>

#include "base/check.h"

namespace berth::ipam {

namespace {

Address Next(Address address) { return Address::FromBits(address.family(), address.bits() + 1); }
Address Previous(Address address) { return Address::FromBits(address.family(), address.bits() - 1); }

// True: `left` is before `right`, and the two cannot be joined: an address lies between them, or they differ in family.
bool EndsApart(const AddressRange& left, const AddressRange& right) {
  if (left.last >= right.first) return false;
  return left.last.family() != right.first.family() || right.first.bits() - left.last.bits() > 1;
}

bool EndsBefore(const AddressRange& left, const AddressRange& right) { return left.last < right.first; }

void CheckRange(const AddressRange& range) {
  BERTH_CHECK(range.first.family() == range.last.family());
  BERTH_CHECK(range.first <= range.last);
}

std::optional<AddressRange> Common(const AddressRange& a, const AddressRange& b) {
  const AddressRange common{std::max(a.first, b.first), std::min(a.last, b.last)};
  return common.first <= common.last ? std::optional(common) : std::nullopt;
}

// Number of trailing zero bits; 128 for the first address of either family.
int Alignment(Address address) {
  constexpr int kHalf = 64;
  const auto low = static_cast<std::uint64_t>(address.bits());
  const auto high = static_cast<std::uint64_t>(address.bits() >> kHalf);
  return low != 0 ? std::countr_zero(low) : kHalf + std::countr_zero(high);
}

Uint128 PowerMinusOne(int exponent) {
  return exponent == AddressBits(Family::kIPv6) ? ~Uint128{0} : (Uint128{1} << exponent) - 1;
}

// The longest aligned prefix that starts with `range` and lies in it.
Prefix LargestAtStart(const AddressRange& range) {
  const Uint128 last_offset = range.last.bits() - range.first.bits();
  int host_bits = Alignment(range.first);
  while (PowerMinusOne(host_bits) > last_offset) --host_bits;
  return Prefix::Around(range.first, AddressBits(range.first.family()) - host_bits);
}

}  // namespace

Expected<AddressRange> AddressRange::Parse(std::string_view text) {
  const std::size_t dash = text.find('-');
  if (dash == std::string_view::npos) {
    if (text.find('/') != std::string_view::npos) {
      const auto prefix = Prefix::Parse(text);
      if (!prefix) return std::unexpected(prefix.error());
      return Of(*prefix);
    }
    const auto address = Address::Parse(text);
    if (!address) return std::unexpected(address.error());
    return AddressRange{*address, *address};
  }
  const auto first = Address::Parse(text.substr(0, dash));
  if (!first) return std::unexpected(first.error().Within(Quoted(text)));
  const auto last = Address::Parse(text.substr(dash + 1));
  if (!last) return std::unexpected(last.error().Within(Quoted(text)));
  if (first->family() != last->family()) {
    return Fail(ErrorCode::kInvalid, Quoted(text) + ": goes from one family to the other; write one range for each");
  }
  if (*last < *first) {
    return Fail(ErrorCode::kInvalid, Quoted(text) + ": ends before it starts; swap the two addresses");
  }
  return AddressRange{*first, *last};
}

bool AddressRange::Contains(Address address) const { return first <= address && address <= last; }

std::string AddressRange::ToString() const {
  if (first == last) return first.ToString();
  if (first < last && first.family() == last.family()) {
    const Prefix prefix = LargestAtStart(*this);
    if (prefix.Last() == last) return prefix.ToString();
  }
  return first.ToString() + "-" + last.ToString();
}

IntervalSet::IntervalSet(std::span<const AddressRange> ranges) : ranges_(ranges.begin(), ranges.end()) {
  std::ranges::for_each(ranges_, CheckRange);
  std::ranges::sort(ranges_);
  std::size_t count = 0;
  for (const AddressRange& range : ranges_) {
    if (count == 0 || EndsApart(ranges_[count - 1], range)) {
      ranges_[count++] = range;
    } else {
      ranges_[count - 1].last = std::max(ranges_[count - 1].last, range.last);
    }
  }
  ranges_.resize(count);
}

void IntervalSet::Add(const AddressRange& range) {
  CheckRange(range);
  const auto begin = std::ranges::partition_point(ranges_, [&](const auto& r) { return EndsApart(r, range); });
  const auto end = std::partition_point(begin, ranges_.end(), [&](const auto& r) { return !EndsApart(range, r); });
  if (begin == end) {
    ranges_.insert(begin, range);
    return;
  }
  *begin = {std::min(begin->first, range.first), std::max((end - 1)->last, range.last)};
  ranges_.erase(begin + 1, end);
}

void IntervalSet::Subtract(const AddressRange& range) {
  CheckRange(range);
  const auto begin = std::ranges::partition_point(ranges_, [&](const auto& r) { return EndsBefore(r, range); });
  const auto end = std::partition_point(begin, ranges_.end(), [&](const auto& r) { return !EndsBefore(range, r); });
  if (begin == end) return;
  std::vector<AddressRange> left_over;
  if (begin->first < range.first) left_over.push_back({begin->first, Previous(range.first)});
  if ((end - 1)->last > range.last) left_over.push_back({Next(range.last), (end - 1)->last});
  ranges_.insert(ranges_.erase(begin, end), left_over.begin(), left_over.end());
}

void IntervalSet::Subtract(const IntervalSet& other) {
  std::vector<AddressRange> left_over;
  auto taken = other.ranges_.begin();
  for (AddressRange rest : ranges_) {
    while (taken != other.ranges_.end() && EndsBefore(*taken, rest)) ++taken;
    bool any_left = true;
    // The last range subtracted from this interval may overlap the next interval, so `taken` does not move.
    for (auto t = taken; any_left && t != other.ranges_.end() && !EndsBefore(rest, *t); ++t) {
      if (rest.first < t->first) left_over.push_back({rest.first, Previous(t->first)});
      any_left = t->last < rest.last;
      if (any_left) rest.first = Next(t->last);
    }
    if (any_left) left_over.push_back(rest);
  }
  ranges_ = std::move(left_over);
}

IntervalSet IntervalSet::Intersection(const AddressRange& range) const {
  CheckRange(range);
  IntervalSet result;
  auto r = std::ranges::partition_point(ranges_, [&](const auto& candidate) { return EndsBefore(candidate, range); });
  for (; r != ranges_.end(); ++r) {
    const auto common = Common(*r, range);
    if (!common) break;
    result.ranges_.push_back(*common);
  }
  return result;
}

IntervalSet IntervalSet::Intersection(const IntervalSet& other) const {
  IntervalSet result;
  auto a = ranges_.begin();
  auto b = other.ranges_.begin();
  while (a != ranges_.end() && b != other.ranges_.end()) {
    if (const auto common = Common(*a, *b)) result.ranges_.push_back(*common);
    if (a->last < b->last) {
      ++a;
    } else {
      ++b;
    }
  }
  return result;
}

bool IntervalSet::Contains(Address address) const { return Overlaps({address, address}); }

bool IntervalSet::Overlaps(const AddressRange& range) const {
  const auto r = std::ranges::partition_point(ranges_, [&](const auto& left) { return EndsBefore(left, range); });
  return r != ranges_.end() && !EndsBefore(range, *r);
}

Uint128 IntervalSet::Count() const {
  Uint128 count = 0;
  for (const AddressRange& range : ranges_) {
    const Uint128 last_offset = range.last.bits() - range.first.bits();
    const Uint128 room = ~Uint128{0} - count;
    if (last_offset >= room) return ~Uint128{0};
    count += last_offset + 1;
  }
  return count;
}

std::vector<Prefix> IntervalSet::ToPrefixes(std::size_t limit) const {
  std::vector<Prefix> prefixes;
  for (AddressRange rest : ranges_) {
    while (limit == 0 || prefixes.size() < limit) {
      prefixes.push_back(LargestAtStart(rest));
      if (prefixes.back().Last() == rest.last) break;
      rest.first = Next(prefixes.back().Last());
    }
  }
  return prefixes;
}

}  // namespace berth::ipam
