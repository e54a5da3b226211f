// SPDX-License-Identifier: Apache-2.0
// Metrics: the text that Prometheus reads.
#include "reconciler/metrics.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reconciler/world_test_setup.h"

namespace berth::reconciler {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(ControllerMetrics, CountTheAddressesOfPoolsAndNodes) {
  TestWorld t;
  t.Pool("web", {{"subnet", "10.55.0.0/24"}})
      .Block("10.55.0.0/26", "web", {{1, kHeldEntry}, {2, "! r"}}, {.node = "n1"})
      .Block("10.55.0.64/26", "web", {{1, kHeldEntry}}, {.node = "n1"});
  t.world.pools.at("web").status.total = 254;
  t.world.pools.at("web").status.blocks = 2;
  Metrics metrics;
  metrics.Look(t.world);
  EXPECT_THAT(metrics.Text(), HasSubstr("berth_pool_addresses{pool=\"web\",state=\"total\"} 254\n"));
  EXPECT_THAT(metrics.Text(), HasSubstr("berth_pool_blocks{pool=\"web\"} 2\n"));
  EXPECT_THAT(metrics.Text(), HasSubstr("berth_node_addresses_held{node=\"n1\"} 2\n"));
  metrics.Look(World());
  EXPECT_THAT(metrics.Text(), Not(HasSubstr("{pool="))) << "what is gone is not said any more";
  EXPECT_THAT(metrics.Text(), Not(HasSubstr("{node=")));
}

TEST(ControllerMetrics, CountOrphansByTheirFate) {
  Decision decision;
  decision.orphans.due = 3;
  decision.orphans.kept["may-be-ending"] = 2;
  Metrics metrics;
  metrics.PassEnded(std::chrono::milliseconds(2), decision);
  metrics.Freed("pod-gone");
  metrics.Freed("pod-gone");
  EXPECT_THAT(metrics.Text(), HasSubstr("berth_controller_orphans_due 3\n"));
  EXPECT_THAT(metrics.Text(), HasSubstr("berth_controller_orphans_kept{why=\"may-be-ending\"} 2\n"));
  EXPECT_THAT(metrics.Text(), HasSubstr("berth_controller_orphans_freed_total{why=\"pod-gone\"} 2\n"));
  EXPECT_THAT(metrics.Text(), HasSubstr("berth_controller_pass_seconds_count 1\n"));
  decision.contested.emplace()["uid"] = {{.block = "b", .block_uid = "u", .text = "x"},
                                         {.block = "b", .block_uid = "u", .text = "y"}};
  metrics.PassEnded(std::chrono::milliseconds(2), decision);
  metrics.PutBack();
  EXPECT_THAT(metrics.Text(), HasSubstr("berth_controller_addresses_contested 2\n"));
  EXPECT_THAT(metrics.Text(), HasSubstr("berth_controller_entries_put_back_total 1\n"));
  metrics.PassEnded(std::chrono::milliseconds(2), Decision());
  EXPECT_THAT(metrics.Text(), Not(HasSubstr("may-be-ending")));
}

TEST(ControllerMetrics, ShowTheLeaderAndCountFailures) {
  Metrics metrics;
  EXPECT_THAT(metrics.Text(), HasSubstr("berth_controller_leading 0\n"));
  metrics.SetLeading(true);
  metrics.WatchFailed("Pod");
  metrics.WriteFailed("unavailable");
  EXPECT_THAT(metrics.Text(), HasSubstr("berth_controller_leading 1\n"));
  EXPECT_THAT(metrics.Text(), HasSubstr("berth_controller_watch_failures_total{kind=\"Pod\"} 1\n"));
  EXPECT_THAT(metrics.Text(), HasSubstr("berth_controller_write_failures_total{code=\"unavailable\"} 1\n"));
}

TEST(ControllerMetrics, CountTheWritesOfNodes) {
  Metrics metrics;
  EXPECT_THAT(metrics.Text(), HasSubstr("berth_controller_node_writes_total 0\n"));
  metrics.NodeWritten();
  metrics.NodeWritten();
  EXPECT_THAT(metrics.Text(), HasSubstr("berth_controller_node_writes_total 2\n"));
}

TEST(ControllerMetrics, CountTheAnswersAndTheAssumedPodsOfTheExtender) {
  Metrics metrics;
  metrics.ExtenderAnswered("filter", "chosen", std::chrono::milliseconds(3));
  metrics.ExtenderAnswered("filter", "chosen", std::chrono::milliseconds(70));
  metrics.ExtenderAnswered("filter", "none", std::chrono::milliseconds(3));
  metrics.ExtenderAnswered("prioritize", "error", std::chrono::milliseconds(3));
  metrics.SetExtenderAssumed(4);
  const std::string text = metrics.Text();
  EXPECT_THAT(text, HasSubstr("berth_controller_extender_requests_total{result=\"chosen\",verb=\"filter\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("berth_controller_extender_requests_total{result=\"none\",verb=\"filter\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("berth_controller_extender_requests_total{result=\"error\",verb=\"prioritize\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("berth_controller_extender_seconds_count{verb=\"filter\"} 3\n"));
  EXPECT_THAT(text, HasSubstr("berth_controller_extender_seconds_bucket{verb=\"filter\",le=\"0.004\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("berth_controller_extender_assumed_pods 4\n"));
  metrics.SetExtenderAssumed(0);
  EXPECT_THAT(metrics.Text(), HasSubstr("berth_controller_extender_assumed_pods 0\n"));
}

}  // namespace
}  // namespace berth::reconciler
