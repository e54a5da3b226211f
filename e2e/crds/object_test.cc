// SPDX-License-Identifier: Apache-2.0
// Which objects and patches of the tables in e2e/crds/objects a real API server accepts and refuses. The tests send
// them as dry runs with strict field validation, as kubectl does.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "e2e/crds/object_cases.h"
#include "e2e/crds/requests.h"

namespace berth::e2e {
namespace {

using k8sclient::Method;

constexpr const char* kDryRun = "?dryRun=All&fieldValidation=Strict";

// Creates the base objects, in the first case that runs. The objects stay for the other tests.
void CreateBase() {
  static const bool kCreated = [] {
    for (const nlohmann::json& object : LoadObjects("e2e/crds/objects/base.yaml")) {
      const Answer answer = Send(Method::kPost, CollectionOf(object), object);
      EXPECT_TRUE(answer.status == 201 || answer.status == 409) << answer.body;
    }
    return true;
  }();
  EXPECT_TRUE(kCreated);
}

std::string PatchPath(const std::string& target) {
  const bool namespaced = target.starts_with("ipallocations/");
  return "/apis/ipam.berth.dev/v1alpha1/" + std::string(namespaced ? "namespaces/default/" : "") + target;
}

Answer Try(const ObjectCase& c) {
  if (c.patch.empty()) return Send(Method::kPost, CollectionOf(c.document) + kDryRun, c.document);
  return Send(Method::kPatch, PatchPath(c.patch) + kDryRun, c.document, k8sclient::kMergePatch);
}

class Crds : public testing::TestWithParam<ObjectCase> {
 protected:
  static void SetUpTestSuite() { CreateBase(); }
};

TEST_P(Crds, TakesWhatIsGoodAndSaysWhatIsBad) {
  const ObjectCase& c = GetParam();
  const Answer answer = Try(c);
  if (c.accepted) {
    EXPECT_TRUE(answer.status == 200 || answer.status == 201) << answer.status << ' ' << answer.body;
    return;
  }
  // 400: the object's form is wrong. Any other status would be another error than the case wants.
  EXPECT_TRUE(answer.status == 422 || answer.status == 400) << answer.status << ' ' << answer.body;
  for (const std::string& text : c.refused) {
    EXPECT_THAT(answer.body.value("message", ""), testing::HasSubstr(text));
  }
}

std::string NameOf(const testing::TestParamInfo<ObjectCase>& c) { return c.param.name; }

INSTANTIATE_TEST_SUITE_P(Pool, Crds, testing::ValuesIn(LoadCases("e2e/crds/objects/ippool.yaml")), NameOf);
INSTANTIATE_TEST_SUITE_P(Block, Crds, testing::ValuesIn(LoadCases("e2e/crds/objects/ipblock.yaml")), NameOf);
INSTANTIATE_TEST_SUITE_P(Others, Crds, testing::ValuesIn(LoadCases("e2e/crds/objects/others.yaml")), NameOf);

// Lists and maps with one element more than allowed, which are too long for the tables.
struct BoundCase {
  const char* name;
  const char* object;
  const char* pointer;  // JSON pointer to the replaced value
  nlohmann::json value;
  const char* message;
};

class CrdBounds : public testing::TestWithParam<BoundCase> {};

TEST_P(CrdBounds, HoldOnTheServer) {
  auto object = nlohmann::json::parse(GetParam().object);
  object[nlohmann::json::json_pointer(GetParam().pointer)] = GetParam().value;
  const Answer answer = Send(Method::kPost, CollectionOf(object) + kDryRun, object);
  EXPECT_EQ(answer.status, 422) << answer.body;
  EXPECT_THAT(answer.body.value("message", ""), testing::HasSubstr(GetParam().message));
}

constexpr const char* kPool = R"({"apiVersion": "ipam.berth.dev/v1alpha1", "kind": "IPPool", "metadata": {"name": "p"},
  "spec": {"subnet": "10.55.0.0/16"}})";
constexpr const char* kBlock = R"({"apiVersion": "ipam.berth.dev/v1alpha1", "kind": "IPBlock",
  "metadata": {"name": "10.55.9.0-24"}, "used": 0, "free": 0, "allocations": {},
  "spec": {"space": "default", "pool": "p", "poolUID": "u", "cidr": "10.55.9.0/24"}})";

nlohmann::json Labels(int count) {
  auto labels = nlohmann::json::object();
  for (int i = 0; i < count; ++i) labels["key" + std::to_string(i)] = "x";
  return labels;
}

const BoundCase kBounds[] = {
    {"Ranges", kPool, "/spec/ranges", std::vector<std::string>(65, "10.55.0.7"), "spec.ranges: Too many: 65"},
    {"Excludes", kPool, "/spec/exclude", std::vector<std::string>(257, "10.55.0.7"), "spec.exclude: Too many: 257"},
    {"Routes",
     kPool,
     "/spec/routes",
     std::vector<nlohmann::json>(65, {{"dst", "0.0.0.0/0"}}),
     "spec.routes: Too many: 65"},
    {"SelectorTerms",
     kPool,
     "/spec/nodeSelector",
     {{"matchLabels", Labels(20)},
      {"matchExpressions", std::vector<nlohmann::json>(13, {{"key", "a"}, {"operator", "Exists"}})}},
     "a selector may have at most 32 terms, matchLabels and matchExpressions together"},
    {"LabelKey",
     kPool,
     "/spec/nodeSelector/matchLabels",
     {{std::string(318, 'k'), "x"}},
     "a label key must have 1 to 317"},
    {"EntryLength",
     kBlock,
     "/allocations/0",
     std::string(801, 'x'),
     "allocations.0: Too long: may not be more than 800"},
    {"Entries",
     kBlock,
     "/allocations",
     [] {
       auto entries = nlohmann::json::object();
       for (int i = 0; i < 257; ++i) entries[std::to_string(i)] = "! x";
       return entries;
     }(),
     "allocations: Too many: 257"},
};
INSTANTIATE_TEST_SUITE_P(Table, CrdBounds, testing::ValuesIn(kBounds),
                         [](const auto& c) { return std::string(c.param.name); });

}  // namespace
}  // namespace berth::e2e
