// SPDX-License-Identifier: Apache-2.0
// Turns YAML test data into JSON, by the rules of Kubernetes' manifests (the JSON schema of YAML 1.2).
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace berth::e2e {

// Throws YAML::Exception if the text is malformed, and so fails the test.
[[nodiscard]] nlohmann::json JsonOfYaml(const std::string& yaml);

}  // namespace berth::e2e
