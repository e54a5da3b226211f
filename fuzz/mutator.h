// SPDX-License-Identifier: Apache-2.0
// Mutator: makes new inputs from old inputs.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace berth::fuzz {

class Mutator {
 public:
  explicit Mutator(std::uint64_t seed) : random_(seed) {}

  // Remembers the words of an input. Next puts the words into other inputs.
  void Learn(const std::string& input);
  // A changed copy of one of `inputs`, at most kInputBytesMax bytes long. Requires: `inputs` is not empty.
  [[nodiscard]] std::string Next(const std::vector<std::string>& inputs);

  static constexpr std::size_t kInputBytesMax = std::size_t{16} << 10;

 private:
  [[nodiscard]] std::size_t Below(std::size_t bound) { return static_cast<std::size_t>(random_() % bound); }
  void Change(std::string& input, const std::string& other);

  std::mt19937_64 random_;
  std::vector<std::string> words_;
};

}  // namespace berth::fuzz
