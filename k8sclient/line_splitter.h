// SPDX-License-Identifier: Apache-2.0
// LineSplitter: cuts a stream, which arrives in pieces of any size, into lines of limited length.
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

  // Passes every complete line to the sink, without empty lines. kEnded: the sink returned false.
  [[nodiscard]] Outcome Feed(std::string_view piece);

 private:
  [[nodiscard]] Outcome HandOver(std::string_view line);

  std::size_t line_bytes_max_;
  const WatchSink& sink_;
  std::string begun_;  // the start of an incomplete line; at most line_bytes_max_ bytes
};

}  // namespace berth::k8sclient
