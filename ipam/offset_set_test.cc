// SPDX-License-Identifier: Apache-2.0
// OffsetSet compared with std::set.
#include "ipam/offset_set.h"

#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "ipam/seeded.h"

namespace berth::ipam {
namespace {

std::vector<BlockOffset> Listed(const OffsetSet& offsets) { return {offsets.begin(), offsets.end()}; }

TEST(OffsetSetTest, HoldsTheLowestAndTheHighestOffset) {
  const OffsetSet offsets{255, 0, 64, 63};
  EXPECT_EQ(Listed(offsets), (std::vector<BlockOffset>{0, 63, 64, 255}));
}

TEST(OffsetSetTest, DoesNotHoldWhatNoBlockHas) {
  OffsetSet offsets{0};
  offsets.erase(256);
  EXPECT_FALSE(offsets.contains(256));
  EXPECT_EQ(offsets, OffsetSet{0});
}

TEST(OffsetSetTest, IsEmptyAtFirstAndWhenCleared) {
  OffsetSet offsets;
  EXPECT_TRUE(offsets.empty());
  EXPECT_EQ(offsets.begin(), offsets.end());
  offsets.insert(7);
  EXPECT_FALSE(offsets.empty());
  offsets.clear();
  EXPECT_TRUE(offsets.empty());
}

TEST(OffsetSetTest, IsWhatAStdSetWouldBe) {
  ForSeeds(20, [](SeededRandom& random) {
    OffsetSet offsets;
    std::set<BlockOffset> model;
    for (int step = 0; step < 300; ++step) {
      const auto offset = static_cast<BlockOffset>(random.Below(256));
      if (random.OneIn(3)) {
        offsets.erase(offset);
        model.erase(offset);
      } else {
        offsets.insert(offset);
        model.insert(offset);
      }
      ASSERT_EQ(offsets.contains(offset), model.contains(offset));
    }
    const auto is_odd = [](BlockOffset offset) { return offset % 2 == 1; };
    EraseIf(offsets, is_odd);
    std::erase_if(model, is_odd);
    EXPECT_EQ(Listed(offsets), std::vector<BlockOffset>(model.begin(), model.end()));
    EXPECT_EQ(offsets.size(), model.size());
  });
}

}  // namespace
}  // namespace berth::ipam
