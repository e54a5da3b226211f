// SPDX-License-Identifier: Apache-2.0
// IPPools from and to JSON: defaults, what is refused, and that a write keeps the rest of the status.
#include "crds/pool.h"

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "crds/names.h"
#include "ipam/test_values.h"

namespace berth::crds {
namespace {

using Json = nlohmann::json;

// An IPPool with all fields, each with a value that is not its default.
Json FullObject() {
  return Json::parse(R"({
    "apiVersion": "ipam.berth.dev/v1alpha1", "kind": "IPPool",
    "metadata": {"name": "web", "uid": "p-uid", "resourceVersion": "17", "generation": 4,
                 "deletionTimestamp": "2027-01-31T12:00:00Z"},
    "spec": {
      "space": "blue", "subnet": "10.55.0.0/16", "ranges": ["10.55.1.0/24", "10.55.2.1-10.55.2.9"],
      "exclude": ["10.55.1.7"], "blockSize": 27, "affinity": "Shared", "gateway": "10.55.0.1", "prefixLength": 17,
      "allowEdgeAddresses": true,
      "routes": [{"dst": "0.0.0.0/0", "gw": "10.55.0.1", "mtu": 1400, "advmss": 1300, "priority": 5, "table": 9,
                  "scope": 253}, {"dst": "192.0.2.0/24"}],
      "dns": {"nameservers": ["10.55.0.53"], "domain": "example.org", "search": ["a.example.org"], "options": ["ndots:5"]},
      "nodeSelector": {"matchLabels": {"zone": "a"},
                       "matchExpressions": [{"key": "gpu", "operator": "Exists"},
                                            {"key": "os", "operator": "NotIn", "values": ["x", "y"]}]},
      "namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "In", "values": ["a"]},
                                                 {"key": "old", "operator": "DoesNotExist"}]},
      "allowRequests": true, "allowAnnotation": true, "warmAddresses": 0, "maxBlocksPerNode": 3, "cooldownSeconds": 60,
      "resource": "web4", "disabled": true},
    "status": {
      "conditions": [{"type": "Ready", "status": "False", "reason": "Disabled", "message": "set spec.disabled to false",
                      "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 4}],
      "blockSize": 27, "claimable": ["10.55.1.0/25"], "withheld": ["10.55.2.5", "10.55.2.1-10.55.2.3"],
      "total": "255", "used": "3", "free": "252", "blocks": 2}})");
}

Json SmallObject(const char* subnet) {
  return {{"metadata", {{"name", "web"}, {"resourceVersion", "17"}}}, {"spec", {{"subnet", subnet}}}};
}

ipam::Pool PoolOf(const Json& object) {
  auto pool = ParsePool(object);
  EXPECT_TRUE(pool.has_value()) << pool.error().message;
  return pool.value_or(ipam::Pool());
}

TEST(Pool, IsReadWithEveryField) {
  using Operator = ipam::LabelRequirement::Operator;
  const ipam::Pool pool = PoolOf(FullObject());
  EXPECT_EQ(pool.name, "web");
  EXPECT_EQ(pool.uid, "p-uid");
  EXPECT_TRUE(pool.deleting);
  EXPECT_EQ(pool.space, "blue");
  EXPECT_EQ(pool.subnet, ipam::PrefixOf("10.55.0.0/16"));
  EXPECT_THAT(pool.ranges, testing::ElementsAre(ipam::RangeOf("10.55.1.0/24"), ipam::RangeOf("10.55.2.1-10.55.2.9")));
  EXPECT_THAT(pool.excludes, testing::ElementsAre(ipam::RangeOf("10.55.1.7")));
  EXPECT_EQ(pool.block_length, 27);
  EXPECT_EQ(pool.affinity, ipam::Affinity::kShared);
  EXPECT_EQ(pool.gateway, ipam::AddressOf("10.55.0.1"));
  EXPECT_EQ(pool.result_length, 17);
  EXPECT_TRUE(pool.allow_edge_addresses);
  ASSERT_EQ(pool.routes.size(), 2U);
  EXPECT_EQ(pool.routes[0],
            (ipam::Route{.destination = ipam::PrefixOf("0.0.0.0/0"),
                         .gateway = ipam::AddressOf("10.55.0.1"),
                         .mtu = 1400,
                         .advmss = 1300,
                         .priority = 5,
                         .table = 9,
                         .scope = 253}));
  EXPECT_EQ(pool.routes[1], (ipam::Route{.destination = ipam::PrefixOf("192.0.2.0/24")}));
  EXPECT_EQ(pool.dns,
            (ipam::Dns{.nameservers = {"10.55.0.53"},
                       .domain = "example.org",
                       .search = {"a.example.org"},
                       .options = {"ndots:5"}}));
  EXPECT_EQ(pool.node_selector,
            (ipam::LabelSelector{{{.key = "zone", .op = Operator::kIn, .values = {"a"}},
                                  {.key = "gpu", .op = Operator::kExists, .values = {}},
                                  {.key = "os", .op = Operator::kNotIn, .values = {"x", "y"}}}}));
  EXPECT_EQ(pool.namespace_selector,
            (ipam::LabelSelector{{{.key = "team", .op = Operator::kIn, .values = {"a"}},
                                  {.key = "old", .op = Operator::kDoesNotExist, .values = {}}}}));
  EXPECT_TRUE(pool.allow_requests);
  EXPECT_TRUE(pool.allow_annotation);
  EXPECT_EQ(pool.warm_addresses, 0);
  EXPECT_EQ(pool.max_blocks_per_node, 3);
  EXPECT_EQ(pool.cooldown, std::chrono::seconds(60));
  EXPECT_EQ(pool.resource, "web4");
  EXPECT_TRUE(pool.disabled);
  EXPECT_FALSE(pool.ready);
  EXPECT_EQ(pool.not_ready_reason, "Disabled");
  EXPECT_EQ(pool.not_ready_message, "set spec.disabled to false");
  EXPECT_THAT(pool.claimable, testing::ElementsAre(ipam::PrefixOf("10.55.1.0/25")));
  EXPECT_THAT(pool.withheld, testing::ElementsAre(ipam::RangeOf("10.55.2.5"), ipam::RangeOf("10.55.2.1-10.55.2.3")));
  EXPECT_TRUE(pool.block_count == 2);
}

TEST(Pool, HasTheDefaultsOfTheSchema) {
  const ipam::Pool pool = PoolOf(SmallObject("2001:db8::/64"));
  EXPECT_EQ(pool.space, "default");
  EXPECT_FALSE(pool.block_length.has_value());
  EXPECT_EQ(pool.BlockLength(), 122);
  EXPECT_EQ(pool.affinity, ipam::Affinity::kNode);
  EXPECT_EQ(pool.ResultLength(), 64);
  EXPECT_FALSE(pool.node_selector.has_value());
  EXPECT_EQ(pool.warm_addresses, 16);
  EXPECT_EQ(pool.resource, "ipv6");
  EXPECT_FALSE(pool.ready);
  EXPECT_FALSE(pool.disabled);
}

TEST(Pool, IsReadyOnlyIfItsConditionSaysTrue) {
  Json object = FullObject();
  object["status"]["conditions"][0]["status"] = "True";
  EXPECT_TRUE(PoolOf(object).ready);
  object["status"]["conditions"][0]["status"] = "Unknown";
  EXPECT_FALSE(PoolOf(object).ready);
  object["status"]["conditions"][0]["type"] = "Exhausted";
  EXPECT_FALSE(PoolOf(object).ready);
}

TEST(Pool, WithAnEmptyResourceIsNotCounted) {
  Json object = SmallObject("10.55.0.0/16");
  EXPECT_EQ(PoolOf(object).resource, "ipv4");
  object["spec"]["resource"] = "";
  EXPECT_EQ(PoolOf(object).resource, "");
}

TEST(Pool, IsTheSameAfterCreationAndReading) {
  Json object = FullObject();
  object["metadata"] = {{"name", "web"}};
  object.erase("status");
  const ipam::Pool pool = PoolOf(object);
  const Json created = PoolToJson(pool);
  EXPECT_EQ(PoolToJson(PoolOf(created)), created);
  Json want = object["spec"];
  // A label in matchLabels equals an expression with one value.
  want["nodeSelector"].erase("matchLabels");
  Json& expressions = want["nodeSelector"]["matchExpressions"];
  const Json zone = {{"key", "zone"}, {"operator", "In"}, {"values", {"a"}}};
  expressions.insert(expressions.begin(), zone);
  EXPECT_EQ(created["spec"], want);
}

TEST(Pool, WithFieldsOfANewerVersionIsRead) {
  Json object = FullObject();
  object["spec"]["future"] = {{"a", 1}};
  object["status"]["future"] = 5;
  EXPECT_EQ(PoolToJson(PoolOf(object)), PoolToJson(PoolOf(FullObject())));
}

TEST(Pool, TakesNullForAbsent) {
  Json object = SmallObject("10.55.0.0/16");
  for (const char* key : {"ranges", "gateway", "blockSize", "nodeSelector", "dns", "disabled"}) {
    object["spec"][key] = nullptr;
  }
  EXPECT_EQ(PoolToJson(PoolOf(object)), PoolToJson(PoolOf(SmallObject("10.55.0.0/16"))));
}

struct RefusedPoolCase {
  const char* name;
  const char* path;  // JSON pointer of the value to replace
  Json value;
  const char* field;  // must be in the message
};

class PoolRefused : public testing::TestWithParam<RefusedPoolCase> {};

TEST_P(PoolRefused, WithTheFieldNamed) {
  Json object = FullObject();
  object[Json::json_pointer(GetParam().path)] = GetParam().value;
  const auto pool = ParsePool(object);
  ASSERT_FALSE(pool.has_value());
  EXPECT_EQ(pool.error().code, ErrorCode::kInvalid);
  EXPECT_THAT(pool.error().message, testing::StartsWith("IPPool"));
  EXPECT_THAT(pool.error().message, testing::HasSubstr(GetParam().field));
}

const RefusedPoolCase kRefusedPoolCases[] = {
    {"NoObject", "", Json::array(), "must be an object"},
    {"NoName", "/metadata/name", nullptr, "metadata.name"},
    {"NameNoText", "/metadata/name", 7, "metadata.name"},
    {"SpecNoObject", "/spec", "x", "IPPool web: spec"},
    {"NoSubnet", "/spec/subnet", nullptr, "IPPool web: spec.subnet"},
    {"SubnetNoPrefix", "/spec/subnet", "10.55.0.0", "spec.subnet"},
    {"SubnetWithHostBits", "/spec/subnet", "10.55.0.1/16", "spec.subnet"},
    {"SubnetTooLong", "/spec/subnet", std::string(100'000, '1'), "spec.subnet"},
    {"SpaceEmpty", "/spec/space", "", "spec.space"},
    {"SpaceTooLong", "/spec/space", std::string(20, 's'), "spec.space"},
    {"RangesNoList", "/spec/ranges", "10.55.0.0/24", "spec.ranges"},
    {"RangeNoText", "/spec/ranges/0", 1, "spec.ranges"},
    {"RangeBackwards", "/spec/ranges/0", "10.55.0.9-10.55.0.1", "spec.ranges"},
    {"RangesTooMany", "/spec/ranges", std::vector<std::string>(65, "10.55.0.0/24"), "spec.ranges"},
    {"ExcludesTooMany", "/spec/exclude", std::vector<std::string>(257, "10.55.0.7"), "spec.exclude"},
    {"BlockSizeTooSmall", "/spec/blockSize", 23, "spec.blockSize"},
    {"BlockSizeOfTheOtherFamily", "/spec/blockSize", 122, "spec.blockSize"},
    {"BlockSizeText", "/spec/blockSize", "26", "spec.blockSize"},
    {"BlockSizeFraction", "/spec/blockSize", 26.0, "spec.blockSize"},
    {"AffinityUnknown", "/spec/affinity", "Zone", "spec.affinity"},
    {"GatewayNoAddress", "/spec/gateway", "router", "spec.gateway"},
    {"PrefixLengthNegative", "/spec/prefixLength", -1, "spec.prefixLength"},
    {"PrefixLengthTooLong", "/spec/prefixLength", 33, "spec.prefixLength"},
    {"RouteNoObject", "/spec/routes/1", "0.0.0.0/0", "spec.routes[1]"},
    {"RouteWithoutDestination", "/spec/routes/1/dst", nullptr, "spec.routes[1].dst"},
    {"RouteMetricTooLarge", "/spec/routes/0/priority", std::int64_t{1} << 32, "spec.routes[0].priority"},
    {"DnsNoObject", "/spec/dns", Json::array(), "spec.dns"},
    {"NameserverTooLong", "/spec/dns/nameservers/0", std::string(40, '1'), "spec.dns.nameservers"},
    {"SelectorNoObject", "/spec/nodeSelector", true, "spec.nodeSelector"},
    {"LabelNoText", "/spec/nodeSelector/matchLabels/zone", 1, "spec.nodeSelector.matchLabels.zone"},
    {"OperatorUnknown",
     "/spec/nodeSelector/matchExpressions/0/operator",
     "Gt",
     "spec.nodeSelector.matchExpressions[0].operator"},
    {"OperatorMissing",
     "/spec/nodeSelector/matchExpressions/0/operator",
     nullptr,
     "spec.nodeSelector.matchExpressions[0].operator"},
    {"KeyMissing", "/spec/nodeSelector/matchExpressions/0/key", nullptr, "spec.nodeSelector.matchExpressions[0].key"},
    {"InWithoutValues",
     "/spec/namespaceSelector/matchExpressions/0/values",
     Json::array(),
     "spec.namespaceSelector.matchExpressions[0].values"},
    {"ExistsWithValues",
     "/spec/nodeSelector/matchExpressions/0/values",
     {"x"},
     "spec.nodeSelector.matchExpressions[0].values"},
    {"BoolText", "/spec/disabled", "yes", "spec.disabled"},
    {"WarmAddressesNegative", "/spec/warmAddresses", -1, "spec.warmAddresses"},
    {"CooldownTooLong", "/spec/cooldownSeconds", 86'401, "spec.cooldownSeconds"},
    {"MaxBlocksHuge", "/spec/maxBlocksPerNode", std::numeric_limits<std::uint64_t>::max(), "spec.maxBlocksPerNode"},
    {"ConditionsNoList", "/status/conditions", Json::object(), "status.conditions"},
    {"ConditionNoObject", "/status/conditions/0", "Ready", "status.conditions[0]"},
    {"ClaimableTooMany", "/status/claimable", std::vector<std::string>(65, "10.55.0.0/26"), "status.claimable"},
    {"ClaimableNoPrefix", "/status/claimable/0", "x", "status.claimable"},
    {"WithheldNoRange", "/status/withheld/0", "10.55.2.5-", "status.withheld"},
    {"WithheldTooMany", "/status/withheld", std::vector<std::string>(513, "10.55.0.1"), "status.withheld"},
    {"BlocksNegative", "/status/blocks", -1, "status.blocks"},
    {"TotalNoNumber", "/status/total", "many", "status.total"},
    {"TotalTooLarge", "/status/total", "340282366920938463463374607431768211456", "status.total"},
};
INSTANTIATE_TEST_SUITE_P(Table, PoolRefused, testing::ValuesIn(kRefusedPoolCases),
                         [](const auto& c) { return std::string(c.param.name); });

PoolStatus StatusOf(const Json& object) {
  auto status = ParsePoolStatus(object);
  EXPECT_TRUE(status.has_value()) << status.error().message;
  return status.value_or(PoolStatus());
}

Json PatchOf(const Json& object, const PoolStatus& status) {
  auto patch = PoolStatusPatch(object, status);
  EXPECT_TRUE(patch.has_value()) << patch.error().message;
  return patch.value_or(Json());
}

TEST(PoolStatusPatch, IsNullWhereNothingDiffers) {
  EXPECT_TRUE(PatchOf(FullObject(), StatusOf(FullObject())).is_null());
}

TEST(PoolStatusPatch, CarriesOnlyWhatDiffers) {
  PoolStatus status = StatusOf(FullObject());
  status.used = 4;
  status.free = 251;
  EXPECT_EQ(PatchOf(FullObject(), status),
            Json::parse(R"({"metadata": {"resourceVersion": "17"}, "status": {"used": "4", "free": "251"}})"));
}

TEST(PoolStatusPatch, FillsAnEmptyStatus) {
  const PoolStatus status = StatusOf(FullObject());
  const Json object = SmallObject("10.55.0.0/16");
  Json patched = object;
  patched.merge_patch(PatchOf(object, status));
  EXPECT_EQ(StatusOf(patched), status);
  EXPECT_EQ(patched["status"], FullObject()["status"]);
}

TEST(PoolStatusPatch, WritesCountsBeyond64Bits) {
  PoolStatus status = StatusOf(FullObject());
  status.total = std::numeric_limits<ipam::Uint128>::max();
  const Json patch = PatchOf(FullObject(), status);
  EXPECT_EQ(patch["status"]["total"], "340282366920938463463374607431768211455");
}

TEST(PoolStatusPatch, KeepsFieldsOfANewerVersion) {
  Json object = FullObject();
  object["status"]["future"] = {{"a", 1}};
  object["status"]["conditions"][0]["future"] = "b";
  object["status"]["conditions"].push_back({{"type", "Future"}, {"status", "True"}, {"future", "c"}});
  PoolStatus status = StatusOf(object);
  SetCondition(status.conditions,
               {.type = "Ready",
                .status = "True",
                .reason = "Accepted",
                .message = "",
                .last_transition_time = "2026-02-02T00:00:00Z",
                .observed_generation = 5});
  Json patched = object;
  patched.merge_patch(PatchOf(object, status));
  EXPECT_EQ(patched["status"]["future"], object["status"]["future"]);
  EXPECT_EQ(patched["status"]["conditions"][0]["future"], "b");
  EXPECT_EQ(patched["status"]["conditions"][0]["reason"], "Accepted");
  EXPECT_EQ(patched["status"]["conditions"][1]["future"], "c");
}

TEST(PoolStatusPatch, CutsClaimableToWhatTheSchemaTakes) {
  PoolStatus status;
  status.claimable = std::vector(65, ipam::PrefixOf("10.55.0.0/26"));
  EXPECT_EQ(PatchOf(FullObject(), status)["status"]["claimable"].size(), 64U);
}

TEST(PoolStatusPatch, RefusesMoreWithheldRangesThanTheSchemaTakes) {
  PoolStatus status;
  status.withheld = std::vector(513, ipam::RangeOf("10.55.0.1"));
  EXPECT_FALSE(PoolStatusPatch(FullObject(), status).has_value());
}

TEST(PoolStatusPatch, RefusesAnObjectThatWasNeverRead) {
  Json object = FullObject();
  object["metadata"].erase("resourceVersion");
  const auto patch = PoolStatusPatch(object, PoolStatus());
  ASSERT_FALSE(patch.has_value());
  EXPECT_THAT(patch.error().message, testing::HasSubstr("IPPool web: metadata.resourceVersion"));
  EXPECT_FALSE(PoolStatusPatch(Json("x"), PoolStatus()).has_value());
}

TEST(SetCondition, MovesTheTimeOnlyWhenTheStatusChanges) {
  std::vector<Condition> conditions;
  Condition ready{.type = "Ready", .status = "False", .reason = "A", .message = "", .last_transition_time = "t1"};
  SetCondition(conditions, ready);
  ready.reason = "B";
  ready.last_transition_time = "t2";
  SetCondition(conditions, ready);
  ASSERT_NE(FindCondition(conditions, "Ready"), nullptr);
  EXPECT_EQ(FindCondition(conditions, "Ready")->reason, "B");
  EXPECT_EQ(FindCondition(conditions, "Ready")->last_transition_time, "t1");
  ready.status = "True";
  ready.last_transition_time = "t3";
  SetCondition(conditions, ready);
  EXPECT_EQ(FindCondition(conditions, "Ready")->last_transition_time, "t3");
  EXPECT_EQ(conditions.size(), 1U);
  EXPECT_EQ(FindCondition(conditions, "Exhausted"), nullptr);
}

}  // namespace
}  // namespace berth::crds
