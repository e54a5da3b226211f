// SPDX-License-Identifier: Apache-2.0
// The requests of ShowNumbers and ListPods (decision.h): a patch of a Node's status, and a consistent list of its pods.
#pragma once

#include <string>
#include <vector>

#include "ipam/error.h"
#include "k8sclient/api.h"
#include "reconciler/decision.h"
#include "reconciler/nodes.h"
#include "reconciler/pods.h"

namespace berth::reconciler {

// Returns the Node as it is after the patch. Errors: those of the request; kConflict: the Node has changed since the
// decision.
[[nodiscard]] ipam::Expected<SeenNode> WriteNumbers(k8sclient::Api& api, const ShowNumbers& action,
                                                    const k8sclient::CallOptions& options);

// A pod that cannot be read is left out and logged. Errors: those of the request.
[[nodiscard]] ipam::Expected<std::vector<SeenPod>> ReadPodsOf(k8sclient::Api& api, const std::string& node,
                                                              const k8sclient::CallOptions& options);

}  // namespace berth::reconciler
