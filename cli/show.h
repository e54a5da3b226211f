// SPDX-License-Identifier: Apache-2.0
// Show: pools, blocks and addresses as rows of named cells, and rows as a table, JSON or YAML.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "cli/inventory.h"

namespace berth::cli {

enum class Format : std::uint8_t { kTable, kJson, kYaml };

// "2025-11-21T04:40:00Z".
[[nodiscard]] std::string TimeOf(std::int64_t unix_ms);

// Each an array of flat objects with the same members in the same order (nlohmann::ordered_json).
[[nodiscard]] nlohmann::ordered_json PoolRows(const Inventory& inventory);
[[nodiscard]] nlohmann::ordered_json BlockRows(const Inventory& inventory);
// Every address with an entry.
[[nodiscard]] nlohmann::ordered_json AddressRows(const Inventory& inventory);

// Who has the address, in every space; or what the pod "<namespace>/<name>" has. The rows of AddressRows; an address of
// a block without an entry is "free" or "standby". Errors: kInvalid (neither of the two), kNotFound.
[[nodiscard]] Expected<nlohmann::ordered_json> Who(const Inventory& inventory, const std::string& what);

// A table has a line of headings, and says "none" without rows.
[[nodiscard]] std::string Print(const nlohmann::ordered_json& rows, Format format);

}  // namespace berth::cli
