// SPDX-License-Identifier: Apache-2.0
// What a pod requests of counted resources, as kube-scheduler and the kubelet count it.
#pragma once

#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "reconciler/pods.h"

namespace berth::reconciler {

// Of a pod with that spec: the containers and sidecars together, or the most that an init container needs beside the
// sidecars started before it, whichever is more. Source: k8s.io/component-helpers, resource/helpers.go.
[[nodiscard]] std::vector<UnitRequest> ReadRequests(const nlohmann::json& pod_spec);

}  // namespace berth::reconciler
