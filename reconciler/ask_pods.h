// SPDX-License-Identifier: Apache-2.0
// What the API server itself says of pods, just before a write that depends on it.
//
// The answers stay out of the world. The watch may be behind them, and would then show earlier pods as if they were the
// next ones.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "ipam/address.h"
#include "k8sclient/api.h"
#include "reconciler/decision.h"
#include "reconciler/pods.h"

namespace berth::reconciler {

// All functions return the errors of their request.

// Nothing: there is no such pod.
[[nodiscard]] Expected<std::optional<SeenPod>> AskForPod(k8sclient::Api& api, const std::string& name_space,
                                                         const std::string& name,
                                                         const k8sclient::CallOptions& options);

// Whether the pod of an entry that is to be freed is gone, or does not have the address any more. Errors: kInvalid: no
// pod can have that name.
[[nodiscard]] Expected<bool> IsPodGone(k8sclient::Api& api, const FreedEntry& one, const ipam::Address& address,
                                       const k8sclient::CallOptions& options);

// Whether the pod of a lost entry is still there and still has the address.
[[nodiscard]] Expected<bool> HasLostAddress(k8sclient::Api& api, const LostEntry& one,
                                            const k8sclient::CallOptions& options);

// The pods of a node, by a consistent list. A pod that cannot be read is left out and logged.
[[nodiscard]] Expected<std::vector<SeenPod>> ReadPodsOf(k8sclient::Api& api, const std::string& node,
                                                        const k8sclient::CallOptions& options);

}  // namespace berth::reconciler
