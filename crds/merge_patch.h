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

// Returns the list `known`, for a patch that replaces the list `before`. If an old and a new element have the same
// values of `keys`, the new element gets the other fields of the old element. So a write keeps fields of a newer
// version of berth.
[[nodiscard]] nlohmann::json MergeElements(const nlohmann::json& before, std::vector<nlohmann::json> known,
                                           std::initializer_list<std::string_view> keys);

}  // namespace berth::crds
