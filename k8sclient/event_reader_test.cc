// SPDX-License-Identifier: Apache-2.0
// EventReader: reads the same as nlohmann/json, except skipped fields.
#include "k8sclient/event_reader.h"

#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace berth::k8sclient {
namespace {

using nlohmann::json;

TEST(EventReader, LeavesOutSkippedFields) {
  EventReader reader({.members = {{"spec", {.skipped = {"containers", "volumes"}}}}});
  EXPECT_EQ(reader.Read(R"({"type":"ADDED","object":{"spec":{"containers":[{"a":1}],"nodeName":"n1","volumes":{}}}})"),
            json::parse(R"({"type":"ADDED","object":{"spec":{"nodeName":"n1"}}})"));
}

TEST(EventReader, ReadsOnlyTheWantedFieldsOfEachItem) {
  EventReader reader({.members = {{"spec", {.members = {{"containers", {.only = {"resources"}}}}}}}});
  EXPECT_EQ(reader.Read(R"({"object":{"spec":{"containers":[{"a":1,"resources":{"a":2}},{"a":1}],"a":3}}})"),
            json::parse(R"({"object":{"spec":{"containers":[{"resources":{"a":2}},{}],"a":3}}})"));
}

TEST(EventReader, KeepsFieldsOfThatNameElsewhere) {
  EventReader reader({.members = {{"spec", {.skipped = {"containers"}}}}});
  const char* const event =
      R"({"spec":{"containers":1},"object":{"containers":2,"status":{"containers":3},"a":{"spec":{"containers":4}}}})";
  EXPECT_EQ(reader.Read(event), json::parse(event));
}

TEST(EventReader, ReadsOneEventAfterAnother) {
  EventReader reader({});
  static_cast<void>(reader.Read(R"({"type":"ADDED","object":{"a":"a long text of the first"}})"));
  EXPECT_EQ(reader.Read(R"({"object":{}})"), json::parse(R"({"object":{}})"));
}

class EventReaderAll : public ::testing::TestWithParam<const char*> {};

TEST_P(EventReaderAll, ReadsWhatTheLibraryReads) {
  EXPECT_EQ(EventReader({.members = {{"spec", {.skipped = {"x"}}}}}).Read(GetParam()).dump(),
            json::parse(GetParam(), nullptr, false).dump());
}

INSTANTIATE_TEST_SUITE_P(
    Texts, EventReaderAll,
    ::testing::Values(
        R"({"object":{"a":"\u00e4\n\"\\","b":"ä","\u0063":1}})",
        R"({"object":{"a":{"i":-1,"u":18446744073709551615,"d":1.5,"e":1e3,"t":true,"f":false,"n":null}}})",
        R"({"object":{"a":123456789012345678901234567890}})", R"({"object":{"a":[[],{},[1,["x"]]]}})",
        R"({"object":{"a":1,"a":2}})", R"({"object":{"spec":null}})", R"({"object":[1]})", R"({"object":"text"})",
        R"({"type":"BOOKMARK"})", "[]", "7", "{}", "", "{", "not JSON", R"({"object":{"a":)",
        "{\"object\":{\"a\":\"\xff\"}}"));

TEST(EventReader, ReadsWhatIsNestedDeeply) {
  constexpr int kDeep = 3000;
  const std::string event = R"({"object":)" + std::string(kDeep, '[') + std::string(kDeep, ']') + "}";
  EXPECT_EQ(EventReader({}).Read(event), json::parse(event));
}

TEST(EventReader, AnEventThatIsNestedAHundredThousandTimesDoesNotFillTheStack) {
  constexpr int kDeep = 100'000;
  const std::string event = R"({"object":)" + std::string(kDeep, '[') + std::string(kDeep, ']') + "}";
  EXPECT_TRUE(EventReader({}).Read(event).contains("object"));
}

}  // namespace
}  // namespace berth::k8sclient
