// SPDX-License-Identifier: Apache-2.0
// ListReader: a list of the API server, out of pieces of any size, item by item.
//
// The server sends a list of any length in one answer. Only one item of it is in memory at a time, as text and then as
// a value; what stands around the items is kept until the end.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include <nlohmann/json_fwd.hpp>

#include "base/error.h"

namespace berth::k8sclient {

class ListReader {
 public:
  using Take = std::function<void(nlohmann::json item)>;

  // bytes_max bounds each item, and what stands around them.
  ListReader(std::size_t bytes_max, Take take) : bytes_max_(bytes_max), take_(std::move(take)) {}

  // Hands over every item that is complete now. False: this is no list, or too large, and End() says so.
  [[nodiscard]] bool Feed(std::string_view piece);

  // What the list says about itself.
  struct Summary {
    std::string resource_version;
    std::string continue_token;  // of the next page; empty after the last
  };
  // After the last piece. Errors: kInternal: what came is not one list.
  [[nodiscard]] Expected<Summary> End() const;

 private:
  // Keeps text that was looked at; false: too much.
  [[nodiscard]] bool Keep(std::string_view text);
  // What follows in `envelope_` is the array of items.
  [[nodiscard]] bool IsAtItems() const;
  [[nodiscard]] bool EndItem(bool is_last);

  std::size_t bytes_max_;
  Take take_;
  std::string envelope_;  // the list without its items
  std::string item_;      // as far as it has come
  std::string problem_;   // empty: none
  std::size_t depth_ = 0;
  bool in_string_ = false;
  bool escaped_ = false;   // the next character of the string is
  bool in_items_ = false;  // in the array of items
  bool any_item_ = false;
};

}  // namespace berth::k8sclient
