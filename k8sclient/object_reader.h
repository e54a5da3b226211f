// SPDX-License-Identifier: Apache-2.0
// ReadObject and ListReader: read objects of the API server without their managedFields.
//
// berth does not use the content of managedFields, and a user who may write an object can make its managedFields 1.4 MB
// large. A caller must not write a whole object from ReadObject or ListReader to the server, because the object is not
// complete.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include <nlohmann/json_fwd.hpp>

#include "base/error.h"

namespace berth::k8sclient {

inline constexpr std::string_view kManagedFields = "managedFields";

// Error::details if an answer is not JSON.
inline constexpr const char* kNoApiServer =
    "check that server in the kubeconfig names a Kubernetes API server, and that no proxy changes the server's answers";

// The value that replaces metadata.managedFields, so that the caller sees that the object has managedFields.
[[nodiscard]] nlohmann::json ManagedFieldsMarker();

// Like nlohmann::json::parse. If the text is not JSON, returns a discarded value.
[[nodiscard]] nlohmann::json ReadObject(std::string_view text);

// Reads a list, which arrives in pieces of any size, item by item. The server may send a list of any length in one
// answer. ListReader has only one item in memory at a time, first as text and then as a value, and keeps the text
// around the items until the end.
class ListReader {
 public:
  using Take = std::function<void(nlohmann::json item)>;

  // bytes_max limits each item, and the text around the items.
  ListReader(std::size_t bytes_max, Take take) : bytes_max_(bytes_max), take_(std::move(take)) {}

  // Passes every complete item to `take`. False: the text is not a list, or too large; End() then returns the error.
  [[nodiscard]] bool Feed(std::string_view piece);

  // The list's metadata.
  struct Summary {
    std::string resource_version;
    std::string continue_token;  // token of the next page; empty on the last page
  };
  // Call after the last piece. Errors: kInternal (the pieces are not one list).
  [[nodiscard]] Expected<Summary> End() const;

 private:
  // Adds the text to item_ or envelope_. False: it would be larger than bytes_max_.
  [[nodiscard]] bool Keep(std::string_view text);
  // True if the next text after `envelope_` is the array of items.
  [[nodiscard]] bool IsAtItems() const;
  [[nodiscard]] bool EndItem(bool is_last);

  std::size_t bytes_max_;
  Take take_;
  std::string envelope_;  // the list without its items
  std::string item_;      // the part of the current item that has arrived
  std::string problem_;   // empty: none
  std::size_t depth_ = 0;
  bool in_string_ = false;
  bool escaped_ = false;   // a backslash precedes the next character of the string
  bool in_items_ = false;  // inside the array of items
  bool any_item_ = false;
};

}  // namespace berth::k8sclient
