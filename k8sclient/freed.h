// SPDX-License-Identifier: Apache-2.0
// Freed: what a C library made, freed by its own function when a std::unique_ptr ends.
#pragma once

namespace berth::k8sclient {

template <auto kFree>
struct Freed {
  void operator()(auto* object) const { kFree(object); }
};

}  // namespace berth::k8sclient
