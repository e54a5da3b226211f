// SPDX-License-Identifier: Apache-2.0
// Why: what a pod waits for, pool by pool and node by node; or which pools and blocks its addresses belong to
// (docs/scheduling.md).
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "cli/counted_world.h"
#include "cli/show.h"

namespace berth::cli {

// Objects (nlohmann::ordered_json) with the same members, each with one sentence: "about" (pod, address, pool, node),
// "name", "fits" (the pod needs nothing more, or could have its addresses there), "says", and "remedy" (empty: nothing
// to do). The pod comes first. Nodes come last, the nearest first. `pod`: "<namespace>/<name>". Requires: `read` was
// read for this pod. Errors: kInvalid: `pod` has another form, or the Pod object cannot be parsed; kNotFound.
[[nodiscard]] Expected<nlohmann::ordered_json> Why(const CountedWorld& read, const Counting& counting,
                                                   const std::string& pod);

// Text for people: each sentence with its remedy below it, for at most 20 nodes.
[[nodiscard]] std::string PrintWhy(const nlohmann::ordered_json& rows, Format format);

}  // namespace berth::cli
