// SPDX-License-Identifier: Apache-2.0
// The YAML files as data: they are complete, have limits and descriptions, and agree with the constants in the C++
// code. e2e/crds/ tests what only a real API server can show.
#include <functional>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

#include "base/places.h"
#include "crds/names.h"
#include "ipam/block.h"
#include "ipam/entry.h"
#include "ipam/pool.h"

namespace berth::crds {
namespace {

YAML::Node Load(const std::string& file) { return YAML::LoadFile(SourceDir() + "/crds/" + file); }

YAML::Node Version(const YAML::Node& crd) { return crd["spec"]["versions"][0]; }

// The schema of a field such as "spec.routes[].dst".
YAML::Node Field(const std::string& file, const std::string& path) {
  YAML::Node node = Version(Load(file))["schema"]["openAPIV3Schema"];
  std::size_t start = 0;
  while (start < path.size()) {
    const std::size_t end = std::min(path.find_first_of(".[", start), path.size());
    if (end > start) node.reset(node["properties"][path.substr(start, end - start)]);
    const bool element = end < path.size() && path[end] == '[';
    if (element) node.reset(node["items"]);
    start = end + (element ? 2 : 1);
    if (element && start < path.size() && path[start] == '.') ++start;
  }
  return node;
}

using Visit = std::function<void(const std::string& path, const YAML::Node& schema)>;

// NOLINTNEXTLINE(misc-no-recursion): as deep as the schemas in this tree
void Walk(const std::string& path, const YAML::Node& schema, const Visit& visit) {
  visit(path, schema);
  for (const auto& property : schema["properties"]) {
    const auto name = property.first.as<std::string>();
    if (path.empty() && name == "metadata") continue;  // the API server defines metadata
    std::string inner = path;
    inner += path.empty() ? "" : ".";
    inner += name;
    Walk(inner, property.second, visit);
  }
  if (schema["items"]) Walk(path + "[]", schema["items"], visit);
  if (schema["additionalProperties"]) Walk(path + "{}", schema["additionalProperties"], visit);
}

struct KindCase {
  const char* name;  // the kind's name
  const char* file;
  std::string_view path;
  const char* scope;
  const char* short_name;
  bool has_status_subresource;
};

class Crd : public testing::TestWithParam<KindCase> {
 protected:
  void SetUp() override {
    crd_ = Load(GetParam().file);
    schema_ = Version(crd_)["schema"]["openAPIV3Schema"];
  }
  YAML::Node crd_;
  YAML::Node schema_;
};

TEST_P(Crd, IsNamedAsTheCodeSays) {
  const YAML::Node names = crd_["spec"]["names"];
  const auto plural = names["plural"].as<std::string>();
  EXPECT_EQ(crd_["metadata"]["name"].as<std::string>(), plural + "." + std::string(kGroup));
  EXPECT_EQ(crd_["spec"]["group"].as<std::string>(), kGroup);
  EXPECT_EQ(names["kind"].as<std::string>(), GetParam().name);
  EXPECT_EQ(names["listKind"].as<std::string>(), std::string(GetParam().name) + "List");
  EXPECT_EQ(names["categories"].as<std::vector<std::string>>(), std::vector<std::string>{"berth"});
  EXPECT_EQ(names["shortNames"].as<std::vector<std::string>>(), std::vector<std::string>{GetParam().short_name});
  EXPECT_EQ(crd_["spec"]["scope"].as<std::string>(), GetParam().scope);
  ASSERT_EQ(crd_["spec"]["versions"].size(), 1U);
  EXPECT_EQ(std::string(kGroup) + "/" + Version(crd_)["name"].as<std::string>(), kApiVersion);
  EXPECT_EQ(GetParam().path, "/apis/" + std::string(kApiVersion) + "/" + plural);
  EXPECT_EQ(Version(crd_)["subresources"]["status"].IsDefined(), GetParam().has_status_subresource);
}

TEST_P(Crd, BoundsEveryListMapStringAndNumber) {
  Walk("", schema_, [](const std::string& path, const YAML::Node& schema) {
    const auto type = schema["type"].as<std::string>();
    const bool root = path == "apiVersion" || path == "kind";
    EXPECT_TRUE(type != "string" || root || schema["maxLength"] || schema["enum"]) << path;
    EXPECT_TRUE(type != "array" || schema["maxItems"]) << path;
    EXPECT_TRUE(!schema["additionalProperties"] || schema["maxProperties"]) << path;
    // If an int64 has no maximum, its format limits it.
    EXPECT_TRUE(type != "integer" || (schema["minimum"] && (schema["maximum"] || schema["format"]))) << path;
    EXPECT_TRUE(type != "object" || path == "metadata" || schema["properties"] || schema["additionalProperties"])
        << path;
    EXPECT_FALSE(schema["x-kubernetes-preserve-unknown-fields"]) << path;
  });
}

TEST_P(Crd, DescribesEveryFieldInSentences) {
  Walk("", schema_, [](const std::string& path, const YAML::Node& schema) {
    if (path.ends_with("[]") || path.ends_with("{}")) return;
    ASSERT_TRUE(schema["description"]) << path;
    EXPECT_THAT(schema["description"].as<std::string>(), testing::EndsWith(".")) << path;
  });
}

TEST_P(Crd, SaysForEveryRuleWhatIsWrong) {
  Walk("", schema_, [](const std::string& path, const YAML::Node& schema) {
    for (const YAML::Node& rule : schema["x-kubernetes-validations"]) {
      EXPECT_TRUE(rule["message"] || rule["messageExpression"]) << path << ": " << rule["rule"];
    }
  });
}

TEST_P(Crd, ReplacesListsWhole) {
  Walk("", schema_, [](const std::string& path, const YAML::Node& schema) {
    if (schema["type"].as<std::string>() != "array") return;
    // If the API server tracked list elements for each field manager, the object would grow with each writer.
    const auto list_type = schema["x-kubernetes-list-type"].as<std::string>("");
    EXPECT_EQ(list_type, path == "status.conditions" ? "map" : "atomic") << path;
  });
}

TEST_P(Crd, IsPartOfTheKustomization) {
  const auto resources = Load("Kustomization")["resources"].as<std::vector<std::string>>();
  EXPECT_THAT(resources, testing::Contains(GetParam().file));
}

const KindCase kKinds[] = {
    {"IPPool", "ippool.yaml", kPoolsPath, "Cluster", "ipp", true},
    {"IPSpace", "ipspace.yaml", kSpacesPath, "Cluster", "ips", true},
    {"IPBlock", "ipblock.yaml", kBlocksPath, "Cluster", "ipb", false},
    {"IPAllocation", "ipallocation.yaml", kAllocationsPath, "Namespaced", "ipa", false},
    {"IPReservation", "ipreservation.yaml", kReservationsPath, "Cluster", "ipr", false},
};
INSTANTIATE_TEST_SUITE_P(Kinds, Crd, testing::ValuesIn(kKinds),
                         [](const auto& c) { return std::string(c.param.name); });

TEST(Schema, SelectsBlocksByTheFieldsThatAgentsUse) {
  std::set<std::string> paths;
  for (const YAML::Node& field : Version(Load("ipblock.yaml"))["selectableFields"]) {
    paths.insert(field["jsonPath"].as<std::string>().substr(1));
  }
  EXPECT_EQ(paths,
            (std::set<std::string>{
                std::string(kBlockNodeField), std::string(kBlockPoolField), std::string(kBlockSpaceField)}));
}

TEST(Schema, HasNoDoubtAboutTheKeysOfABlock) {
  // The rule has one list of keys for each size of a block: 0 to size - 1.
  std::string rule;
  for (const YAML::Node& each :
       Version(Load("ipblock.yaml"))["schema"]["openAPIV3Schema"]["x-kubernetes-validations"]) {
    if (each["fieldPath"].as<std::string>("") == ".allocations") rule = each["rule"].as<std::string>();
  }
  ASSERT_FALSE(rule.empty());
  for (int bits = 0; bits <= ipam::kBlockBitsMax; ++bits) {
    std::string keys;
    for (int key = 0; key < 1 << bits; ++key) keys += (key == 0 ? "'" : ", '") + std::to_string(key) + "'";
    const std::string part = "self.spec.cidr.endsWith('/" + std::to_string(32 - bits) +
                             "') || self.spec.cidr.endsWith('/" + std::to_string(128 - bits) +
                             "') ? self.allocations.all(k, k in [" + keys + "])";
    EXPECT_NE(rule.find(part), std::string::npos) << "/" << 32 - bits;
  }
}

struct LimitCase {
  const char* file;
  const char* path;
  const char* key;
  std::size_t want;
};

class Limit : public testing::TestWithParam<LimitCase> {};

TEST_P(Limit, IsThatOfTheCode) {
  const LimitCase& c = GetParam();
  EXPECT_EQ(Field(c.file, c.path)[c.key].as<std::size_t>(0), c.want) << c.file << ' ' << c.path;
}

const LimitCase kLimits[] = {
    {"ippool.yaml", "spec.space", "maxLength", kSpaceNameLengthMax},
    {"ippool.yaml", "spec.subnet", "maxLength", kPrefixTextMax},
    {"ippool.yaml", "spec.ranges[]", "maxLength", kRangeTextMax},
    {"ippool.yaml", "spec.gateway", "maxLength", kAddressTextMax},
    {"ippool.yaml", "spec.routes[].dst", "maxLength", kPrefixTextMax},
    {"ippool.yaml", "spec.warmAddresses", "default", static_cast<std::size_t>(ipam::Pool().warm_addresses)},
    {"ippool.yaml", "status.conditions", "maxItems", kConditionsMax},
    {"ippool.yaml", "status.claimable", "maxItems", kClaimableMax},
    {"ippool.yaml", "status.withheld", "maxItems", kPoolWithheldMax},
    {"ipspace.yaml", "status.accepted", "maxItems", kAcceptedMax},
    {"ipspace.yaml", "status.withheld", "maxItems", kSpaceWithheldMax},
    {"ipblock.yaml", "spec.space", "maxLength", kSpaceNameLengthMax},
    {"ipblock.yaml", "spec.pool", "maxLength", kPoolNameLengthMax},
    {"ipblock.yaml", "spec.poolUID", "maxLength", kUidLengthMax},
    {"ipblock.yaml", "spec.node", "maxLength", kNameLengthMax},
    {"ipblock.yaml", "allocations", "maxProperties", std::size_t{1} << ipam::kBlockBitsMax},
    {"ipallocation.yaml", "spec.addresses[].block", "maxLength", kBlockNameLengthMax},
    {"ipreservation.yaml", "spec.addresses[]", "maxLength", kRangeTextMax},
};
INSTANTIATE_TEST_SUITE_P(Table, Limit, testing::ValuesIn(kLimits));

TEST(Schema, TakesEntriesAsLongAsTheCodeWrites) {
  EXPECT_EQ(Field("ipblock.yaml", "allocations")["additionalProperties"]["maxLength"].as<std::size_t>(),
            ipam::kEntryLengthMax);
}

}  // namespace
}  // namespace berth::crds
