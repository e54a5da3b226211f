// SPDX-License-Identifier: Apache-2.0
// ReadObject: reads an object of the API server without its managedFields.
//
// berth does not use managedFields, and a user who may write an object can make its managedFields 1.4 MB large. A
// caller must not send an object that ReadObject has read back as a whole.
#pragma once

#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace berth::k8sclient {

inline constexpr std::string_view kManagedFields = "managedFields";

// The value that replaces metadata.managedFields, and says that the object has some.
[[nodiscard]] nlohmann::json ManagedFieldsMarker();

// Like nlohmann::json::parse. If the text is not JSON, returns a discarded value.
[[nodiscard]] nlohmann::json ReadObject(std::string_view text);

}  // namespace berth::k8sclient
