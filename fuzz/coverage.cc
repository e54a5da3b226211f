// SPDX-License-Identifier: Apache-2.0
// Counts edges between basic blocks in a table of fixed size, as AFL does. If two edges share a place, the fuzzer is
// guided slightly worse, without other harm. This file is compiled without -fsanitize-coverage, because the callback
// must not call itself.
#include "fuzz/coverage.h"

#include <array>
#include <bit>
#include <cstdint>

namespace berth::fuzz {

namespace {

constexpr std::size_t kPlaces = std::size_t{1} << 16;
constexpr std::uint64_t kMixer = 0x9E3779B97F4A7C15;  // the factor of Fibonacci hashing
constexpr int kPlaceBits = 16;

std::array<std::uint8_t, kPlaces> counts{};  // of the present input; stop at 255
std::array<std::uint8_t, kPlaces> seen{};    // one bit for each power of two that a count has reached
std::uint64_t previous = 0;

void Count(std::uint64_t place) {
  const std::size_t at = ((place ^ (previous >> 1)) * kMixer) >> (64 - kPlaceBits);
  previous = place;
  if (counts[at] < UINT8_MAX) ++counts[at];
}

}  // namespace

void BeginInput() {
  counts.fill(0);
  previous = 0;
}

bool RanSomethingNew() {
  bool is_new = false;
  for (std::size_t i = 0; i < kPlaces; ++i) {
    if (counts[i] == 0) continue;
    const auto bit = static_cast<std::uint8_t>(1U << (std::bit_width(counts[i]) - 1));
    is_new = is_new || (seen[i] & bit) == 0;
    seen[i] |= bit;
  }
  return is_new;
}

}  // namespace berth::fuzz

// Code that GCC compiles with -fsanitize-coverage=trace-pc calls this function at the start of each basic block.
extern "C" void __sanitizer_cov_trace_pc() {  // NOLINT(bugprone-reserved-identifier): the name is GCC's
  berth::fuzz::Count(reinterpret_cast<std::uint64_t>(__builtin_return_address(0)));
}
