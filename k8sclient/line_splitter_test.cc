// SPDX-License-Identifier: Apache-2.0
// LineSplitter: returns the same lines for any pieces, and limits each line.
#include "k8sclient/line_splitter.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace berth::k8sclient {
namespace {

using Outcome = LineSplitter::Outcome;

TEST(LineSplitter, GivesTheSameLinesHoweverTheStreamIsCut) {
  const std::string stream = "{\"a\":1}\n\n{}\r\nlong line\nnot complete";
  for (std::size_t piece_bytes = 1; piece_bytes <= stream.size(); ++piece_bytes) {
    std::vector<std::string> lines;
    const WatchSink sink = [&lines](std::string_view line) {
      lines.emplace_back(line);
      return true;
    };
    LineSplitter splitter(100, sink);
    for (std::size_t at = 0; at < stream.size(); at += piece_bytes) {
      ASSERT_EQ(splitter.Feed(std::string_view(stream).substr(at, piece_bytes)), Outcome::kMore);
    }
    ASSERT_EQ(lines, (std::vector<std::string>{"{\"a\":1}", "{}", "long line"})) << "pieces of " << piece_bytes;
  }
}

TEST(LineSplitter, RefusesALineThatIsTooLongWholeOrInPieces) {
  const WatchSink sink = [](std::string_view) { return true; };
  EXPECT_EQ(LineSplitter(10, sink).Feed("12345678901\n"), Outcome::kTooLong);
  LineSplitter splitter(10, sink);
  EXPECT_EQ(splitter.Feed("1234567890"), Outcome::kMore);
  EXPECT_EQ(splitter.Feed("1"), Outcome::kTooLong);
}

TEST(LineSplitter, StopsWhenTheSinkHasEnough) {
  int lines = 0;
  const WatchSink sink = [&lines](std::string_view) { return ++lines < 2; };
  EXPECT_EQ(LineSplitter(10, sink).Feed("1\n2\n3\n"), Outcome::kEnded);
  EXPECT_EQ(lines, 2);
}

}  // namespace
}  // namespace berth::k8sclient
