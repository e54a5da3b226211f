// SPDX-License-Identifier: Apache-2.0
// ModelSchema: what a CRD bounds is refused in memory, too.
#include "k8sclient/testing/model_schema.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace berth::k8sclient::testing {
namespace {

using nlohmann::json;

struct BoundCase {
  const char* name;
  const char* collection;
  json object;
  const char* want;  // what of the object is named; empty: it is taken
};
class ModelSchemaBounds : public ::testing::TestWithParam<BoundCase> {};

TEST_P(ModelSchemaBounds, AreThoseOfTheCrd) {
  const std::string violation = ModelSchema::Of(GetParam().collection).Violation(GetParam().object);
  const std::string want = GetParam().want;
  EXPECT_EQ(violation.substr(0, violation.find(':')), want) << violation;
}

const std::string kLong(801, 'x');
const BoundCase kBoundCases[] = {
    {"AsManyOnStandbyAsItTakes", "/x/ipblocks", {{"standby", std::vector<int>(64, 1)}}, ""},
    {"OneMoreOnStandby", "/x/ipblocks", {{"standby", std::vector<int>(65, 1)}}, ".standby"},
    {"AnOffsetThatNoBlockHas", "/x/ipblocks", {{"standby", {256}}}, ".standby.0"},
    {"ATextForANumber", "/x/ipblocks", {{"used", "1"}}, ".used"},
    {"AnEntryThatIsTooLong", "/x/ipblocks", {{"allocations", {{"7", kLong}}}}, ".allocations.7"},
    {"AnEmptyEntry", "/x/ipblocks", {{"allocations", {{"7", ""}}}}, ".allocations.7"},
    {"MetadataIsTheServers", "/x/ipblocks", {{"metadata", {{"name", 5}}}}, ""},
    {"APool", "/x/ippools", {{"spec", {{"warmAddresses", 4097}}}}, ".spec.warmAddresses"},
    {"AKindThatIsNotOurs", "/x/nodes", {{"standby", 5}}, ""},
};
INSTANTIATE_TEST_SUITE_P(Table, ModelSchemaBounds, ::testing::ValuesIn(kBoundCases),
                         [](const auto& c) { return std::string(c.param.name); });

}  // namespace
}  // namespace berth::k8sclient::testing
