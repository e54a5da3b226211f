// SPDX-License-Identifier: Apache-2.0
// Computes merge patches (RFC 7386) from two versions of a document, so that a write contains only changes.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace berth::crds {

// The merge patch that changes `before` into `after`; {} if they are equal. Compares objects member by member; replaces
// lists as a whole. Requires: both are objects.
[[nodiscard]] nlohmann::json DiffMergePatch(const nlohmann::json& before, const nlohmann::json& after);

// Returns the list `known`, for a patch that replaces the list `before`. If an element of `known` has the same values
// of `keys` as an element of `before`, it also gets those fields of the old element that it lacks. So a write keeps the
// fields that a newer version of berth has written.
[[nodiscard]] nlohmann::json MergeElements(const nlohmann::json& before, std::vector<nlohmann::json> known,
                                           std::initializer_list<std::string_view> keys);

}  // namespace berth::crds
