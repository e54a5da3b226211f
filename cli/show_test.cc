// SPDX-License-Identifier: Apache-2.0
// Show, who and the map: the texts that people read.
#include "cli/show.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <yaml-cpp/yaml.h>

#include "cli/block_map.h"
#include "cli/test_inventory.h"

namespace berth::cli {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

TEST(Show, PrintsPools) {
  EXPECT_EQ(Print(PoolRows(HealthyInventory()), Format::kTable),
            "POOL   SPACE     SUBNET         AFFINITY   TOTAL   USED   FREE   BLOCKS   READY\n"
            "web    default   10.55.0.0/24   Node       254     2      251    1        True\n");
}

TEST(Show, PrintsBlocksByKindOfEntry) {
  EXPECT_EQ(Print(BlockRows(HealthyInventory()), Format::kTable),
            "BLOCK          CIDR           NODE   POOL   HELD   COOLING   RESERVED   STANDBY   FREE   SPACE\n"
            "10.55.0.0-26   10.55.0.0/26   n1     web    2      1         1          1         63     default\n");
}

TEST(Show, PrintsWhoHasEachAddress) {
  const auto rows = AddressRows(HealthyInventory());
  ASSERT_THAT(rows, SizeIs(4));
  EXPECT_EQ(rows[0]["pod"], "team-a/web-0");
  EXPECT_EQ(rows[0]["since"], "2025-11-21T04:40:00Z");
  EXPECT_EQ(rows[2]["state"], "cooling until 2025-11-21T04:42:40Z");
  EXPECT_EQ(rows[3]["state"], "reserved by printer");
}

TEST(Show, SaysNoneWithoutRows) {
  EXPECT_EQ(Print(PoolRows({}), Format::kTable), "none\n");
  EXPECT_EQ(Print(PoolRows({}), Format::kJson), "[]\n");
}

TEST(Show, YamlAndJsonSayTheSame) {
  const auto rows = BlockRows(HealthyInventory());
  EXPECT_EQ(nlohmann::ordered_json::parse(Print(rows, Format::kJson)), rows);
  const YAML::Node yaml = YAML::Load(Print(rows, Format::kYaml));
  ASSERT_EQ(yaml.size(), 1U);
  EXPECT_EQ(yaml[0]["block"].as<std::string>(), "10.55.0.0-26");
  EXPECT_EQ(yaml[0]["held"].as<int>(), 2);
}

struct WhoCase {
  const char* name;
  const char* what;
  const char* column;
  const char* want;   // in the first row
  const char* error;  // part of the error message; empty: no error
};

class WhoTable : public testing::TestWithParam<WhoCase> {};

TEST_P(WhoTable, Answers) {
  const WhoCase& c = GetParam();
  const auto rows = Who(HealthyInventory(), c.what);
  if (*c.error != '\0') {
    ASSERT_FALSE(rows.has_value());
    EXPECT_THAT(rows.error().message, HasSubstr(c.error));
    EXPECT_NE(rows.error().details, "");
    return;
  }
  ASSERT_TRUE(rows.has_value()) << rows.error().message;
  EXPECT_EQ((*rows)[0][c.column], c.want);
}

constexpr WhoCase kWho[] = {
    {"Address", "10.55.0.2", "pod", "team-a/db-0", ""},
    {"Pod", "team-a/web-0", "address", "10.55.0.1", ""},
    {"FreeAddress", "10.55.0.9", "state", "free", ""},
    {"StandbyAddress", "10.55.0.5", "state", "standby", ""},
    {"AddressThatNoPodGets", "10.55.0.0", "state", "not assignable", ""},
    {"AddressOfNoBlock", "10.55.0.200", "", "", "no block covers 10.55.0.200"},
    {"UnknownPod", "team-a/none", "", "", "pod team-a/none has no address"},
    {"Nonsense", "web-0", "", "", "neither an address nor a pod"},
    {"HalfAPod", "team-a/", "", "", "neither an address nor a pod"},
};
INSTANTIATE_TEST_SUITE_P(Table, WhoTable, testing::ValuesIn(kWho),
                         [](const auto& c) { return std::string(c.param.name); });

TEST(Who, SaysOfAnAddressWithoutEntryWhatTheMapShows) {
  Inventory inventory = HealthyInventory();
  inventory.pools.clear();
  EXPECT_EQ((*Who(inventory, "10.55.0.9"))[0]["state"], "not assignable");
}

TEST(Map, IsReadableWithoutColours) {
  Inventory inventory = HealthyInventory();
  RemovePod(inventory, "db-0");
  const std::string map = MapOf(inventory, inventory.blocks[0], &inventory.pools[0].pool, Colours::kOff);
  EXPECT_EQ(map,
            "10.55.0.0-26  pool web  node n1  entries 4  free 63\n"
            "  10.55.0.0   #?~!s.. ........ ........ ........\n"
            "  10.55.0.32 ........ ........ ........ ........\n");
}

TEST(Map, PaintsWhatItMeans) {
  const Inventory inventory = HealthyInventory();
  const std::string map = MapOf(inventory, inventory.blocks[0], &inventory.pools[0].pool, Colours::kOn);
  EXPECT_THAT(map, HasSubstr("\x1b[32m#\x1b[0m"));
  EXPECT_THAT(MapLegend(Colours::kOn), HasSubstr("\x1b[33m!\x1b[0m reserved"));
  EXPECT_THAT(MapLegend(Colours::kOff), Not(HasSubstr("\x1b")));
}

TEST(Map, OfABlockWithoutPoolShowsItsEntries) {
  const Inventory inventory = HealthyInventory();
  EXPECT_THAT(MapOf(inventory, inventory.blocks[0], nullptr, Colours::kOff), HasSubstr(" ##~!s "));
}

}  // namespace
}  // namespace berth::cli
