// SPDX-License-Identifier: Apache-2.0
// ReadObject: reads the same as nlohmann/json, except managedFields.
#include "k8sclient/object_reader.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "k8sclient/event_reader.h"

namespace berth::k8sclient {
namespace {

using nlohmann::json;

TEST(ReadObject, ReplacesManagedFieldsByAMarker) {
  const json want = json::parse(R"({"metadata":{"managedFields":[true],"name":"b"},"spec":{"node":"n1"}})");
  EXPECT_EQ(ReadObject(R"({"metadata":{"managedFields":[{"manager":"x","fieldsV1":{"f:metadata":{"f:a":[1]}}},{"a":1}],
                           "name":"b"},"spec":{"node":"n1"}})"),
            want);
}

TEST(ReadObject, LeavesOutAnEmptyItemOfManagedFields) {
  EXPECT_EQ(ReadObject(R"({"metadata":{"managedFields":[{}]}})"), json::parse(R"({"metadata":{"managedFields":[]}})"));
}

TEST(ReadObject, KeepsFieldsOfThatNameElsewhere) {
  const char* const text =
      R"({"managedFields":[{"a":1}],"spec":{"managedFields":[{"a":1}]},
          "metadata":{"annotations":{"managedFields":"x"},"name":"managedFields"}})";
  EXPECT_EQ(ReadObject(text), json::parse(text));
}

class ReadObjectAll : public ::testing::TestWithParam<const char*> {};

TEST_P(ReadObjectAll, ReadsWhatTheLibraryReads) {
  EXPECT_EQ(ReadObject(GetParam()).dump(), json::parse(GetParam(), nullptr, false).dump());
}

INSTANTIATE_TEST_SUITE_P(Texts, ReadObjectAll,
                         ::testing::Values("", "7", "[]", "not JSON", R"(["managedFields"])", R"("managedFields")",
                                           R"({"metadata":{"managedFields":)",
                                           R"({"metadata":{"managedFields":[{"a":1})",
                                           R"({"metadata":{"managedFields":null}})",
                                           R"({"metadata":{"managedFields":5}})",
                                           R"({"metadata":[{"managedFields":[{"a":1}]}]})"));

TEST(EventReader, ReplacesManagedFieldsByAMarker) {
  EXPECT_EQ(EventReader({}).Read(R"({"object":{"metadata":{"managedFields":[{"a":{"b":1}}],"name":"b"}}})"),
            json::parse(R"({"object":{"metadata":{"managedFields":[true],"name":"b"}}})"));
}

}  // namespace
}  // namespace berth::k8sclient
