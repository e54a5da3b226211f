// SPDX-License-Identifier: Apache-2.0
// ReadObject: an object of the API server, read without its managedFields.
//
// Nobody looks at these, and whoever may write an object can make them 1.4 MB. An object that is read so is not sent
// back as a whole.
#pragma once

#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace berth::k8sclient {

inline constexpr std::string_view kManagedFields = "managedFields";

// What stands in the place of metadata.managedFields: that there are some.
[[nodiscard]] nlohmann::json SomeManagedFields();

// As nlohmann::json::parse; discarded, if it is no JSON.
[[nodiscard]] nlohmann::json ReadObject(std::string_view text);

}  // namespace berth::k8sclient
