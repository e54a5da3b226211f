// SPDX-License-Identifier: Apache-2.0
// The request of the action AskLeases (decision.h): a consistent list of one Lease, for the resourceVersion of the
// list.
#pragma once

#include "base/error.h"
#include "k8sclient/api.h"
#include "reconciler/decision.h"

namespace berth::reconciler {

// Sets state.leases. Errors: those of the request; kInternal: the list has no resourceVersion that is a number.
[[nodiscard]] Expected<void> ReadLeasesVersion(k8sclient::Api& api, const Now& now,
                                               const k8sclient::CallOptions& options, ControllerState& state);

}  // namespace berth::reconciler
