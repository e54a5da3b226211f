// SPDX-License-Identifier: Apache-2.0
// Why: what a pod waits for, pool by pool and node by node; or which pools and blocks its addresses belong to
// (docs/scheduling.md).
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "cli/counted_world.h"
#include "cli/show.h"

namespace berth::cli {

// Returns a list of objects (nlohmann::ordered_json). Each object says one sentence about one thing. Its members:
// "about" (pod, address, pool or node), "name" of this thing, "fits" (true: the pod needs nothing more, or could get
// its addresses there), "says" (the sentence), and "remedy" (empty: nothing to do). The object about the pod comes
// first. The objects about nodes come last, sorted by how much the node lacks to run the pod. `pod`:
// "<namespace>/<name>". Requires: `read` was read for this pod. Errors: kInvalid: `pod` has another form, or the Pod
// object cannot be parsed; kNotFound.
[[nodiscard]] Expected<nlohmann::ordered_json> Why(const CountedWorld& read, const Counting& counting,
                                                   const std::string& pod);

// Text for people: each sentence with its remedy below it, for at most 20 nodes.
[[nodiscard]] std::string PrintWhy(const nlohmann::ordered_json& rows, Format format);

}  // namespace berth::cli
