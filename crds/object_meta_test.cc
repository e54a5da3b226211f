// SPDX-License-Identifier: Apache-2.0
// ObjectMeta: what is read, and what is refused.
#include "crds/object_meta.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace berth::crds {
namespace {

using Json = nlohmann::json;

Json GoodMetaObject() {
  return Json::parse(R"({"metadata": {
    "name": "web-0", "namespace": "team-a", "uid": "u1", "resourceVersion": "9", "generation": 2,
    "deletionTimestamp": "2027-01-31T12:00:00Z", "labels": {"a": "b"}, "annotations": {"c": "d"},
    "finalizers": ["x/y"], "future": 1,
    "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "web-0", "uid": "u2", "controller": true}]}})");
}

TEST(ObjectMeta, IsReadWithEveryField) {
  const auto meta = ParseObjectMeta(GoodMetaObject(), "Pod");
  ASSERT_TRUE(meta.has_value()) << meta.error().message;
  EXPECT_EQ(*meta,
            (ObjectMeta{.name = "web-0",
                        .name_space = "team-a",
                        .uid = "u1",
                        .resource_version = "9",
                        .generation = 2,
                        .deletion_timestamp = "2027-01-31T12:00:00Z",
                        .finalizers = {"x/y"}}));
  EXPECT_TRUE(meta->deleting());
}

TEST(ObjectMeta, NeedsNothingButAName) {
  const auto meta = ParseObjectMeta({{"metadata", {{"name", "n1"}, {"labels", nullptr}}}}, "Node");
  ASSERT_TRUE(meta.has_value()) << meta.error().message;
  EXPECT_FALSE(meta->deleting());
}

TEST(ObjectMeta, IsReadWhateverOthersHaveFilledItWith) {
  Json object = GoodMetaObject();
  Json& metadata = object["metadata"];
  for (int i = 0; i < 4097; ++i) {
    metadata["annotations"]["a" + std::to_string(i)] = "x";
    metadata["labels"]["l" + std::to_string(i)] = "x";
    metadata["ownerReferences"].push_back({{"uid", std::string(300, 'u')}});
  }
  metadata["annotations"]["long"] = std::string(300'000, 'x');
  for (int i = 0; i < 257; ++i) metadata["finalizers"].push_back("example.org/f" + std::to_string(i));
  metadata["managedFields"] = "of another shape";
  const auto meta = ParseObjectMeta(object, "Pod");
  ASSERT_TRUE(meta.has_value()) << meta.error().message;
  EXPECT_EQ(meta->finalizers.size(), 258U) << "a patch without one of them would take it out";
}

struct OddCase {
  const char* name;
  const char* object;
};

class OddObject : public testing::TestWithParam<OddCase> {};

TEST_P(OddObject, HasNeitherNameNorLabels) {
  const Json object = Json::parse(GetParam().object);
  EXPECT_EQ(NameOf(object), "");
  EXPECT_TRUE(LabelsOf(object).empty());
}

INSTANTIATE_TEST_SUITE_P(Table, OddObject,
                         testing::Values(OddCase{"Number", "5"}, OddCase{"Null", "null"}, OddCase{"List", "[1]"},
                                         OddCase{"Empty", "{}"}, OddCase{"MetadataIsANumber", R"({"metadata": 5})"},
                                         OddCase{"MetadataIsAList", R"({"metadata": [1]})"},
                                         OddCase{"NumbersInMetadata", R"({"metadata": {"name": 5, "labels": 6}})"},
                                         OddCase{"LabelsAreAList", R"({"metadata": {"name": null, "labels": ["a"]}})"},
                                         OddCase{"LabelsAreNumbers", R"({"metadata": {"labels": {"a": 1}}})"}),
                         [](const auto& row) { return std::string(row.param.name); });

struct RefusedMetaCase {
  const char* name;
  const char* path;
  Json value;
  const char* message;
};

class ObjectMetaRefused : public testing::TestWithParam<RefusedMetaCase> {};

TEST_P(ObjectMetaRefused, WithKindObjectAndField) {
  Json object = GoodMetaObject();
  object[Json::json_pointer(GetParam().path)] = GetParam().value;
  const auto meta = ParseObjectMeta(object, "Pod");
  ASSERT_FALSE(meta.has_value());
  EXPECT_EQ(meta.error().code, ErrorCode::kInvalid);
  EXPECT_THAT(meta.error().message, testing::StartsWith(GetParam().message));
}

const RefusedMetaCase kRefusedMetaCases[] = {
    {"NoObject", "", nullptr, "Pod is null, it must be an object"},
    {"NoMetadata", "/metadata", nullptr, "Pod: metadata.name: is missing"},
    {"NameEmpty", "/metadata/name", "", "Pod : metadata.name: is missing"},
    {"NameTooLong", "/metadata/name", std::string(254, 'x'), "Pod x"},
    {"UidNoText", "/metadata/uid", 5, "Pod web-0: metadata.uid is a number, it must be a string"},
    {"GenerationNegative",
     "/metadata/generation",
     -1,
     "Pod web-0: metadata.generation must be a whole number from 0 to"},
    {"FinalizersNoList",
     "/metadata/finalizers",
     "x",
     "Pod web-0: metadata.finalizers is a string, it must be a list of strings"},
    {"FinalizerNoText",
     "/metadata/finalizers/0",
     1,
     "Pod web-0: metadata.finalizers[0] is a number, it must be a string"},
};
INSTANTIATE_TEST_SUITE_P(Table, ObjectMetaRefused, testing::ValuesIn(kRefusedMetaCases),
                         [](const auto& c) { return std::string(c.param.name); });

TEST(FinalizersPatch, CarriesFinalizersAndResourceVersionOnly) {
  EXPECT_EQ(FinalizersPatch({.name = "web", .resource_version = "9"}, {"x/y"}),
            Json::parse(R"({"metadata": {"resourceVersion": "9", "finalizers": ["x/y"]}})"));
  EXPECT_EQ(FinalizersPatch({.name = "web", .resource_version = "9"}, {}),
            Json::parse(R"({"metadata": {"resourceVersion": "9", "finalizers": []}})"));
}

}  // namespace
}  // namespace berth::crds
