// SPDX-License-Identifier: Apache-2.0
// Reads test cases from files of YAML documents with comments. e2e/crds/objects/README.md describes the format.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace berth::e2e {

struct ObjectCase {
  std::string name = {};  // the first comment, as an identifier
  bool accepted = false;
  std::vector<std::string> refused = {};  // texts that the refusal must contain
  std::vector<std::string> gets = {};     // requests for addresses that an accepted pod must have
  std::string as = {};                    // the caller; empty: the administrator
  std::string remove = {};                // "<resource>/<name>" to delete; the document is then empty
  std::string patch = {};                 // "<resource>/<name>[/status]"; empty: the document is an object to create
  nlohmann::json document = {};
};

// Reads the cases of one file of the source tree. Throws std::runtime_error if a case has neither "accepted" nor
// "refused".
[[nodiscard]] std::vector<ObjectCase> LoadCases(const std::string& path);

// Reads the documents of a file and ignores comments.
[[nodiscard]] std::vector<nlohmann::json> LoadObjects(const std::string& path);

}  // namespace berth::e2e
