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

// The fields that EventReader skips, by the member of the object that contains them, such as {"spec", {"containers"}}.
using FieldNames = std::set<std::string, std::less<>>;
using SkippedFields = std::map<std::string, FieldNames, std::less<>>;
// The only fields of each item that EventReader reads, by the name of the array, which is inside a member of the
// object: for example {"containers", {"resources"}} for spec.containers[*].resources.
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
