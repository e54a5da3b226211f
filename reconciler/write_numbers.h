// SPDX-License-Identifier: Apache-2.0
// The request of the action ShowNumbers (decision.h): a patch of a Node's status.
#pragma once

#include "base/error.h"
#include "k8sclient/api.h"
#include "reconciler/decision.h"
#include "reconciler/nodes.h"

namespace berth::reconciler {

// Returns the Node after the patch. Errors: those of the request; kConflict: the Node has changed since the decision.
[[nodiscard]] Expected<SeenNode> WriteNumbers(k8sclient::Api& api, const ShowNumbers& action,
                                              const k8sclient::CallOptions& options);

}  // namespace berth::reconciler
