// SPDX-License-Identifier: Apache-2.0
// Cases from files of YAML documents with comments; the format is in e2e/crds/objects/README.md.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace berth::e2e {

struct ObjectCase {
  std::string name = {};  // the first comment, as an identifier
  bool accepted = false;
  std::vector<std::string> refused = {};  // texts that the refusal must hold
  std::vector<std::string> gets = {};     // requests for addresses that an accepted pod then has
  std::string as = {};                    // who; empty: the administrator
  std::string remove = {};                // "<resource>/<name>" to delete; the document is empty then
  std::string patch = {};                 // "<resource>/<name>[/status]"; empty: the document is an object to create
  nlohmann::json document = {};
};

// Of one file of the source tree. Throws std::runtime_error on a case that says neither "accepted" nor "refused".
[[nodiscard]] std::vector<ObjectCase> LoadCases(const std::string& path);

// The documents of a file without looking at comments.
[[nodiscard]] std::vector<nlohmann::json> LoadObjects(const std::string& path);

}  // namespace berth::e2e
