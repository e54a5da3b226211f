// SPDX-License-Identifier: Apache-2.0
// Descriptor: an open file, which the destructor closes.
#pragma once

#include <unistd.h>
#include <utility>

namespace berth {

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int descriptor) : descriptor_(descriptor) {}
  Descriptor(Descriptor&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    Close();
    descriptor_ = std::exchange(other.descriptor_, -1);
    return *this;
  }
  ~Descriptor() { Close(); }

  void Close() {
    if (descriptor_ >= 0) close(std::exchange(descriptor_, -1));
  }
  [[nodiscard]] bool is_open() const { return descriptor_ >= 0; }
  [[nodiscard]] int descriptor() const { return descriptor_; }

 private:
  int descriptor_ = -1;
};

}  // namespace berth
