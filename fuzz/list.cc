// SPDX-License-Identifier: Apache-2.0
// Lists: ListReader finds the same items in single bytes as in the whole text, and the same items as the JSON library.
#include <algorithm>
#include <optional>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/check.h"
#include "fuzz/target.h"
#include "k8sclient/object_reader.h"

namespace berth::fuzz {

namespace {

using nlohmann::json;

std::optional<std::vector<json>> ReadItems(std::string_view bytes, std::size_t piece_bytes) {
  constexpr std::size_t kBytesMax = 65536;
  std::vector<json> items;
  k8sclient::ListReader reader(kBytesMax, [&items](json item) { items.push_back(std::move(item)); });
  while (!bytes.empty() && reader.Feed(bytes.substr(0, piece_bytes))) {
    bytes.remove_prefix(std::min(piece_bytes, bytes.size()));
  }
  return reader.End() ? std::optional(std::move(items)) : std::nullopt;
}

}  // namespace

void RunList(std::string_view bytes) {
  const auto items = ReadItems(bytes, bytes.size());
  BERTH_CHECK(ReadItems(bytes, 1) == items);
  const json whole = json::parse(bytes, nullptr, /*allow_exceptions=*/false);
  // If a key occurs twice, the JSON library and ListReader read it differently.
  if (!items || !whole.is_object() || bytes.find("items") != bytes.rfind("items")) return;
  BERTH_CHECK((whole["items"].is_null() ? json::array() : whole["items"]) == json(*items));
}

}  // namespace berth::fuzz
