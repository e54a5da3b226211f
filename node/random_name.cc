// SPDX-License-Identifier: Apache-2.0
// Digits from the kernel.
#include "node/random_name.h"

#include <random>

namespace berth::node {

std::string RandomDigits(std::size_t count) {
  std::random_device device;
  std::string digits;
  while (digits.size() < count) digits += "0123456789abcdef"[device() % 16];
  return digits;
}

}  // namespace berth::node
