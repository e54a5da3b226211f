// SPDX-License-Identifier: Apache-2.0
// The scheduler's questions in each form, and the answers to them.
#include "extender/wire.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace berth::extender {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

json Parsed(const std::string& text) { return json::parse(text, nullptr, false); }

TEST(Wire, ReadsTheKeysOfTodaysScheduler) {
  const auto question =
      ParseQuestion(R"({"Pod": {"metadata": {"name": "a"}}, "Nodes": null, "NodeNames": ["n1", "n2"]})");
  ASSERT_TRUE(question) << question.error().message;
  EXPECT_EQ(question->pod["metadata"]["name"], "a");
  EXPECT_THAT(question->names, ElementsAre("n1", "n2"));
  EXPECT_TRUE(question->nodes.is_null());
  EXPECT_FALSE(question->has_lower_keys);
}

TEST(Wire, ReadsTheKeysOf2017AndAnyOtherLetterCase) {
  for (const char* body : {R"({"pod": {}, "nodes": null, "nodenames": ["n1"]})",
                           R"({"pod": {}, "nodeNames": ["n1"]})",
                           R"({"POD": {}, "NODENAMES": ["n1"]})"}) {
    const auto question = ParseQuestion(body);
    ASSERT_TRUE(question) << body;
    EXPECT_THAT(question->names, ElementsAre("n1")) << body;
  }
}

TEST(Wire, TheExactKeyWinsOverAnotherCase) {
  const auto question = ParseQuestion(R"({"Pod": {}, "nodenames": ["wrong"], "NodeNames": ["n1"]})");
  ASSERT_TRUE(question);
  EXPECT_THAT(question->names, ElementsAre("n1"));
}

TEST(Wire, ReadsWholeNodes) {
  const auto question = ParseQuestion(
      R"({"Pod": {}, "Nodes": {"metadata": {}, "items": [{"metadata": {"name": "n1"}}, {"metadata": {"name": "n2"}}]},
          "NodeNames": null})");
  ASSERT_TRUE(question);
  EXPECT_THAT(question->names, ElementsAre("n1", "n2"));
}

TEST(Wire, SaysWhatIsWrongWithAQuestion) {
  const struct {
    const char* body;
    const char* says;
  } cases[] = {
      {"", "not JSON"},
      {"{", "not JSON"},
      {"[]", "no Pod"},
      {R"({"NodeNames": ["n1"]})", "no Pod"},
      {R"({"Pod": "a", "NodeNames": ["n1"]})", "no Pod"},
      {R"({"Pod": {}})", "neither NodeNames nor Nodes"},
      {R"({"Pod": {}, "Nodes": {}})", "neither NodeNames nor Nodes"},
      {R"({"Pod": {}, "NodeNames": "n1"})", "not a list"},
      {R"({"Pod": {}, "NodeNames": [1]})", "no name"},
      {R"({"Pod": {}, "NodeNames": ["n1", "n1"]})", "twice"},
      {R"({"Pod": {}, "Nodes": {"items": [{"metadata": {}}]}})", "no name"},
  };
  for (const auto& one : cases) {
    const auto question = ParseQuestion(one.body);
    ASSERT_FALSE(question) << one.body;
    EXPECT_THAT(question.error().message, HasSubstr(one.says)) << one.body;
  }
}

TEST(Wire, RefusesADeepQuestionWithoutAStackOverflow) {
  const std::string deep = R"({"Pod": )" + std::string(200'000, '[') + std::string(200'000, ']') + "}";
  EXPECT_FALSE(ParseQuestion(deep));
}

TEST(Wire, BracketsInAStringAreNoLevels) {
  const std::string text = std::string(200, '[') + R"(\"[\\)" + std::string(200, '{');
  EXPECT_TRUE(ParseQuestion(R"({"Pod": {"a": ")" + text + R"("}, "NodeNames": ["n1"]})"));
}

TEST(Wire, AThousandNodesAreNotTooManyLevels) {
  std::string nodes = R"({"metadata": {"name": "n0"}})";
  for (int i = 1; i < 1000; ++i) nodes += R"(, {"metadata": {"name": "n)" + std::to_string(i) + "\"}}";
  const auto question = ParseQuestion(R"({"Pod": {}, "Nodes": {"items": [)" + nodes + "]}}");
  ASSERT_TRUE(question);
  EXPECT_EQ(question->names.size(), 1000U);
}

const Choice kChoice{.nodes = {"n2"}, .full = {{"n1", "full"}}, .excluded = {{"n3", "no pool"}}};

TEST(Wire, AnswersNamesWithNames) {
  auto question = ParseQuestion(R"({"Pod": {}, "NodeNames": ["n1", "n2", "n3"]})");
  ASSERT_TRUE(question);
  EXPECT_EQ(Parsed(FilterAnswer(*std::move(question), kChoice)),
            Parsed(R"({"Nodes": null, "NodeNames": ["n2"], "FailedNodes": {"n1": "full"},
                       "FailedAndUnresolvableNodes": {"n3": "no pool"}, "Error": ""})"));
}

TEST(Wire, AnswersWholeNodesWithTheOfferedNodes) {
  auto question = ParseQuestion(
      R"({"pod": {}, "nodes": {"metadata": {}, "items": [{"metadata": {"name": "n1"}}, {"metadata": {"name": "n2"}, "spec": {}}]}})");
  ASSERT_TRUE(question);
  EXPECT_EQ(
      Parsed(FilterAnswer(*std::move(question), {.nodes = {"n2"}})),
      Parsed(R"({"nodes": {"metadata": {}, "items": [{"metadata": {"name": "n2"}, "spec": {}}]}, "nodenames": null,
                       "failedNodes": {}, "failedAndUnresolvableNodes": {}, "error": ""})"));
}

TEST(Wire, AnswersNoNodeWithAnEmptyListAndNotNull) {
  auto question = ParseQuestion(R"({"Pod": {}, "NodeNames": ["n1"]})");
  ASSERT_TRUE(question);
  EXPECT_EQ(Parsed(FilterAnswer(*std::move(question), {}))["NodeNames"], json::array());
}

TEST(Wire, AnErrorAnswerHasNoOtherMember) {
  EXPECT_EQ(Parsed(FilterError("why")), Parsed(R"({"Error": "berth: why"})"));
  EXPECT_EQ(Parsed(FilterError("why", true)), Parsed(R"({"error": "berth: why"})"));
}

TEST(Wire, ScoresStandBesideNames) {
  auto question = ParseQuestion(R"({"Pod": {}, "NodeNames": ["n1", "n2"]})");
  ASSERT_TRUE(question);
  EXPECT_EQ(Parsed(ScoreAnswer(*question, {10, 3})),
            Parsed(R"([{"Host": "n1", "Score": 10}, {"Host": "n2", "Score": 3}])"));
}

}  // namespace
}  // namespace berth::extender
