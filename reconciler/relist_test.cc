// SPDX-License-Identifier: Apache-2.0
// Relist: changes between its lists make the controller believe of no pool that it is gone.
#include "reconciler/relist.h"

#include <chrono>
#include <string>
#include <utility>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "crds/block.h"
#include "crds/names.h"
#include "k8sclient/testing/model_api.h"
#include "reconciler/world_test_setup.h"

namespace berth::reconciler {
namespace {

using k8sclient::testing::ApiFault;
using k8sclient::testing::ModelApi;

// If a controller finds a pool in the list of its space and not among the pools, it takes the pool out of the list, and
// may accept another pool that overlaps, while the first pool is Ready.
TEST(Relist, ReadsThePoolsThatSpacesHaveAcceptedMeanwhile) {
  ModelApi api;
  int lists = 0;
  api.SetFaults([&](const k8sclient::Request&) {
    if (++lists == 2) {
      api.Put(std::string(crds::kPoolsPath),
              {{"metadata", {{"name", "web"}, {"uid", "uid-of-web"}}}, {"spec", {{"subnet", "10.55.0.0/24"}}}});
      const nlohmann::json entry = {
          {"pool", "web"}, {"uid", "uid-of-web"}, {"subnet", "10.55.0.0/24"}, {"blockSize", 26}};
      api.Put(std::string(crds::kSpacesPath),
              {{"metadata", {{"name", "default"}, {"uid", "uid-of-default"}}},
               {"status", {{"accepted", {entry}}, {"pools", 1}, {"withheld", nlohmann::json::array()}}}});
    }
    return ApiFault::kNone;
  });
  World world;
  ASSERT_TRUE(Relist(api, world, {}, k8sclient::CallOptions::Within(std::chrono::seconds(60))).has_value());
  EXPECT_TRUE(world.pools.contains("web") || !world.spaces.contains("default"));
  EXPECT_GE(lists, 2);
}

TEST(Relist, ReadsABlockWhoseVersionIsOlderAfterARestoredBackup) {
  const std::string blocks(crds::kBlocksPath);
  TestWorld t;
  t.Block("10.55.0.64/26", "web", {{3, kHeldEntry}});
  SeenBlock newer = t.world.blocks().at("10.55.0.64-26");
  ModelApi api;
  api.Put(blocks, crds::BlockToJson(*newer.block));
  ASSERT_TRUE(Relist(api, t.world, {}, k8sclient::CallOptions::Within(std::chrono::seconds(60))).has_value());
  newer = t.world.blocks().at("10.55.0.64-26");
  const std::string present = std::exchange(newer.resource_version, "1000000");
  t.world.PutBlock(newer);
  ASSERT_TRUE(Relist(api, t.world, {}, k8sclient::CallOptions::Within(std::chrono::seconds(60))).has_value());
  EXPECT_EQ(t.world.blocks().at("10.55.0.64-26").resource_version, present);
}

}  // namespace
}  // namespace berth::reconciler
