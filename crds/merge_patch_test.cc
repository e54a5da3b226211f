// SPDX-License-Identifier: Apache-2.0
// DiffMergePatch: the patch is minimal, and changes one document into the other.
#include "crds/merge_patch.h"

#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace berth::crds {
namespace {

using Json = nlohmann::json;

struct DiffCase {
  const char* name;
  const char* before;
  const char* after;
  const char* patch;
};

class Diff : public testing::TestWithParam<DiffCase> {};

TEST_P(Diff, IsMinimalAndLeadsThere) {
  const Json before = Json::parse(GetParam().before);
  const Json after = Json::parse(GetParam().after);
  const Json patch = DiffMergePatch(before, after);
  EXPECT_EQ(patch, Json::parse(GetParam().patch));
  Json patched = before;
  patched.merge_patch(patch);
  EXPECT_EQ(patched, after);
}

constexpr DiffCase kDiffCases[] = {
    {"Equal", R"({"a": 1, "b": {"c": [1]}})", R"({"a": 1, "b": {"c": [1]}})", "{}"},
    {"Added", "{}", R"({"a": {"b": 1}})", R"({"a": {"b": 1}})"},
    {"Removed", R"({"a": 1})", "{}", R"({"a": null})"},
    {"Changed", R"({"a": 1, "b": 2})", R"({"a": 3, "b": 2})", R"({"a": 3})"},
    {"Nested", R"({"a": {"b": 1, "c": 2}})", R"({"a": {"b": 1, "c": 3}})", R"({"a": {"c": 3}})"},
    {"NestedRemoved", R"({"a": {"b": 1, "c": 2}})", R"({"a": {"b": 1}})", R"({"a": {"c": null}})"},
    {"NestedEmptied", R"({"a": {"b": 1}})", R"({"a": {}})", R"({"a": {"b": null}})"},
    {"ListWhole", R"({"a": [1, 2]})", R"({"a": [1, 3]})", R"({"a": [1, 3]})"},
    {"ObjectForText", R"({"a": "x"})", R"({"a": {"b": 1}})", R"({"a": {"b": 1}})"},
    {"TextForObject", R"({"a": {"b": 1}})", R"({"a": "x"})", R"({"a": "x"})"},
};
INSTANTIATE_TEST_SUITE_P(Table, Diff, testing::ValuesIn(kDiffCases),
                         [](const auto& c) { return std::string(c.param.name); });

TEST(MergeElements, KeepsUnknownFieldsOfElementsThatStay) {
  const Json before = Json::parse(R"([{"k": "a", "v": 1, "future": 7}, {"k": "b", "v": 2, "future": 8}])");
  const Json merged = MergeElements(before, {Json{{"k", "b"}, {"v", 3}}, Json{{"k", "c"}, {"v", 4}}}, {"k"});
  EXPECT_EQ(merged, Json::parse(R"([{"k": "b", "v": 3, "future": 8}, {"k": "c", "v": 4}])"));
}

TEST(MergeElements, ComparesAllKeys) {
  const Json before = Json::parse(R"([{"k": "a", "uid": "1", "future": 7}])");
  const Json merged = MergeElements(before, {Json{{"k", "a"}, {"uid", "2"}}}, {"k", "uid"});
  EXPECT_EQ(merged, Json::parse(R"([{"k": "a", "uid": "2"}])"));
}

TEST(MergeElements, TakesAnythingAsThePreviousList) {
  const Json want = Json::parse(R"([{"k": "a"}])");
  for (const char* before : {"null", "7", "[7, \"x\", null, {}]", "{}"}) {
    EXPECT_EQ(MergeElements(Json::parse(before), {Json{{"k", "a"}}}, {"k"}), want) << before;
  }
}

}  // namespace
}  // namespace berth::crds
