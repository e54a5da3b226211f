// SPDX-License-Identifier: Apache-2.0
// Freed: a deleter for std::unique_ptr that calls a C library's own function.
#pragma once

namespace berth::k8sclient {

template <auto kFree>
struct Freed {
  void operator()(auto* object) const { kFree(object); }
};

}  // namespace berth::k8sclient
