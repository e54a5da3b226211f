// SPDX-License-Identifier: Apache-2.0
// EventReader: reads the lines of a watch, and skips the fields that berth does not use.
//
// A pod's life has eight events, which consist mostly of containers, volumes and managedFields. Most of the cost of a
// watch of all pods was to build and destroy values of these fields.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace berth::k8sclient {

// The fields that are skipped, by the member of the object that contains them, such as {"spec", {"containers"}}.
using FieldNames = std::set<std::string, std::less<>>;
using SkippedFields = std::map<std::string, FieldNames, std::less<>>;
// The only fields of each item that are read, by the name of the array, which is inside a member of the object. Such as
// {"containers", {"resources"}} for spec.containers[*].resources.
using ItemFields = std::map<std::string, FieldNames, std::less<>>;

// One thread at a time.
class EventReader {
 public:
  explicit EventReader(SkippedFields skipped, ItemFields items = {});
  EventReader(const EventReader&) = delete;
  EventReader& operator=(const EventReader&) = delete;
  ~EventReader();

  // If the line is not JSON, returns a discarded value.
  [[nodiscard]] nlohmann::json Read(std::string_view line);

 private:
  struct Parser;
  const SkippedFields skipped_;
  const ItemFields items_;
  std::unique_ptr<Parser> parser_;
};

}  // namespace berth::k8sclient
