// SPDX-License-Identifier: Apache-2.0
// Reads metadata with the FieldReader that reads the rest of the object, so that both share one Problem.
#pragma once

#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "crds/object_meta.h"
#include "json/field_reader.h"

namespace berth::crds {

// A Problem for an object such as "IPPool web", so that each error names the object.
[[nodiscard]] Problem ProblemOf(std::string_view kind, const nlohmann::json& object);

[[nodiscard]] ObjectMeta ReadMeta(const FieldReader& document);

}  // namespace berth::crds
