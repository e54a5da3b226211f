// SPDX-License-Identifier: Apache-2.0
// ServerMetrics: sums of lines that kube-apiserver wrote.
#include "bench/server_metrics.h"

#include <gtest/gtest.h>

namespace berth::bench {
namespace {

const ServerMetrics kMetrics(R"(# HELP requests_total Counter of requests
# TYPE requests_total counter
requests_total{code="201",resource="ipblocks",subresource="",verb="POST"} 5000
requests_total{code="409",resource="ipblocks",subresource="",verb="POST"} 763
requests_total{code="200",resource="ipblocks",subresource="",verb="LIST"} 5.001e+03
requests_total{code="200",resource="nodes",subresource="ipblocks",verb="POST"} 7
requests_total_seconds{code="201",resource="ipblocks",verb="POST"} 99
up 1
)");

TEST(ServerMetrics, SumsLinesThatHaveAllLabels) {
  EXPECT_EQ(kMetrics.Sum("requests_total", {R"(verb="POST")", R"(resource="ipblocks")"}), 5763);
}

TEST(ServerMetrics, ReadsNumbersWithExponent) { EXPECT_EQ(kMetrics.Sum("requests_total", {R"(verb="LIST")"}), 5001); }

TEST(ServerMetrics, TakesNoLabelWhoseNameEndsLikeTheOneAskedFor) {
  EXPECT_EQ(kMetrics.Sum("requests_total", {R"(resource="ipblocks")", R"(code="200")"}), 5001);
}

TEST(ServerMetrics, TakesNoMetricWithALongerName) {
  EXPECT_EQ(kMetrics.Sum("requests_total", {R"(code="201")"}), 5000);
}

TEST(ServerMetrics, KnowsMetricsWithoutLabels) { EXPECT_EQ(kMetrics.Sum("up", {}), 1); }

TEST(ServerMetrics, WhatIsNotThereIsZero) { EXPECT_EQ(kMetrics.Sum("requests_total", {R"(verb="PUT")"}), 0); }

}  // namespace
}  // namespace berth::bench
