// SPDX-License-Identifier: Apache-2.0
// LineSplitter: cuts a stream that arrives in pieces of any size into lines of bounded length.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "k8sclient/api.h"

namespace berth::k8sclient {

class LineSplitter {
 public:
  enum class Outcome : std::uint8_t { kMore, kEnded, kTooLong };

  // sink must outlive this.
  LineSplitter(std::size_t line_bytes_max, const WatchSink& sink) : line_bytes_max_(line_bytes_max), sink_(sink) {}

  // Hands over every line that is complete now; empty lines are left out. kEnded: the sink wants no more.
  [[nodiscard]] Outcome Feed(std::string_view piece);

 private:
  [[nodiscard]] Outcome HandOver(std::string_view line);

  std::size_t line_bytes_max_;
  const WatchSink& sink_;
  std::string begun_;  // the start of a line whose end has not come; at most line_bytes_max_
};

}  // namespace berth::k8sclient
