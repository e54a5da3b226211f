// SPDX-License-Identifier: Apache-2.0
// Relist: what happens between its lists leaves nobody to believe that a pool is gone.
#include "reconciler/relist.h"

#include <chrono>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "crds/names.h"
#include "k8sclient/testing/model_api.h"
#include "reconciler/test_world.h"

namespace berth::reconciler {
namespace {

using k8sclient::testing::ApiFault;
using k8sclient::testing::ModelApi;

// Whoever finds a pool in the list of its space and not among the pools takes it out, and may accept another one that
// overlaps, while the pool is Ready.
TEST(Relist, KnowsThePoolsThatSpacesHaveAcceptedMeanwhile) {
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
  ASSERT_TRUE(Relist(api, world, 0, k8sclient::CallOptions::Within(std::chrono::seconds(60))).has_value());
  EXPECT_TRUE(world.pools.contains("web") || !world.spaces.contains("default"));
  EXPECT_GE(lists, 2);
}

}  // namespace
}  // namespace berth::reconciler
