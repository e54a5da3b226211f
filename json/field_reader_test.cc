// SPDX-License-Identifier: Apache-2.0
// Both readers: what they read, how they name errors, and where they differ.
#include "json/field_reader.h"

#include <array>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "json/ordered_tree.h"

namespace berth {
namespace {

using testing::ElementsAre;
using testing::Pair;

constexpr std::size_t kCountMax = 3;
constexpr std::size_t kLengthMax = 8;

template <typename Tree>
class EveryReader : public testing::Test {
 protected:
  using Reader = BasicFieldReader<Tree>;

  // The message of the first failure while `read` runs; empty: no failure.
  std::string Failure(const char* text, const std::function<void(const Reader&)>& read) {
    Problem problem{.object = "Thing t"};
    const Tree document = Tree::parse(text);
    read(Reader(document, problem));
    code_ = problem.error ? problem.error->code : ErrorCode::kInternal;
    return problem.error ? problem.error->message : "";
  }

  ErrorCode code_ = ErrorCode::kInternal;
  // The error code for a value of the wrong type.
  static constexpr ErrorCode kWrongType = Reader::kIsOrdered ? ErrorCode::kDecode : ErrorCode::kInvalid;
};
using Trees = testing::Types<nlohmann::json, nlohmann::ordered_json>;
TYPED_TEST_SUITE(EveryReader, Trees);

TYPED_TEST(EveryReader, ReadsEachType) {
  const auto failure = this->Failure(
      R"({"s":"text","n":-5,"b":true,"ns":[1,2],"ss":["a","b"],"m":{"k":"v","l":"w"},"o":{"os":[{"x":"1"},{"x":"2"}]}})",
      [](const auto& fields) {
        EXPECT_EQ(fields.String("s", kLengthMax), "text");
        EXPECT_EQ(fields.Integer("n", -5, 5), -5);
        EXPECT_TRUE(fields.Bool("b", false));
        EXPECT_THAT(fields.Integers("ns", kCountMax, 1, 2), ElementsAre(1, 2));
        EXPECT_THAT(fields.Strings("ss", kCountMax, kLengthMax), ElementsAre("a", "b"));
        EXPECT_THAT(fields.StringMap("m", kCountMax, kLengthMax), ElementsAre(Pair("k", "v"), Pair("l", "w")));
        std::string seen;
        fields.Object("o").ForEach("os", kCountMax, [&](const auto& one) { seen += one.String("x", kLengthMax); });
        EXPECT_EQ(seen, "12");
      });
  EXPECT_EQ(failure, "");
}

TYPED_TEST(EveryReader, TakesNullForAbsent) {
  for (const char* text : {R"({"x":null})", "{}"}) {
    const auto failure = this->Failure(text, [](const auto& fields) {
      EXPECT_FALSE(fields.Has("x"));
      EXPECT_EQ(fields.String("x", kLengthMax), "");
      EXPECT_EQ(fields.Integer("x", 0, 5), std::nullopt);
      EXPECT_TRUE(fields.Bool("x", true));
      EXPECT_THAT(fields.Strings("x", kCountMax, kLengthMax), ElementsAre());
      EXPECT_EQ(fields.Object("x").Object("y").String("z", kLengthMax), "");
      fields.ForEach("x", kCountMax, [](const auto&) { FAIL() << "there is no element"; });
    });
    EXPECT_EQ(failure, "");
    EXPECT_EQ(this->Failure(text, [](const auto& fields) { fields.Require("x"); }), "Thing t: x: is missing");
  }
}

TYPED_TEST(EveryReader, NamesTheFieldOfAnotherType) {
  constexpr const char* kText = R"({"s":"text","n":5,"l":[[]],"o":{"b":{"deep":1}}})";
  const auto failure = [this](const auto& read) {
    auto message = this->Failure(kText, read);
    EXPECT_EQ(this->code_, this->kWrongType) << message;
    return message;
  };
  EXPECT_EQ(failure([](const auto& f) { static_cast<void>(f.String("n", kLengthMax)); }),
            "Thing t: n is a number, it must be a string");
  EXPECT_EQ(failure([](const auto& f) { static_cast<void>(f.Integer("s", 0, 5)); }),
            "Thing t: s is a string, it must be a number");
  EXPECT_EQ(failure([](const auto& f) { static_cast<void>(f.Bool("l", false)); }),
            "Thing t: l is a list, it must be true or false");
  EXPECT_EQ(failure([](const auto& f) { static_cast<void>(f.Strings("l", kCountMax, kLengthMax)); }),
            "Thing t: l[0] is a list, it must be a string");
  EXPECT_EQ(failure([](const auto& f) { f.ForEach("l", kCountMax, [](const auto&) {}); }),
            "Thing t: l[0] is a list, it must be an object");
  EXPECT_EQ(failure([](const auto& f) { f.ForEach("o", kCountMax, [](const auto&) {}); }),
            "Thing t: o is an object, it must be a list of objects");
  EXPECT_EQ(failure([](const auto& f) { static_cast<void>(f.Object("o").Object("b").Object("deep")); }),
            "Thing t: o.b.deep is a number, it must be an object");
  EXPECT_EQ(failure([](const auto& f) { static_cast<void>(f.Object("o").StringMap("b", kCountMax, kLengthMax)); }),
            "Thing t: o.b.deep is a number, it must be a string");
  EXPECT_EQ(this->Failure("[]", [](const auto&) {}), "Thing t is a list, it must be an object");
}

TYPED_TEST(EveryReader, KeepsBounds) {
  constexpr const char* kText =
      R"({"n":6,"big":18446744073709551615,"f":1.5,"s":"123456789","l":["a","b","c","d"],"m":{"123456789":""}})";
  const auto failure = [this](const auto& read) {
    auto message = this->Failure(kText, read);
    EXPECT_EQ(this->code_, ErrorCode::kInvalid) << message;
    return message;
  };
  EXPECT_EQ(failure([](const auto& f) { EXPECT_EQ(f.Integer("n", 0, 5), std::nullopt); }),
            "Thing t: n must be a whole number from 0 to 5, is 6");
  EXPECT_EQ(failure([](const auto& f) { EXPECT_EQ(f.Integer("big", -1, 5), std::nullopt); }),
            "Thing t: big must be a whole number from -1 to 5, is 18446744073709551615");
  EXPECT_EQ(failure([](const auto& f) { EXPECT_EQ(f.Integer("f", 0, 5), std::nullopt); }),
            "Thing t: f must be a whole number from 0 to 5, is 1.5");
  EXPECT_EQ(failure([](const auto& f) { EXPECT_EQ(f.String("s", kLengthMax), ""); }),
            "Thing t: s: must have at most 8 bytes, has 9: \"123456789\"");
  EXPECT_EQ(failure([](const auto& f) { EXPECT_THAT(f.Strings("l", kCountMax, kLengthMax), ElementsAre()); }),
            "Thing t: l: must have at most 3 elements, has 4");
  EXPECT_EQ(failure([](const auto& f) { static_cast<void>(f.StringMap("m", kCountMax, kLengthMax)); }),
            "Thing t: m.123456789: must have at most 8 bytes, has 9: \"123456789\"");
  EXPECT_EQ(failure([](const auto& f) { static_cast<void>(f.StringMap("m", 0, kLengthMax)); }),
            "Thing t: m: must have at most 0 entries, has 1");
}

TYPED_TEST(EveryReader, KeepsTheFirstFailureAndReadsNothingAfterIt) {
  EXPECT_EQ(this->Failure(R"({"first":1,"second":"x"})",
                          [](const auto& fields) {
                            EXPECT_EQ(fields.String("first", kLengthMax), "");
                            EXPECT_EQ(fields.String("second", kLengthMax), "");
                            EXPECT_FALSE(fields.Has("second"));
                            fields.Fail("second", "is wrong");
                            fields.Report({.code = ErrorCode::kIo, .message = "is wrong"});
                          }),
            "Thing t: first is a number, it must be a string");
}

TYPED_TEST(EveryReader, ReadsTextThatAParserUnderstands) {
  const auto parse = +[](std::string_view text) -> Expected<std::size_t> {
    if (text == "bad") return Fail(ErrorCode::kInvalid, "is bad");
    return text.size();
  };
  EXPECT_EQ(this->Failure(R"({"x":"abc","empty":"","l":["a","ab"]})",
                          [parse](const auto& fields) {
                            EXPECT_EQ(fields.Parsed("x", kLengthMax, parse), 3U);
                            EXPECT_EQ(fields.Parsed("empty", kLengthMax, parse), std::nullopt);
                            EXPECT_THAT(fields.ParsedList("l", kCountMax, kLengthMax, parse), ElementsAre(1U, 2U));
                          }),
            "");
  EXPECT_EQ(this->Failure(
                R"({"o":{"x":"bad"}})",
                [parse](const auto& fields) { static_cast<void>(fields.Object("o").Parsed("x", kLengthMax, parse)); }),
            "Thing t: o.x: is bad");
}

TEST(FieldReader, FindsTheExactSpellingOnly) {
  const auto document = nlohmann::json::parse(R"({"NAME":"a"})");
  Problem problem;
  EXPECT_FALSE(FieldReader(document, problem).Has("name"));
}

TEST(AnyCaseReader, FindsTheLastMemberThatIsNotNullInAnyLetterCase) {
  constexpr std::array<std::string_view, 2> kWanted = {"name", "map"};
  const auto tree =
      ParseJson(R"({"name":"a","NAME":"b","Name":null,"map":{"k":"1","k":"2"},"other":"x"})", kWanted).value();
  Problem problem;
  const AnyCaseReader fields(tree, problem);
  EXPECT_EQ(fields.String("name"), "b");
  EXPECT_THAT(fields.StringMap("MAP", kUnbounded, kUnbounded), ElementsAre(Pair("k", "2")));
  EXPECT_FALSE(fields.Has("other"));
  EXPECT_TRUE(FindMember(tree, "name", Nulls::kPresent)->is_null());
}

// Adding a member to an object must not change or reorder the other members.
TEST(OrderedTree, PrintsWhatWasParsed) {
  std::string text = "1";
  for (int depth = 0; depth < 100; ++depth) {
    text = R"({"a":)" + text + R"(,"b":[[],{}],"a":"x","c":-1,"d":1.5,"e":null,"f":[true,")" + "\xC3\xA9" + R"("]})";
  }
  constexpr std::array<std::string_view, 6> kWanted = {"a", "b", "c", "d", "e", "f"};
  EXPECT_EQ(ParseJson(text, kWanted).value().dump(), text);
}

}  // namespace
}  // namespace berth
