// SPDX-License-Identifier: Apache-2.0
// IntervalSet compared with a simple model: a std::set of points.
//
// The points are all addresses of small windows at the start, in the middle and at the end of both families, plus one
// point for each gap between two windows. All ranges begin and end in windows, so a set contains either a whole gap or
// nothing of it. A gap's point counts as many addresses as the gap has. Because of these points the model is exact for
// all 2^128 addresses.
#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "ipam/interval_set.h"
#include "ipam/seeded.h"
#include "ipam/test_values.h"

namespace berth::ipam {
namespace {

constexpr Uint128 kWindow = 12;

Uint128 LastOf(Family family) { return family == Family::kIPv4 ? Uint128{0xffffffffU} : ~Uint128{0}; }

// Each point of the universe, with the number of addresses that it stands for.
std::map<Address, Uint128> MakeUniverse() {
  std::map<Address, Uint128> universe;
  for (const Family family : {Family::kIPv4, Family::kIPv6}) {
    const Uint128 last = LastOf(family);
    const Uint128 starts[] = {0, last / 2 - kWindow / 2, last - kWindow + 1};
    for (const Uint128 start : starts) {
      for (Uint128 i = 0; i < kWindow; ++i) universe[Address::FromBits(family, start + i)] = 1;
    }
    for (int gap = 0; gap < 2; ++gap) {
      const Uint128 begin = starts[gap] + kWindow;
      universe[Address::FromBits(family, begin)] = starts[gap + 1] - begin;
    }
  }
  return universe;
}

class IntervalSetLaws : public testing::Test {
 protected:
  using Model = std::set<Address>;

  const std::map<Address, Uint128> universe_ = MakeUniverse();
  std::vector<Address> ends_ = [this] {  // possible ends of a range: all points except those of gaps
    std::vector<Address> ends;
    for (const auto& [address, weight] : universe_) {
      if (weight == 1) ends.push_back(address);
    }
    return ends;
  }();

  [[nodiscard]] AddressRange RandomRange(SeededRandom& random) const {
    const std::size_t per_family = ends_.size() / 2;
    const std::size_t base = random.OneIn(2) ? per_family : 0;
    std::size_t first = random.Below(per_family);
    std::size_t last = random.OneIn(3) ? random.Below(per_family) : std::min(first + random.Below(5), per_family - 1);
    if (last < first) std::swap(first, last);
    return {ends_[base + first], ends_[base + last]};
  }

  [[nodiscard]] Model PointsOf(const AddressRange& range) const {
    Model points;
    for (const auto& [address, weight] : universe_) {
      if (range.first <= address && address <= range.last) points.insert(address);
    }
    return points;
  }

  [[nodiscard]] static Model Union(Model a, const Model& b) {
    a.insert(b.begin(), b.end());
    return a;
  }
  [[nodiscard]] static Model Without(const Model& a, const Model& b) {
    Model result;
    std::ranges::set_difference(a, b, std::inserter(result, result.end()));
    return result;
  }
  [[nodiscard]] static Model Common(const Model& a, const Model& b) {
    Model result;
    std::ranges::set_intersection(a, b, std::inserter(result, result.end()));
    return result;
  }

  // Expects the same members, sorted, disjoint and merged.
  void ExpectSame(const IntervalSet& set, const Model& model) const {
    Uint128 count = 0;
    for (const auto& [address, weight] : universe_) {
      ASSERT_EQ(set.Contains(address), model.contains(address)) << address.ToString();
      if (model.contains(address)) count = count > ~Uint128{0} - weight ? ~Uint128{0} : count + weight;
    }
    ASSERT_EQ(ToString(set.Count()), ToString(count));
    ASSERT_EQ(set.empty(), model.empty());
    for (std::size_t i = 1; i < set.ranges().size(); ++i) {
      const AddressRange& left = set.ranges()[i - 1];
      const AddressRange& right = set.ranges()[i];
      ASSERT_LT(left.last, right.first);
      if (left.last.family() == right.first.family()) {
        ASSERT_TRUE(right.first.bits() - left.last.bits() > 1) << "not merged";
      }
    }
  }

