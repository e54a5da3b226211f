// SPDX-License-Identifier: Apache-2.0
// ParseUnits: quantities as the API server writes them, and as people write them.
#include "crds/quantity.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace berth::crds {
namespace {

struct QuantityCase {
  const char* text;
  std::optional<std::int64_t> want;
};

TEST(Quantity, IsReadAsAWholeNumber) {
  const QuantityCase cases[] = {
      {"0", 0},
      {"3", 3},
      {"61", 61},
      {"3000m", 3},
      {"2500m", 3},
      {"1k", 1000},
      {"2Ki", 2048},
      {"3e2", 300},
      {"1.5", 2},
      {"1E", 1000000000000000000},
      {"4Ei", kUnitsMax},
      {"5Ei", {}},
      {"-1", {}},
      {"", {}},
      {"x", {}},
      {"3x", {}},
      {"1e", {}},
      {"1e+3", 1000},
      {"1e+-3", {}},
      {" 3", {}},
      {"nan", {}},
      {"inf", {}},
      {"99999999999999999999", {}},
  };
  for (const QuantityCase& one : cases) EXPECT_EQ(ParseUnits(one.text), one.want) << '"' << one.text << '"';
}

TEST(Quantity, OfCountedResourcesAloneIsReadFromAList) {
  const auto units = ReadUnits(nlohmann::json{{"cpu", "2"},
                                              {"ipam.berth.dev/ipv4", "61"},
                                              {"ipam.berth.dev/odd", "five"},
                                              {"example.com/ipam.berth.dev", "1"},
                                              {"ipam.berth.dev/number", 7}});
  EXPECT_EQ(units, (std::map<std::string, std::int64_t>{{"ipv4", 61}, {"odd", kUnitsMax}, {"number", 7}}));
  EXPECT_TRUE(ReadUnits("no list").empty());
}

}  // namespace
}  // namespace berth::crds
