// SPDX-License-Identifier: Apache-2.0
// LineSplitter: cuts a stream into lines.
#include "k8sclient/line_splitter.h"

namespace berth::k8sclient {

LineSplitter::Outcome LineSplitter::HandOver(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (line.empty()) return Outcome::kMore;
  if (line.size() > line_bytes_max_) return Outcome::kTooLong;
  return sink_(line) ? Outcome::kMore : Outcome::kEnded;
}

LineSplitter::Outcome LineSplitter::Feed(std::string_view piece) {
  while (true) {
    const std::size_t newline = piece.find('\n');
    if (newline == std::string_view::npos) break;
    const std::string_view rest_of_line = piece.substr(0, newline);
    Outcome outcome = Outcome::kMore;
    if (begun_.empty()) {
      outcome = HandOver(rest_of_line);
    } else {
      begun_ += rest_of_line;
      outcome = HandOver(begun_);
      begun_.clear();
    }
    if (outcome != Outcome::kMore) return outcome;
    piece.remove_prefix(newline + 1);
  }
  if (begun_.size() + piece.size() > line_bytes_max_) return Outcome::kTooLong;
  begun_ += piece;
  return Outcome::kMore;
}

}  // namespace berth::k8sclient
