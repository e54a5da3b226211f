// SPDX-License-Identifier: Apache-2.0
// Questions about pods that the API server answers just before a write that depends on the answer.
//
// The answers are not put into the World: the watch of pods may lag behind them, and its next event would then replace
// a newer state of a pod by an older one.
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

// All functions return the errors of their request. AskForPod, IsPodGone and HasLostAddress also return kInvalid if the
// pod cannot be read.

// Reads the pod. nullopt: there is no such pod.
[[nodiscard]] Expected<std::optional<SeenPod>> AskForPod(k8sclient::Api& api, const std::string& name_space,
                                                         const std::string& name,
                                                         const k8sclient::CallOptions& options);

// True if the controller may free the entry: the entry's pod does not exist, another pod has its name, the pod has
// ended (if one.was_terminal), or the pod has other addresses (if one.was_replaced). Errors: kInvalid: no pod can have
// the name in the entry.
[[nodiscard]] Expected<bool> IsPodGone(k8sclient::Api& api, const FreedEntry& one, const ipam::Address& address,
                                       const k8sclient::CallOptions& options);

// True if the pod of a lost entry still exists on its node and still has the address.
[[nodiscard]] Expected<bool> HasLostAddress(k8sclient::Api& api, const LostEntry& one,
                                            const k8sclient::CallOptions& options);

// The pods of a node, from a consistent list. A pod that cannot be read is logged and left out.
[[nodiscard]] Expected<std::vector<SeenPod>> ReadPodsOf(k8sclient::Api& api, const std::string& node,
                                                        const k8sclient::CallOptions& options);

}  // namespace berth::reconciler
