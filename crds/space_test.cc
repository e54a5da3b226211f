// SPDX-License-Identifier: Apache-2.0
// IPSpaces: what is refused, and that a patch changes only what it must.
#include "crds/space.h"

#include <limits>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "ipam/test_values.h"

namespace berth::crds {
namespace {

using Json = nlohmann::json;

Json GoodSpaceObject() {
  return Json::parse(R"({
    "metadata": {"name": "blue", "resourceVersion": "7", "future": 1},
    "status": {"accepted": [{"pool": "web", "uid": "u1", "subnet": "10.55.0.0/16", "blockSize": 26, "future": "a"},
                            {"pool": "tiny", "uid": "u2", "subnet": "10.56.0.0/30", "blockSize": 30}],
               "pools": 2, "withheld": ["10.55.0.1"], "total": "65533", "used": "4", "free": "65529", "future": {}}})");
}

Space GoodSpace() {
  auto space = ParseSpace(GoodSpaceObject());
  EXPECT_TRUE(space.has_value()) << space.error().message;
  return *space;
}

TEST(Space, IsReadWithEveryField) {
  const Space space = GoodSpace();
  EXPECT_EQ(space.meta.name, "blue");
  EXPECT_THAT(space.accepted,
              testing::ElementsAre(AcceptedPool{"web", "u1", ipam::PrefixOf("10.55.0.0/16"), 26},
                                   AcceptedPool{"tiny", "u2", ipam::PrefixOf("10.56.0.0/30"), 30}));
  EXPECT_THAT(space.withheld, testing::ElementsAre(ipam::RangeOf("10.55.0.1")));
  EXPECT_TRUE(space.total == 65533 && space.used == 4 && space.free == 65529);
}

TEST(Space, IsEmptyAfterItsCreation) {
  Json object = NewSpaceToJson("blue");
  object["metadata"]["resourceVersion"] = "1";
  const auto space = ParseSpace(object);
  ASSERT_TRUE(space.has_value()) << space.error().message;
  EXPECT_TRUE(space->accepted.empty());
  const auto patch = SpaceStatusPatch(*space);
  ASSERT_TRUE(patch.has_value());
  EXPECT_EQ((*patch)["status"],
            Json::parse(R"({"accepted": [], "pools": 0, "withheld": [], "total": "0", "used": "0", "free": "0"})"));
}

TEST(SpaceStatusPatch, IsNullWhereNothingDiffers) {
  const auto patch = SpaceStatusPatch(GoodSpace());
  ASSERT_TRUE(patch.has_value()) << patch.error().message;
  EXPECT_TRUE(patch->is_null());
}

TEST(SpaceStatusPatch, KeepsFieldsOfANewerVersionWhenAPoolIsAccepted) {
  Space space = GoodSpace();
  space.accepted.erase(space.accepted.begin() + 1);
  space.accepted.push_back({"db", "u3", ipam::PrefixOf("2001:db8::/64"), 122});
  space.accepted.push_back({"web2", "u4", ipam::PrefixOf("10.57.0.0/16"), 26});
  const auto patch = SpaceStatusPatch(space);
  ASSERT_TRUE(patch.has_value()) << patch.error().message;
  EXPECT_EQ(*patch, Json::parse(R"({
    "metadata": {"resourceVersion": "7"},
    "status": {"pools": 3, "accepted": [
      {"pool": "web", "uid": "u1", "subnet": "10.55.0.0/16", "blockSize": 26, "future": "a"},
      {"pool": "db", "uid": "u3", "subnet": "2001:db8::/64", "blockSize": 122},
      {"pool": "web2", "uid": "u4", "subnet": "10.57.0.0/16", "blockSize": 26}]}})"));
}

TEST(SpaceStatusPatch, RefusesMoreThanTheSchemaTakes) {
  Space space = GoodSpace();
  space.accepted = std::vector(1025, space.accepted.front());
  EXPECT_FALSE(SpaceStatusPatch(space).has_value());
  space = GoodSpace();
  space.withheld = std::vector(4097, space.withheld.front());
  EXPECT_FALSE(SpaceStatusPatch(space).has_value());
}

struct RefusedSpaceCase {
  const char* name;
  const char* path;
  Json value;
  const char* field;
};

class SpaceRefused : public testing::TestWithParam<RefusedSpaceCase> {};

TEST_P(SpaceRefused, WithTheFieldNamed) {
  Json object = GoodSpaceObject();
  object[Json::json_pointer(GetParam().path)] = GetParam().value;
  const auto space = ParseSpace(object);
  ASSERT_FALSE(space.has_value());
  EXPECT_EQ(space.error().code, ErrorCode::kInvalid);
  EXPECT_THAT(space.error().message, testing::HasSubstr(GetParam().field));
}

const RefusedSpaceCase kRefusedSpaceCases[] = {
    {"NoName", "/metadata/name", nullptr, "IPSpace: metadata.name"},
    {"StatusNoObject", "/status", "x", "IPSpace blue: status"},
    {"AcceptedNoList", "/status/accepted", "x", "status.accepted"},
    {"PoolMissing", "/status/accepted/1/pool", nullptr, "status.accepted[1].pool"},
    {"UidMissing", "/status/accepted/1/uid", nullptr, "status.accepted[1].uid"},
    {"SubnetMalformed", "/status/accepted/0/subnet", "10.55.0.0", "status.accepted[0].subnet"},
    {"BlockLargerThanItsSubnet", "/status/accepted/1/blockSize", 26, "status.accepted[1].blockSize"},
    {"BlockSizeOfTheOtherFamily", "/status/accepted/0/blockSize", 122, "status.accepted[0].blockSize"},
    {"WithheldMalformed", "/status/withheld/0", "x", "status.withheld"},
    {"CountNegative", "/status/used", "-1", "status.used"},
    {"CountNoText", "/status/used", 4, "status.used"},
};
INSTANTIATE_TEST_SUITE_P(Table, SpaceRefused, testing::ValuesIn(kRefusedSpaceCases),
                         [](const auto& c) { return std::string(c.param.name); });

}  // namespace
}  // namespace berth::crds
