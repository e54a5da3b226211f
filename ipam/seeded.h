// SPDX-License-Identifier: Apache-2.0
// For tests only: random test cases that can be repeated.
//
// ForSeeds runs a test body once per seed. If the test fails, the output shows the seed; with BERTH_SEED=<seed> the
// next run begins with this seed.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "ipam/address.h"

namespace berth::ipam {

class SeededRandom {
 public:
  explicit SeededRandom(std::uint64_t seed) : engine_(seed) {}

  // A number from 0 to bound - 1. Requires: bound > 0. The tiny bias of the remainder does not matter in tests.
  [[nodiscard]] std::uint64_t Below(std::uint64_t bound) { return engine_() % bound; }
  [[nodiscard]] Uint128 Below128(Uint128 bound) { return Bits128() % bound; }
  [[nodiscard]] int Between(int low, int high) {
    return low + static_cast<int>(Below(static_cast<std::uint64_t>(high - low) + 1));
  }
  [[nodiscard]] bool OneIn(std::uint64_t n) { return Below(n) == 0; }
  [[nodiscard]] Uint128 Bits128() {
    constexpr int kHalf = 64;
    const Uint128 high = engine_();
    return (high << kHalf) | engine_();
  }

 private:
  std::mt19937_64 engine_;
};

template <typename Body>
void ForSeeds(int rounds, Body body) {
  constexpr std::uint64_t kSeeds = 1'000'000'000;       // small enough to type
  const char* const given = std::getenv("BERTH_SEED");  // NOLINT(concurrency-mt-unsafe): tests do not set variables
  const std::uint64_t first = given != nullptr ? std::stoull(given) : std::random_device()() % kSeeds;
  std::printf("%d rounds from BERTH_SEED=%s\n", rounds, std::to_string(first).c_str());
  for (std::uint64_t seed = first; seed < first + static_cast<std::uint64_t>(rounds); ++seed) {
    SCOPED_TRACE("BERTH_SEED=" + std::to_string(seed));
    SeededRandom random(seed);
    body(random);
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace berth::ipam
