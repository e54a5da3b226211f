// SPDX-License-Identifier: Apache-2.0
// Why: what a pod waits for, pool by pool and node by node, or where its addresses are from (docs/scheduling.md).
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "cli/counted_world.h"
#include "cli/show.h"

namespace berth::cli {

// Objects (nlohmann::ordered_json) with the same members, of which each says one sentence: "about" (pod, address, pool,
// node), "name", "fits" (the pod needs nothing more, or could have its addresses there), "says", and "remedy", which is
// empty if there is nothing to be done. The pod comes first, nodes come last, those first that need the least.
// `pod`: "<namespace>/<name>"; requires: `read` was read for it. Errors: kInvalid: `pod` has another form; kNotFound.
[[nodiscard]] Expected<nlohmann::ordered_json> Why(const CountedWorld& read, const Counting& counting,
                                                   const std::string& pod);

// As text: the sentences, each with its remedy beneath, of nodes the first 20.
[[nodiscard]] std::string PrintWhy(const nlohmann::ordered_json& rows, Format format);

}  // namespace berth::cli
