// SPDX-License-Identifier: Apache-2.0
// Functions that make Network::Lies for several plants (plants.h).
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "k8sclient/api.h"
#include "sim/network.h"

namespace berth::sim {

// Removes the value at `place`, a JSON pointer, from the bodies of requests with this method.
[[nodiscard]] std::function<void(k8sclient::Request&)> Without(k8sclient::Method method, const char* place);
// Rewrites only requests whose path begins with `path`.
[[nodiscard]] std::function<void(k8sclient::Request&)> OfKind(std::string_view path,
                                                              std::function<void(k8sclient::Request&)> rewrite);

// Changes the text of each answer and of each line of a watch. Requires: `change` is quick if it changes nothing.
[[nodiscard]] Network::Lies ChangingText(std::function<void(std::string& text)> change);
// Replaces the first text of each pair by the second, in all answers and in all lines of watches.
[[nodiscard]] Network::Lies Replacing(std::vector<std::pair<std::string, std::string>> pairs);
[[nodiscard]] Network::Lies Replacing(const std::string& from, const std::string& to);

// Tells the lies only to controllers, or only to programs of nodes. Requires: `lies` has changes and tells, and nothing
// else.
[[nodiscard]] Network::Lies ToControllers(const Network::Lies& lies);
[[nodiscard]] Network::Lies ToNodes(const Network::Lies& lies);

}  // namespace berth::sim
