// SPDX-License-Identifier: Apache-2.0
// Random digits from getrandom(2). std::random_device is not available to `berth` (docs/adr/0009).
#include "node/random_name.h"

#include <sys/random.h>

namespace berth::node {

std::string RandomDigits(std::size_t count) {
  std::string digits(count, '0');
  std::size_t have = 0;
  while (have < count) {
    const ssize_t got = getrandom(digits.data() + have, count - have, 0);
    if (got > 0) have += static_cast<std::size_t>(got);
  }
  for (char& digit : digits) digit = "0123456789abcdef"[static_cast<unsigned char>(digit) % 16];
  return digits;
}

}  // namespace berth::node
