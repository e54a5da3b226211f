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
#include "ipam/test_values.h"
#include "k8sclient/testing/model_api.h"
#include "reconciler/test_world.h"

namespace berth::reconciler {
namespace {

using k8sclient::testing::ApiFault;
using k8sclient::testing::ModelApi;

// If a controller finds a pool in the list of its space and not among the pools, it takes the pool out of the list, and
// may accept another pool that overlaps, while the first pool is Ready.
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

TEST(Relist, ReadsABlockWhoseVersionABackupHasMadeOlder) {
  const std::string blocks(crds::kBlocksPath);
  TestWorld t;
  t.Block("10.55.0.64/26", "web", {{3, kHeldEntry}});
  SeenBlock newer = t.world.blocks().at("10.55.0.64-26");
  ModelApi api;
  api.Put(blocks, crds::BlockToJson(*newer.block));
  ASSERT_TRUE(Relist(api, t.world, 0, k8sclient::CallOptions::Within(std::chrono::seconds(60))).has_value());
  newer = t.world.blocks().at("10.55.0.64-26");
  const std::string present = std::exchange(newer.resource_version, "1000000");
  t.world.PutBlock(newer);
  ASSERT_TRUE(Relist(api, t.world, 0, k8sclient::CallOptions::Within(std::chrono::seconds(60))).has_value());
  EXPECT_EQ(t.world.blocks().at("10.55.0.64-26").resource_version, present);
}

// The block 10.55.0.64/26, with the addresses .64 to .127.
struct ReservedCase {
  const char* name;
  const char* addresses;
  bool is_read;
};
class RelistReserved : public testing::TestWithParam<ReservedCase> {};

TEST_P(RelistReserved, ReadsABlockThatChangedIfAReservationMeetsIt) {
  const ReservedCase& c = GetParam();
  const std::string blocks(crds::kBlocksPath);
  ModelApi api;
  ipam::Block block;
  block.cidr = ipam::PrefixOf("10.55.0.64/26");
  block.space = "default";
  block.name = ipam::BlockName(block.space, block.cidr);
  block.pool = "web";
  block.pool_uid = "uid-of-web";
  block.node = "n1";
  api.Put(blocks, crds::BlockToJson(block));
  api.Put(std::string(crds::kReservationsPath),
          {{"metadata", {{"name", "r"}, {"uid", "uid-of-r"}}},
           {"spec", {{"space", "default"}, {"addresses", {c.addresses}}}}});
  World world;
  const auto options = k8sclient::CallOptions::Within(std::chrono::seconds(60));
  ASSERT_TRUE(Relist(api, world, 0, options).has_value());
  ASSERT_TRUE(world.blocks().contains(block.name));
  const std::string before = world.blocks().at(block.name).resource_version;
  api.Change(blocks, block.name, [](nlohmann::json& object) { object["allocations"]["1"] = kHeldEntry; });
  ASSERT_TRUE(Relist(api, world, 0, options).has_value());
  EXPECT_EQ(world.blocks().at(block.name).resource_version != before, c.is_read);
}

const ReservedCase kReservedCases[] = {
    {"ItsFirstAddress", "10.55.0.64", true},
    {"ItsLastAddress", "10.55.0.127", true},
    {"ARangeThatEndsWithItsFirst", "10.55.0.10-10.55.0.64", true},
    {"ARangeThatBeginsWithItsLast", "10.55.0.127-10.55.0.130", true},
    {"AllOfThePool", "10.55.0.0/24", true},
    {"TheAddressBefore", "10.55.0.63", false},
    {"TheAddressAfter", "10.55.0.128", false},
};
INSTANTIATE_TEST_SUITE_P(Table, RelistReserved, testing::ValuesIn(kReservedCases),
                         [](const auto& c) { return std::string(c.param.name); });

}  // namespace
}  // namespace berth::reconciler
