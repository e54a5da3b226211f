// SPDX-License-Identifier: Apache-2.0
// EventReader: reads the lines of a watch, and skips the fields that berth does not use.
//
// EventReader replaces metadata.managedFields by ManagedFieldsMarker() (object_reader.h). A pod's life has eight
// events, which consist mostly of containers, volumes and managedFields. A reader that builds and destroys the values
// of these fields spends most of its time on them.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace berth::k8sclient {

using FieldNames = std::set<std::string, std::less<>>;

// Which fields to read of an object, or of each object of an array.
struct FieldRule {
  FieldNames skipped = {};
  FieldNames only = {};                                        // if not empty: skip all other fields
  std::map<std::string, FieldRule, std::less<>> members = {};  // rules for the values of these fields
};

// One thread at a time.
class EventReader {
 public:
  // rule: for the object in the event.
  explicit EventReader(FieldRule rule);
  EventReader(const EventReader&) = delete;
  EventReader& operator=(const EventReader&) = delete;
  ~EventReader();

  // If the line is not JSON, returns a discarded value.
  [[nodiscard]] nlohmann::json Read(std::string_view line);

 private:
  struct Parser;
  FieldRule event_;
  std::unique_ptr<Parser> parser_;
};

}  // namespace berth::k8sclient
