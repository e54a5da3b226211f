// SPDX-License-Identifier: Apache-2.0
// The list of targets.
#include "fuzz/target.h"

#include <array>

namespace berth::fuzz {

std::span<const Target> AllTargets() {
  static constexpr std::array kTargets = {Target{"block", RunBlock},
                                          Target{"cni_args", RunCniArgs},
                                          Target{"cni_config", RunCniConfig},
                                          Target{"forwarded_call", RunForwardedCall},
                                          Target{"kubeconfig", RunKubeconfig},
                                          Target{"list", RunList},
                                          Target{"pool", RunPool}};
  return kTargets;
}

}  // namespace berth::fuzz
