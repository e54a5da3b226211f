// SPDX-License-Identifier: Apache-2.0
// Merge patches (RFC 7386) from two states of a document, so that a write carries only what changes.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace berth::crds {

// The patch that turns `before` into `after`: {} if they are equal. Objects are compared member by member; lists are
// replaced whole. Requires: both are objects.
[[nodiscard]] nlohmann::json DiffMergePatch(const nlohmann::json& before, const nlohmann::json& after);

// The elements of `known` as a list to write over `before`: an element that stands there under the same values of
// `keys` keeps the fields it has there and `known` does not set. So fields of a newer version survive the replacement
// of a list.
[[nodiscard]] nlohmann::json MergeElements(const nlohmann::json& before, std::vector<nlohmann::json> known,
                                           std::initializer_list<std::string_view> keys);

}  // namespace berth::crds
