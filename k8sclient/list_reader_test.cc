// SPDX-License-Identifier: Apache-2.0
// ListReader: returns the same items for any pieces, and an error if the text is not a list.
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "k8sclient/object_reader.h"

namespace berth::k8sclient {
namespace {

using nlohmann::json;

constexpr std::size_t kTestBytesMax = 200;

// Returns the items as JSON text with blanks between them, then "version" or "version/token", or the error.
std::string Read(std::string_view text, std::size_t piece_bytes) {
  std::string items;
  ListReader reader(kTestBytesMax, [&items](const json& item) { items += item.dump() + " "; });
  bool goes_on = true;
  for (std::string_view rest = text; goes_on && !rest.empty(); rest.remove_prefix(std::min(piece_bytes, rest.size()))) {
    goes_on = reader.Feed(rest.substr(0, piece_bytes));
  }
  const auto summary = reader.End();
  if (!summary) return items + "error: " + summary.error().message;
  EXPECT_TRUE(goes_on);
  const std::string& token = summary->continue_token;
  return items + summary->resource_version + (token.empty() ? "" : "/" + token);
}

struct ListTextCase {
  const char* name;
  std::string text;
  std::string want;  // how Read's result begins
};
class ListText : public ::testing::TestWithParam<ListTextCase> {};

TEST_P(ListText, ReadsTheSameInPiecesOfAnySize) {
  const ListTextCase& c = GetParam();
  for (const std::size_t piece_bytes : {1U, 2U, 3U, 7U, 10'000U}) {
    const std::string got = Read(c.text, piece_bytes);
    EXPECT_EQ(got.substr(0, c.want.size()), c.want) << "in pieces of " << piece_bytes << ": " << got;
    EXPECT_EQ(got.contains("error"), c.want.contains("error")) << got;
  }
}

const ListTextCase kListTextCases[] = {
    {"ItemsBeforeMetadata",
     R"({"items":[{"a":1},{"a":2}],"metadata":{"resourceVersion":"7"}})",
     R"({"a":1} {"a":2} 7)"},
    {"ItemsBehindMetadata",
     R"({"kind":"L","metadata":{"continue":"t","resourceVersion":"7"},"items":[{"a":1}]})",
     R"({"a":1} 7/t)"},
    {"NoItems", R"({"items":[],"metadata":{"resourceVersion":"7"}})", "7"},
    {"NullItems", R"({"items":null,"metadata":{"resourceVersion":"7"}})", "7"},
    {"Blanks", " { \"items\" : [ { \"a\" : [ 1 , 2 ] } , 3 ] ,\n \"metadata\" : { } } ", R"({"a":[1,2]} 3 )"},
    {"BracesAndQuotesInText",
     R"({"items":[{"a":"}],\"{"},{"a":"\\"}],"metadata":{"resourceVersion":"7"}})",
     R"({"a":"}],\"{"} {"a":"\\"} 7)"},
    {"ItemsInsideAnItem",
     R"({"items":[{"items":[1,2]}],"metadata":{"resourceVersion":"7","items":[3]}})",
     R"({"items":[1,2]} 7)"},
    {"AKeyThatEndsLikeItems", R"({"x\"items":[1],"items":[2],"metadata":{}})", "2 "},
    {"ItemTooLarge", R"({"items":[{"a":")" + std::string(300, 'x') + R"("}],"metadata":{}})", "error: an item of"},
    {"EnvelopeTooLarge",
     R"({"items":[1],"metadata":{"x":")" + std::string(300, 'x') + R"("}})",
     "1 error: the part of"},
    {"ItemIsNoJson", R"({"items":[{"a":1},{"a":oops}],"metadata":{}})", R"({"a":1} error: an item of the list is not)"},
    {"EmptyItem", R"({"items":[1,,2],"metadata":{}})", "1 error: an item of the list is not"},
    {"CommaBehindTheLast", R"({"items":[1,],"metadata":{}})", "1 error: an item of the list is not"},
    {"ItemClosedByTheOtherBrace", R"({"items":[1},"metadata":{}])", "1 error: "},
    {"CutOff", R"({"items":[{"a":1},{"a")", R"({"a":1} error: the answer is not a JSON object)"},
    {"AnArray", "[]", "error: the answer is not a JSON object"},
    {"ClosedMoreThanOpened", "}]}{[", "error: the answer is not a JSON object"},
    {"Nothing", "", "error: the answer is not a JSON object"},
    {"AnObject", R"({"metadata":{"name":"x"}})", "error: the answer is not a list"},
    {"TheKeyInEscapes", R"({"\u0069tems":[1],"metadata":{}})", "error: the answer is a list in an unknown form"},
};
INSTANTIATE_TEST_SUITE_P(Table, ListText, ::testing::ValuesIn(kListTextCases),
                         [](const auto& c) { return std::string(c.param.name); });

}  // namespace
}  // namespace berth::k8sclient
