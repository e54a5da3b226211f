// SPDX-License-Identifier: Apache-2.0
// ErrorJson: the object's form, and that it never contains a phrase on which runtimes act.
#include "cni/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace berth::cni {
namespace {

Error Make(ErrorCode code, std::string message, std::string details = {}) {
  return {.code = code, .message = std::move(message), .details = std::move(details)};
}

TEST(ErrorJson, HoldsVersionCodeMessageAndDetails) {
  const auto object =
      nlohmann::json::parse(ErrorJson(Make(ErrorCode::kInvalid, "pool v4: disabled", "enable it"), Version::k0_4_0));
  const nlohmann::json want = {
      {"cniVersion", "0.4.0"}, {"code", 7}, {"msg", "pool v4: disabled"}, {"details", "enable it"}};
  EXPECT_EQ(object, want);
}

TEST(ErrorJson, CodeIsAnUnsignedInteger) {
  const auto object = nlohmann::json::parse(ErrorJson(Make(ErrorCode::kInternal, "x"), kNewestVersion));
  EXPECT_TRUE(object["code"].is_number_unsigned());
}

TEST(ErrorJson, EmptyDetailsAreLeftOut) {
  const auto object = nlohmann::json::parse(ErrorJson(Make(ErrorCode::kInvalid, "x"), kNewestVersion));
  EXPECT_FALSE(object.contains("details"));
}

TEST(ErrorJson, BytesThatAreNotUtf8AreReplaced) {
  const auto object =
      nlohmann::json::parse(ErrorJson(Make(ErrorCode::kEnvironment, "a\xFF\xC3", "\x80"), kNewestVersion));
  EXPECT_EQ(object["msg"], "a\xEF\xBF\xBD\xEF\xBF\xBD");
}

TEST(ErrorJson, IsOneLine) {
  EXPECT_THAT(ErrorJson(Make(ErrorCode::kInvalid, "a\nb", "c\r\nd"), kNewestVersion),
              testing::Not(testing::HasSubstr("\n")));
}

TEST(ErrorJson, TriggerPhrasesAreReworded) {
  const std::string text = ErrorJson(
      Make(ErrorCode::kNotFound, "ippools \"p\" not found", "open /x: No such file or directory"), kNewestVersion);
  EXPECT_EQ(nlohmann::json::parse(text)["msg"], "ippools \"p\" does not exist");
  EXPECT_EQ(nlohmann::json::parse(text)["details"], "open /x: does not exist");
}

struct PhraseCase {
  const char* name;
  const char* text;
  const char* want;
};
class WithoutTriggerPhrasesTable : public testing::TestWithParam<PhraseCase> {};

TEST_P(WithoutTriggerPhrasesTable, Rewords) { EXPECT_EQ(WithoutTriggerPhrases(GetParam().text), GetParam().want); }

constexpr PhraseCase kPhraseCases[] = {
    {"PlainTextStays", "pool v4 has no room", "pool v4 has no room"},
    {"NotFound", "pod not found", "pod does not exist"},
    {"AnyCase", "404 Not Found", "404 does not exist"},
    {"Twice", "not found: not found", "does not exist: does not exist"},
    {"NoSuchFile", "no such file or directory", "does not exist"},
    {"NetworkNotReady", "Network is not ready now", "network cannot be used yet now"},
    {"AtTheEndCutShort", "not foun", "not foun"},
    {"NestedInItself", "not not foundfound", "not does not existfound"},
};
INSTANTIATE_TEST_SUITE_P(Table, WithoutTriggerPhrasesTable, testing::ValuesIn(kPhraseCases),
                         [](const auto& c) { return std::string(c.param.name); });

}  // namespace
}  // namespace berth::cni
