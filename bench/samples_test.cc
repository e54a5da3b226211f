// SPDX-License-Identifier: Apache-2.0
// Samples: ranks at the edges, and medians that one bad round does not move.
#include "bench/samples.h"

#include <array>

#include <gtest/gtest.h>

namespace berth::bench {
namespace {

using std::chrono::milliseconds;

struct PercentileCase {
  const char* name;
  std::vector<double> values;
  double share;
  double want;
};
class PercentileByRank : public testing::TestWithParam<PercentileCase> {};

TEST_P(PercentileByRank, IsASampleAndNoMean) {
  EXPECT_EQ(Percentile(GetParam().values, GetParam().share), GetParam().want);
}

const PercentileCase kPercentileCases[] = {
    {"OneValueIsEvery", {7}, 0.01, 7},
    {"HalfOfTwoIsTheLower", {2, 1}, 0.5, 1},
    {"HalfOfThreeIsTheMiddle", {3, 1, 2}, 0.5, 2},
    {"NinetyOfTen", {10, 9, 8, 7, 6, 5, 4, 3, 2, 1}, 0.9, 9},
    {"NinetyNineOfTenIsTheLast", {10, 9, 8, 7, 6, 5, 4, 3, 2, 1}, 0.99, 10},
    {"All", {1, 3, 2}, 1, 3},
};
INSTANTIATE_TEST_SUITE_P(Table, PercentileByRank, testing::ValuesIn(kPercentileCases),
                         [](const auto& c) { return std::string(c.param.name); });

TEST(Median, OfAnEvenNumberIsTheMeanOfTheMiddleTwo) { EXPECT_EQ(Median({4, 1, 3, 2}), 2.5); }

TEST(Median, OfNothingIsZero) { EXPECT_EQ(Median({}), 0); }

TEST(Samples, CountOnlyWhatSucceededAsDone) {
  const OpSamples samples{.took = {milliseconds(1), milliseconds(3)},
                          .wall = milliseconds(500),
                          .requests = 4,
                          .etcd_bytes = 3000,
                          .failed = 1,
                          .first_error = "full"};
  const OpFigures figures = Summarise(samples);
  EXPECT_EQ(figures.p50_ms, 1);
  EXPECT_EQ(figures.p99_ms, 3);
  EXPECT_EQ(figures.per_second, 4);
  EXPECT_EQ(figures.requests, 2);
  EXPECT_EQ(figures.etcd_bytes, 1500);
  EXPECT_EQ(figures.failed, 1U);
}

TEST(Samples, OfARoundInWhichAllFailedAreZero) {
  const OpFigures figures = Summarise({.wall = milliseconds(5), .failed = 3, .first_error = "away"});
  EXPECT_EQ(figures.per_second, 0);
  EXPECT_EQ(figures.first_error, "away");
}

TEST(MedianOf, LeavesOutTheDisturbedRoundAndKeepsItsFailures) {
  const std::array rounds = {OpFigures{.p50_ms = 1, .failed = 0},
                             OpFigures{.p50_ms = 90, .failed = 2, .first_error = "slow"},
                             OpFigures{.p50_ms = 2}};
  const OpFigures median = MedianOf(rounds);
  EXPECT_EQ(median.p50_ms, 2);
  EXPECT_EQ(median.failed, 2U);
  EXPECT_EQ(median.first_error, "slow");
}

}  // namespace
}  // namespace berth::bench