  struct Pair {
    IntervalSet set;
    Model model;
  };
  [[nodiscard]] Pair RandomPair(SeededRandom& random) const {
    std::vector<AddressRange> ranges(random.Below(7));
    Model model;
    for (AddressRange& range : ranges) {
      range = RandomRange(random);
      model = Union(std::move(model), PointsOf(range));
    }
    return {IntervalSet(ranges), std::move(model)};
  }
};

TEST_F(IntervalSetLaws, AddAndSubtractAreUnionAndDifference) {
  ForSeeds(100, [this](SeededRandom& random) {
    auto [set, model] = RandomPair(random);
    ASSERT_NO_FATAL_FAILURE(ExpectSame(set, model));
    for (int step = 0; step < 12; ++step) {
      const AddressRange range = RandomRange(random);
      const bool add = random.OneIn(2);
      if (add) {
        set.Add(range);
        model = Union(std::move(model), PointsOf(range));
      } else {
        set.Subtract(range);
        model = Without(model, PointsOf(range));
      }
      SCOPED_TRACE((add ? "added " : "subtracted ") + range.ToString());
      ASSERT_NO_FATAL_FAILURE(ExpectSame(set, model));
    }
  });
}

TEST_F(IntervalSetLaws, OperationsOnSetsAreThoseOfTheirMembers) {
  ForSeeds(300, [this](SeededRandom& random) {
    const auto [a, a_model] = RandomPair(random);
    const auto [b, b_model] = RandomPair(random);
    IntervalSet difference = a;
    difference.Subtract(b);
    ASSERT_NO_FATAL_FAILURE(ExpectSame(difference, Without(a_model, b_model)));
    const IntervalSet common = a.Intersection(b);
    ASSERT_NO_FATAL_FAILURE(ExpectSame(common, Common(a_model, b_model)));
    ASSERT_EQ(common, b.Intersection(a));
    // The difference and the intersection together give the original set.
    for (const AddressRange& range : common.ranges()) difference.Add(range);
    ASSERT_EQ(difference, a);
  });
}

TEST_F(IntervalSetLaws, IntersectionWithARangeAgreesWithOverlaps) {
  ForSeeds(300, [this](SeededRandom& random) {
    const auto [set, model] = RandomPair(random);
    const AddressRange range = RandomRange(random);
    const IntervalSet common = set.Intersection(range);
    ASSERT_NO_FATAL_FAILURE(ExpectSame(common, Common(model, PointsOf(range))));
    ASSERT_EQ(set.Overlaps(range), !common.empty());
    ASSERT_EQ(common, set.Intersection(IntervalSet(std::vector{range})));
  });
}

TEST_F(IntervalSetLaws, PrefixesCoverExactlyTheSetAndCannotBeFewer) {
  ForSeeds(200, [this](SeededRandom& random) {
    const IntervalSet set = RandomPair(random).set;
    const std::vector<Prefix> prefixes = set.ToPrefixes();
    std::vector<AddressRange> covered;
    for (const Prefix& prefix : prefixes) covered.push_back(AddressRange::Of(prefix));
    ASSERT_EQ(IntervalSet(covered), set);
    for (std::size_t i = 0; i < prefixes.size(); ++i) {
      // If the cover is not minimal, some prefix can be one bit shorter and still lie in the set.
      if (prefixes[i].length() > 0) {
        const Prefix wider = Prefix::Around(prefixes[i].First(), prefixes[i].length() - 1);
        ASSERT_NE(set.Intersection(AddressRange::Of(wider)), IntervalSet(std::vector{AddressRange::Of(wider)}));
      }
      if (i > 0) {
        ASSERT_LT(prefixes[i - 1].Last(), prefixes[i].First());
      }
    }
    const std::size_t limit = 1 + random.Below(8);
    const std::vector<Prefix> some = set.ToPrefixes(limit);
    ASSERT_EQ(some, std::vector(prefixes.begin(), prefixes.begin() + static_cast<std::ptrdiff_t>(some.size())));
    ASSERT_EQ(some.size(), std::min(limit, prefixes.size()));
  });
}

TEST_F(IntervalSetLaws, RangesAreReadBackAsPrinted) {
  ForSeeds(300, [this](SeededRandom& random) {
    const AddressRange range = RandomRange(random);
    ASSERT_EQ(AddressRange::Parse(range.ToString()), range) << range.ToString();
  });
}

}  // namespace
}  // namespace berth::ipam
