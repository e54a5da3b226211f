// SPDX-License-Identifier: Apache-2.0
// HeldFile: an open file, closed with the object; and its lock, which goes with it or its process.
#pragma once

#include "base/error.h"
#include "node/boot_time.h"

namespace berth::node {

class HeldFile {
 public:
  HeldFile() = default;
  explicit HeldFile(int descriptor) : descriptor_(descriptor) {}
  HeldFile(HeldFile&& other) noexcept;
  HeldFile& operator=(HeldFile&& other) noexcept;
  ~HeldFile() { Close(); }
  void Close();
  [[nodiscard]] bool is_open() const { return descriptor_ >= 0; }
  [[nodiscard]] int descriptor() const { return descriptor_; }

 private:
  int descriptor_ = -1;
};

// Waits for the file's exclusive lock until `deadline`, in the order in which others came. False: it is not to be had
// by then. With a deadline that has passed it does not wait; else it uses SIGALRM: for processes of one thread.
// Errors: kIo.
[[nodiscard]] Expected<bool> LockExclusively(const HeldFile& file, BootNanos deadline);

}  // namespace berth::node
