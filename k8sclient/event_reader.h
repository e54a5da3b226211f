// SPDX-License-Identifier: Apache-2.0
// EventReader: the lines of a watch, read without what nobody looks at.
//
// Of the eight events of a pod's life most is containers, volumes and managedFields, and most of what a watch of all
// pods costs was to build and destroy values of them.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace berth::k8sclient {

// Of which of an object's members which of theirs, such as {"spec", {"containers"}}.
using FieldNames = std::set<std::string, std::less<>>;
using SkippedFields = std::map<std::string, FieldNames, std::less<>>;
// Of which array, inside one of the object's members, only these members of each item are read, such as {"containers",
// {"resources"}} for spec.containers[*].resources.
using ItemFields = std::map<std::string, FieldNames, std::less<>>;

// One thread at a time.
class EventReader {
 public:
  explicit EventReader(SkippedFields skipped, ItemFields items = {});
  EventReader(const EventReader&) = delete;
  EventReader& operator=(const EventReader&) = delete;
  ~EventReader();

  // Discarded, if it is no JSON.
  [[nodiscard]] nlohmann::json Read(std::string_view line);

 private:
  struct Parser;
  const SkippedFields skipped_;
  const ItemFields items_;
  std::unique_ptr<Parser> parser_;
};

}  // namespace berth::k8sclient
