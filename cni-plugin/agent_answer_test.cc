// SPDX-License-Identifier: Apache-2.0
// ParseAgentAnswer: complete answers, beginnings of answers, and bytes that cannot become an answer.
#include "cni-plugin/agent_answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace berth::cni_plugin {
namespace {

using testing::HasSubstr;

struct AnswerCase {
  const char* name;
  std::string bytes;
  AgentAnswer want;
};
class CompleteAnswer : public testing::TestWithParam<AnswerCase> {};

TEST_P(CompleteAnswer, IsParsed) {
  const auto got = ParseAgentAnswer(GetParam().bytes);
  ASSERT_TRUE(got.has_value()) << got.error().message;
  ASSERT_TRUE(got->has_value()) << "taken for the beginning of one";
  EXPECT_EQ((*got)->status, GetParam().want.status);
  EXPECT_EQ((*got)->is_new, GetParam().want.is_new);
  EXPECT_EQ((*got)->body, GetParam().want.body);
}

// The socket may deliver an answer in pieces.
TEST_P(CompleteAnswer, IsNotCompleteBeforeItsLastByte) {
  const std::string_view bytes = GetParam().bytes;
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const auto got = ParseAgentAnswer(bytes.substr(0, size));
    ASSERT_TRUE(got.has_value()) << got.error().message << " at " << size;
    EXPECT_FALSE(got->has_value()) << "complete after " << size;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Table, CompleteAnswer,
    testing::Values(
        AnswerCase{
            "Empty", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", {.status = 200, .is_new = false, .body = ""}},
        AnswerCase{
            "Body", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", {.status = 200, .is_new = false, .body = "{}"}},
        AnswerCase{
            "NoReason", "HTTP/1.0 500\r\nContent-Length: 1\r\n\r\nx", {.status = 500, .is_new = false, .body = "x"}},
        AnswerCase{"FieldsInAnyCaseWithBlanks",
                   "HTTP/1.1 200 OK\r\nX-Other: 1\r\ncontent-length: \t3 \r\nBERTH-TOOK:1\r\n\r\n\r\n\n",
                   {.status = 200, .is_new = true, .body = "\r\n\n"}},
        AnswerCase{"FieldsOfALaterAgent",
                   "HTTP/1.1 200 OK\r\nBerth-Took: 1\r\nBerth-Took-From: p1\r\nContent-Length: 0\r\nBerth: 2\r\n\r\n",
                   {.status = 200, .is_new = true, .body = ""}},
        AnswerCase{"TookNothing",
                   "HTTP/1.1 200 OK\r\nBerth-Took: 0\r\nContent-Length: 0\r\n\r\n",
                   {.status = 200, .is_new = false, .body = ""}},
        AnswerCase{"LongestBody",
                   "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n" + std::string(100, 'x'),
                   {.status = 200, .is_new = false, .body = std::string(100, 'x')}}),
    [](const auto& c) { return std::string(c.param.name); });

TEST(AgentAnswer, IgnoresBytesAfterTheBody) {
  const auto got = ParseAgentAnswer("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}HTTP/1.1");
  EXPECT_EQ(got.value().value().body, "{}");
}

struct RefusedCase {
  const char* name;
  std::string bytes;
  const char* message;
};
class RefusedAnswer : public testing::TestWithParam<RefusedCase> {};

TEST_P(RefusedAnswer, GivesAnErrorThatSaysWhatIsWrong) {
  const auto got = ParseAgentAnswer(GetParam().bytes);
  ASSERT_FALSE(got.has_value());
  EXPECT_EQ(got.error().code, ErrorCode::kDecode);
  EXPECT_THAT(got.error().message, HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    Table, RefusedAnswer,
    testing::Values(
        RefusedCase{"AnotherProtocol", "+PONG\r\n\r\n", "begins with \"+PONG\", which is not HTTP"},
        RefusedCase{"Http2", "HTTP/2 200 OK\r\nContent-Length: 0\r\n\r\n", "not HTTP"},
        RefusedCase{"NoStatus", "HTTP/1.1 \r\nContent-Length: 0\r\n\r\n", "not HTTP"},
        RefusedCase{"StatusIsNoNumber", "HTTP/1.1 2x0 OK\r\nContent-Length: 0\r\n\r\n", "not HTTP"},
        RefusedCase{"StatusOfFourDigits", "HTTP/1.1 2000 OK\r\nContent-Length: 0\r\n\r\n", "not HTTP"},
        RefusedCase{"NegativeStatus", "HTTP/1.1 -20 OK\r\nContent-Length: 0\r\n\r\n", "not HTTP"},
        RefusedCase{"NoLength", "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{}", "no Content-Length"},
        RefusedCase{"Chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}", "no Content-Length"},
        RefusedCase{"LengthIsNoNumber", "HTTP/1.1 200 OK\r\nContent-Length: 2x\r\n\r\n{}", "no Content-Length"},
        RefusedCase{"NegativeLength", "HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\n{}", "no Content-Length"},
        RefusedCase{"LengthOverflows",
                    "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n{}",
                    "no Content-Length"},
        RefusedCase{"OneByteOverTheLimit", "HTTP/1.1 200 OK\r\nContent-Length: 1048577\r\n\r\n", "more than 1 MiB"},
        RefusedCase{"EndlessHead", "HTTP/1.1 200 OK\r\n" + std::string(kAnswerHeadBytesMax, 'x'), "more than 16 KiB"}),
    [](const auto& c) { return std::string(c.param.name); });

TEST(AgentRequest, IsOneHttpRequestThatClosesItsConnection) {
  EXPECT_EQ(MakeAgentRequest("{\"a\":1}"),
            "POST /cni HTTP/1.1\r\nHost: berth-agent\r\nContent-Type: application/json\r\nConnection: close\r\n"
            "Content-Length: 7\r\n\r\n{\"a\":1}");
}

}  // namespace
}  // namespace berth::cni_plugin
