// SPDX-License-Identifier: Apache-2.0
// MapPage: what people find on the page, and that it loads nothing. e2e/berthctl.sh opens the page in a browser.
#include "cli/map_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/test_inventory.h"

namespace berth::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(MapPage, SaysOnHoverWhoHasAnAddress) {
  EXPECT_THAT(MapPage(HealthyInventory()),
              HasSubstr("<a class=\"held\" href=\"#a-default-10.55.0.1\" title=\"10.55.0.1 held, pod team-a/web-0, "
                        "interface eth0, node n1, since 2025-11-21T04:40:00Z\">#</a>"));
}

TEST(MapPage, ShowsEveryStateByACharacterAndByName) {
  Inventory inventory = HealthyInventory();
  RemovePod(inventory, "db-0");
  const std::string page = MapPage(inventory);
  EXPECT_THAT(page, HasSubstr("title=\"10.55.0.0 not assignable\"> </span>"));
  EXPECT_THAT(page, HasSubstr("title=\"10.55.0.2 orphan, pod team-a/db-0, interface eth0, node n1, since "));
  EXPECT_THAT(page, HasSubstr(">?</a>"));
  EXPECT_THAT(page, HasSubstr("title=\"10.55.0.3 cooling until 2025-11-21T04:42:40Z\">~</a>"));
  EXPECT_THAT(page, HasSubstr("title=\"10.55.0.4 reserved by printer\">!</a>"));
  EXPECT_THAT(page, HasSubstr("title=\"10.55.0.5 standby\">s</span>"));
  EXPECT_THAT(page, HasSubstr("title=\"10.55.0.6 free\">.</span>"));
  EXPECT_THAT(
      page, HasSubstr("node n1 · 58 free · 1 held · 1 orphan · 1 standby · 1 cooling · 1 reserved · 1 not assignable"));
}

TEST(MapPage, HasARowForEachEntryToWhichTheCellLeads) {
  const std::string page = MapPage(HealthyInventory());
  EXPECT_THAT(page, HasSubstr("<tr id=\"a-default-10.55.0.2\"><td>10.55.0.2</td>"));
  EXPECT_THAT(page, HasSubstr("<td>team-a/db-0</td><td>n1</td><td>eth0</td>"));
  EXPECT_THAT(page, HasSubstr("<td>web</td><td>default</td></tr>"));
}

TEST(MapPage, TellsEqualAddressesOfTwoSpacesApart) {
  Inventory inventory = HealthyInventory();
  AddOtherSpace(inventory);
  const std::string page = MapPage(inventory);
  EXPECT_THAT(page, HasSubstr("id=\"a-default-10.55.0.1\""));
  EXPECT_THAT(page, HasSubstr("id=\"a-blue-10.55.0.1\""));
}

TEST(MapPage, LoadsNothingAndRunsNoScript) {
  const std::string page = MapPage(HealthyInventory());
  for (const char* tag : {"<script", "<img", "<link", "<iframe", "http://", "https://", "url(", "@import"}) {
    EXPECT_THAT(page, Not(HasSubstr(tag)));
  }
  EXPECT_THAT(page, HasSubstr("default-src 'none'"));
}

TEST(MapPage, EscapesTextFromTheCluster) {
  Inventory inventory = HealthyInventory();
  inventory.blocks[0].pool = "<script>alert(1)</script>";
  inventory.blocks[0].allocations[7] = "\"><img src=x>";
  const std::string page = MapPage(inventory);
  EXPECT_THAT(page, Not(HasSubstr("<script")));
  EXPECT_THAT(page, Not(HasSubstr("<img")));
  EXPECT_THAT(page, HasSubstr("&lt;script&gt;"));
}

TEST(MapPage, SaysThatThereIsNothing) {
  const std::string page = MapPage({});
  EXPECT_THAT(page, HasSubstr("There is no pool."));
  EXPECT_THAT(page, HasSubstr("There is no block"));
  EXPECT_THAT(page, HasSubstr("No address has an entry."));
}

}  // namespace
}  // namespace berth::cli
