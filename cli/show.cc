// SPDX-License-Identifier: Apache-2.0
// Makes rows from objects, and text from rows.
#include "cli/show.h"

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdio>

#include <nlohmann/json.hpp>
#include <yaml-cpp/yaml.h>

#include "cli/block_map.h"

namespace berth::cli {

namespace {

using Json = nlohmann::ordered_json;

Json Row(const ipam::Block& block, ipam::Address address, const char* state) {
  return {{"address", address.ToString()},
          {"state", state},
          {"pod", ""},
          {"node", block.node},
          {"interface", ""},
          {"since", ""},
          {"pool", block.pool},
          {"space", block.space},
          {"block", block.name},
          {"attachment", ""}};
}

Json RowOf(const Use& use) {
  Json row = Row(*use.block, use.address(), "held");
  row["node"] = use.node();
  if (const auto* held = use.held()) {
    row["pod"] =
        (held->pod_namespace.empty() ? "-" : held->pod_namespace) + "/" + (held->pod.empty() ? "-" : held->pod);
    row["interface"] = held->interface;
    row["since"] = TimeOf(held->since_ms);
    row["attachment"] = held->attachment;
  } else if (const auto* cooling = std::get_if<ipam::CoolingEntry>(&use.entry)) {
    row["state"] = "cooling until " + TimeOf(cooling->until_ms);
    row["attachment"] = cooling->forget;
  } else if (const auto* reserved = std::get_if<ipam::ReservedEntry>(&use.entry)) {
    row["state"] = "reserved by " + reserved->reservation;
  } else {
    row["state"] = "held, not understood: " + use.block->allocations.at(use.offset);
  }
  return row;
}

std::string CellOf(const Json& value) {
  const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
  return text.empty() ? "-" : text;
}

std::string Table(const Json& rows) {
  if (rows.empty()) return "none\n";
  std::vector<std::vector<std::string>> lines(1);
  for (const auto& [name, value] : rows[0].items()) {
    std::string heading = name;
    std::ranges::transform(
        heading, heading.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    lines[0].push_back(heading);
  }
  for (const Json& row : rows) {
    lines.emplace_back();
    for (const auto& [name, value] : row.items()) lines.back().push_back(CellOf(value));
  }
  std::vector<std::size_t> widths(lines[0].size());
  for (const auto& line : lines) {
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  }
  std::string text;
  for (const auto& line : lines) {
    for (std::size_t i = 0; i < line.size(); ++i) {
      text += line[i];
      if (i + 1 < line.size()) text += std::string(widths[i] - line[i].size() + 3, ' ');
    }
    text += '\n';
  }
  return text;
}

std::string Yaml(const Json& rows) {
  YAML::Emitter emitter;
  emitter << YAML::BeginSeq;
  for (const Json& row : rows) {
    emitter << YAML::BeginMap;
    for (const auto& [name, value] : row.items()) {
      emitter << YAML::Key << name << YAML::Value;
      if (value.is_string()) {
        emitter << YAML::DoubleQuoted << value.get<std::string>();
      } else {
        emitter << value.dump();
      }
    }
    emitter << YAML::EndMap;
  }
  emitter << YAML::EndSeq;
  return std::string(emitter.c_str()) + "\n";
}

// One row for each block that contains the address.
Json WhoHas(const Inventory& inventory, ipam::Address address) {
  Json rows = Json::array();
  for (const ipam::Block& block : inventory.blocks) {
    if (!block.cidr.Contains(address)) continue;
    const auto offset = static_cast<ipam::BlockOffset>(block.cidr.OffsetOf(address));
    const auto found = block.allocations.find(offset);
    if (found != block.allocations.end()) {
      rows.push_back(RowOf({.block = &block, .offset = offset, .entry = ipam::ParseEntry(found->second)}));
    } else {
      const SeenPool* const seen = inventory.FindPool(block.pool_uid);
      const auto states = StatesOf(inventory, block, seen == nullptr ? nullptr : &seen->pool);
      rows.push_back(Row(block, address, MarkOf(states[offset]).name));
    }
  }
  return rows;
}

}  // namespace

std::string TimeOf(std::int64_t unix_ms) {
  const std::chrono::sys_seconds time{std::chrono::seconds(unix_ms / 1000)};
  const std::chrono::sys_days day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss clock(time - day);
  char text[32];
  std::snprintf(text,
                sizeof text,
                "%04d-%02u-%02uT%02d:%02d:%02dZ",
                static_cast<int>(date.year()),
                static_cast<unsigned>(date.month()),
                static_cast<unsigned>(date.day()),
                static_cast<int>(clock.hours().count()),
                static_cast<int>(clock.minutes().count()),
                static_cast<int>(clock.seconds().count()));
  return text;
}

Json PoolRows(const Inventory& inventory) {
  Json rows = Json::array();
  for (const SeenPool& seen : inventory.pools) {
    rows.push_back({{"pool", seen.pool.name},
                    {"space", seen.pool.space},
                    {"subnet", seen.pool.subnet.ToString()},
                    {"affinity", seen.pool.affinity == ipam::Affinity::kShared ? "Shared" : "Node"},
                    {"total", ipam::ToString(seen.status.total)},
                    {"used", ipam::ToString(seen.status.used)},
                    {"free", ipam::ToString(seen.status.free)},
                    {"blocks", seen.status.blocks},
                    {"ready", seen.pool.ready ? "True" : seen.pool.not_ready_reason}});
  }
  return rows;
}

Json BlockRows(const Inventory& inventory) {
  Json rows = Json::array();
  for (const ipam::Block& block : inventory.blocks) {
    const auto count = [&](auto is) {
      return std::ranges::count_if(block.allocations,
                                   [&](const auto& item) { return is(ipam::ParseEntry(item.second)); });
    };
    const auto cooling = count([](const ipam::Entry& e) { return std::holds_alternative<ipam::CoolingEntry>(e); });
    const auto reserved = count([](const ipam::Entry& e) { return std::holds_alternative<ipam::ReservedEntry>(e); });
    rows.push_back({{"block", block.name},
                    {"cidr", block.cidr.ToString()},
                    {"node", block.node},
                    {"pool", block.pool},
                    {"held", static_cast<std::int64_t>(block.used()) - cooling - reserved},
                    {"cooling", cooling},
                    {"reserved", reserved},
                    {"standby", block.standby.size()},
                    {"free", block.free},
                    {"space", block.space}});
  }
  return rows;
}

Json AddressRows(const Inventory& inventory) {
  Json rows = Json::array();
  for (const Use& use : UsesOf(inventory)) rows.push_back(RowOf(use));
  return rows;
}

Expected<Json> Who(const Inventory& inventory, const std::string& what) {
  if (const auto address = ipam::Address::Parse(what)) {
    Json rows = WhoHas(inventory, *address);
    if (!rows.empty()) return rows;
    return Fail(ErrorCode::kNotFound, "no block covers " + what, "see the pools: berthctl show pools");
  }
  const std::size_t slash = what.find('/');
  if (slash == std::string::npos || slash == 0 || slash + 1 == what.size()) {
    return Fail(ErrorCode::kInvalid,
                Quoted(what) + " is neither an address nor a pod",
                "write 10.55.0.7, 2001:db8::7 or <namespace>/<pod>");
  }
  Json rows = Json::array();
  for (const Use& use : UsesOf(inventory)) {
    const ipam::HeldEntry* held = use.held();
    if (held == nullptr || held->pod_namespace + "/" + held->pod != what) continue;
    rows.push_back(RowOf(use));
  }
  if (!rows.empty()) return rows;
  return Fail(ErrorCode::kNotFound, "pod " + what + " has no address", "see all: berthctl show addresses");
}

std::string Print(const Json& rows, Format format) {
  if (format == Format::kJson) return rows.dump(2) + "\n";
  if (format == Format::kYaml) return Yaml(rows);
  return Table(rows);
}

}  // namespace berth::cli
