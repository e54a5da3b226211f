// SPDX-License-Identifier: Apache-2.0
// Show: pools, blocks and addresses as rows of named cells; rows as a table, JSON or YAML.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "cli/inventory.h"

namespace berth::cli {

enum class Format : std::uint8_t { kTable, kJson, kYaml };

// Prints a time in UTC, such as "2025-11-21T04:40:00Z".
[[nodiscard]] std::string TimeOf(std::int64_t unix_ms);

// Arrays of flat objects with the same members in the same order (nlohmann::ordered_json).
[[nodiscard]] nlohmann::ordered_json PoolRows(const Inventory& inventory);
[[nodiscard]] nlohmann::ordered_json BlockRows(const Inventory& inventory);
// One row for each address with an entry.
[[nodiscard]] nlohmann::ordered_json AddressRows(const Inventory& inventory);

// Finds `what` in all spaces: which pods have this address, or which addresses the pod "<namespace>/<name>" has. Rows
// as in AddressRows. An address of a block without entry is "free" or "standby". Errors: kInvalid (`what` is neither an
// address nor a pod), kNotFound.
[[nodiscard]] Expected<nlohmann::ordered_json> Who(const Inventory& inventory, const std::string& what);

// A table has a line of headings; without rows the text is "none".
[[nodiscard]] std::string Print(const nlohmann::ordered_json& rows, Format format);

}  // namespace berth::cli
