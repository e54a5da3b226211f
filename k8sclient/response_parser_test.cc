// SPDX-License-Identifier: Apache-2.0
// ResponseParser: what it accepts and refuses, whole and cut into pieces of every size.
#include "k8sclient/response_parser.h"

#include <string>

#include <gtest/gtest.h>

namespace berth::k8sclient {
namespace {

using ParserOutcome = ResponseParser::Outcome;

struct Parsed {
  ParserOutcome outcome = ParserOutcome::kMore;
  std::string body;
  int status = 0;
  bool keep_alive = false;
  std::string problem;
};

// Feeds `text` in pieces of that size, then the end of the connection if it is not complete.
Parsed Parse(const std::string& text, std::size_t piece_bytes) {
  Parsed parsed;
  ResponseParser parser([&parsed](std::string_view piece) {
    parsed.body += piece;
    return true;
  });
  for (std::size_t at = 0; at < text.size() && parsed.outcome == ParserOutcome::kMore; at += piece_bytes) {
    parsed.outcome = parser.Feed(std::string_view(text).substr(at, piece_bytes));
  }
  if (parsed.outcome == ParserOutcome::kMore) parsed.outcome = parser.End();
  parsed.status = parser.status();
  parsed.keep_alive = parsed.outcome == ParserOutcome::kComplete && parser.keep_alive();
  parsed.problem = parser.problem();
  return parsed;
}

struct GoodCase {
  const char* name;
  const char* text;
  int status;
  const char* body;
  bool keep_alive;
};
class ResponseGood : public ::testing::TestWithParam<GoodCase> {};

TEST_P(ResponseGood, IsReadTheSameHoweverItIsCut) {
  const GoodCase& c = GetParam();
  const std::string text = c.text;
  for (std::size_t piece_bytes = 1; piece_bytes <= text.size(); ++piece_bytes) {
    const Parsed parsed = Parse(text, piece_bytes);
    ASSERT_EQ(parsed.outcome, ParserOutcome::kComplete) << "pieces of " << piece_bytes << ": " << parsed.problem;
    ASSERT_EQ(parsed.status, c.status);
    ASSERT_EQ(parsed.body, c.body) << "pieces of " << piece_bytes;
    ASSERT_EQ(parsed.keep_alive, c.keep_alive) << "pieces of " << piece_bytes;
  }
}

constexpr GoodCase kGoodCases[] = {
    {"Length", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 200, "hello", true},
    {"LengthZero", "HTTP/1.1 201 Created\r\ncontent-length:0\r\n\r\n", 201, "", true},
    {"SameLengthTwice", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx", 200, "x", true},
    {"NoReason", "HTTP/1.1 200\r\nContent-Length: 1\r\n\r\nx", 200, "x", true},
    {"BareNewlines", "HTTP/1.1 200 OK\nContent-Length: 1\n\nx", 200, "x", true},
    {"Close", "HTTP/1.1 200 OK\r\nConnection: keep-alive, Close\r\nContent-Length: 1\r\n\r\nx", 200, "x", false},
    {"UntilTheEnd", "HTTP/1.1 200 OK\r\n\r\nhello", 200, "hello", false},
    {"Http10", "HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", 200, "x", false},
    {"NoContent", "HTTP/1.1 204 No Content\r\n\r\n", 204, "", true},
    {"Chunks",
     "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n5\r\nhello\r\n1;x=y\r\n \r\nA\r\n0123456789\r\n0\r\n\r\n",
     200,
     "hello 0123456789",
     true},
    {"ChunksWithTrailers",
     "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nX-Y: z\r\n\r\n",
     200,
     "x",
     true},
    {"NoChunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 200, "", true},
    {"InformationalFirst",
     "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 409 Conflict\r\nContent-Length: "
     "1\r\n\r\nx",
     409,
     "x",
     true},
};
INSTANTIATE_TEST_SUITE_P(Table, ResponseGood, ::testing::ValuesIn(kGoodCases),
                         [](const auto& c) { return std::string(c.param.name); });

struct BadCase {
  const char* name;
  const char* text;
};
class ResponseBad : public ::testing::TestWithParam<BadCase> {};

TEST_P(ResponseBad, IsMalformedHoweverItIsCut) {
  const std::string text = GetParam().text;
  for (std::size_t piece_bytes = 1; piece_bytes <= text.size(); ++piece_bytes) {
    const Parsed parsed = Parse(text, piece_bytes);
    ASSERT_EQ(parsed.outcome, ParserOutcome::kMalformed) << "pieces of " << piece_bytes;
    ASSERT_NE(parsed.problem, "");
  }
}

constexpr BadCase kBadCases[] = {
    {"NotHttp", "SSH-2.0-OpenSSH_9.2\r\n"},
    {"Http2", "HTTP/2 200\r\n\r\n"},
    {"NoStatus", "HTTP/1.1 OK\r\n\r\n"},
    {"StatusWithSign", "HTTP/1.1 +20 OK\r\n\r\n"},
    {"StatusTooLong", "HTTP/1.1 2000 OK\r\n\r\n"},
    {"Upgrade", "HTTP/1.1 101 Switching Protocols\r\n\r\n"},
    {"HeaderWithoutColon", "HTTP/1.1 200 OK\r\nnonsense\r\n\r\n"},
    {"HeaderWithoutName", "HTTP/1.1 200 OK\r\n: x\r\n\r\n"},
    {"TwoLengths", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx"},
    {"NegativeLength", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"},
    {"LengthWithPlus", "HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\nx"},
    {"HugeLength", "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999\r\n\r\n"},
    {"LengthAndChunks", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\nx"},
    {"Compressed", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n"},
    {"ChunkWithoutSize", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\nx"},
    {"ChunkSizeNotHex", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5x\r\nhello"},
    {"ChunkLongerThanItSays", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nhello\r\n0\r\n\r\n"},
    {"CutInTheStatus", "HTTP/1.1 20"},
    {"CutInTheHeaders", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n"},
    {"CutInTheBody", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell"},
    {"CutInAChunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel"},
    {"CutBetweenChunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"},
    {"CutInTheTrailers", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-Y: z\r\n"},
};
INSTANTIATE_TEST_SUITE_P(Table, ResponseBad, ::testing::ValuesIn(kBadCases),
                         [](const auto& c) { return std::string(c.param.name); });

TEST(Response, AnEndlessHeadIsRefused) {
  EXPECT_EQ(Parse("HTTP/1.1 200 OK\r\nX: " + std::string(100'000, 'x'), 1000).outcome, ParserOutcome::kMalformed);
}

TEST(Response, TheHeadsBoundDoesNotEndALongWatch) {
  std::string text = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (int i = 0; i < 100'000; ++i) text += "1\r\nx\r\n";
  EXPECT_EQ(Parse(text + "0\r\n\r\n", 4096).outcome, ParserOutcome::kComplete);
}

TEST(Response, BytesBehindTheEndForbidReuse) {
  const Parsed parsed = Parse("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nxHTTP/1.1", 1000);
  EXPECT_EQ(parsed.outcome, ParserOutcome::kComplete);
  EXPECT_FALSE(parsed.keep_alive);
}

TEST(Response, RetryAfterIsInSeconds) {
  ResponseParser parser([](std::string_view) { return true; });
  EXPECT_EQ(parser.Feed("HTTP/1.1 429 x\r\nRetry-After: 3\r\nContent-Length: 0\r\n\r\n"), ParserOutcome::kComplete);
  EXPECT_EQ(parser.retry_after(), std::chrono::seconds(3));
}

TEST(Response, ARetryAfterThatIsNoNumberIsLeftOut) {
  ResponseParser parser([](std::string_view) { return true; });
  EXPECT_EQ(parser.Feed("HTTP/1.1 429 x\r\nRetry-After: Wed, 21 Oct 2026\r\nContent-Length: 0\r\n\r\n"),
            ParserOutcome::kComplete);
  EXPECT_FALSE(parser.retry_after().has_value());
}

TEST(Response, SaysTheServersDate) {
  ResponseParser parser([](std::string_view) { return true; });
  EXPECT_EQ(parser.Feed("HTTP/1.1 200 OK\r\ndate: Sun, 06 Nov 1994 08:49:37 GMT\r\nContent-Length: 0\r\n\r\n"),
            ParserOutcome::kComplete);
  EXPECT_EQ(parser.date(), std::chrono::sys_seconds(std::chrono::seconds(784'111'777)));
}

TEST(Response, ADateThatIsNoneIsLeftOut) {
  ResponseParser parser([](std::string_view) { return true; });
  EXPECT_EQ(parser.Feed("HTTP/1.1 200 OK\r\nDate: yesterday\r\nContent-Length: 0\r\n\r\n"), ParserOutcome::kComplete);
  EXPECT_FALSE(parser.date().has_value());
}

TEST(Response, TheReceiverMayStop) {
  ResponseParser parser([](std::string_view) { return false; });
  EXPECT_EQ(parser.Feed("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"), ParserOutcome::kStopped);
}

}  // namespace
}  // namespace berth::k8sclient
