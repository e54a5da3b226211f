// SPDX-License-Identifier: Apache-2.0
// HTTP messages: which fields and answers the functions read, and how they rewrite a head.
#include "e2e/http_message.h"

#include <gtest/gtest.h>

namespace berth::e2e {
namespace {

TEST(HttpMessage, FieldsAreFoundInAnyLetterCase) {
  constexpr std::string_view kHead = "PATCH /x HTTP/1.1\r\nHost: a\r\nCONTENT-length:  12\r\n";
  EXPECT_EQ(HeaderValue(kHead, "content-length"), "12");
  EXPECT_EQ(ContentLength(kHead), 12U);
  EXPECT_EQ(HeaderValue(kHead, "Accept"), std::nullopt);
  EXPECT_EQ(ContentLength("GET / HTTP/1.1\r\n"), 0U);
}

TEST(HttpMessage, AskingToCloseReplacesConnectionAndExpect) {
  EXPECT_EQ(AskToClose("GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive\r\nExpect: 100-continue\r\nA: b\r\n"),
            "GET / HTTP/1.1\r\nHost: a\r\nA: b\r\nConnection: close\r\n\r\n");
}

TEST(HttpMessage, ChunksAreJoined) {
  const auto answer = ParseAnswer(
      "HTTP/1.1 201 Created\r\nA: b\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
      "4\r\nabcd\r\n1\r\ne\r\n0\r\n\r\n");
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->status, 201);
  EXPECT_EQ(answer->message, "HTTP/1.1 201 Created\r\nA: b\r\nContent-Length: 5\r\n\r\nabcde");
}

TEST(HttpMessage, AnAnswerThatWasCutShortIsNone) {
  EXPECT_FALSE(ParseAnswer("").has_value());
  EXPECT_FALSE(ParseAnswer("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n").has_value());
  EXPECT_FALSE(ParseAnswer("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabcd").has_value());
  EXPECT_FALSE(ParseAnswer("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nab").has_value());
}

}  // namespace
}  // namespace berth::e2e
