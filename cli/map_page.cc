// SPDX-License-Identifier: Apache-2.0
// Writes the HTML and its style sheet.
#include "cli/map_page.h"

#include <array>
#include <cmath>
#include <map>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/block_map.h"
#include "cli/show.h"

namespace berth::cli {

namespace {

using Json = nlohmann::ordered_json;

// The colours of Okabe and Ito, which people with any kind of colour blindness can distinguish.
constexpr const char* kHead = R"(<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>berth: who has which address</title>
<style>
body { font: 15px/1.45 system-ui, sans-serif; color: #1a1a1a; background: #fff; margin: 1.2rem auto; max-width: 62rem; padding: 0 1rem }
h1 { font-size: 1.5rem } h2 { font-size: 1.2rem; margin-top: 2rem } h3 { font-size: 1rem; margin-bottom: .4rem }
h3 small { font-weight: normal; color: #444 }
.wide { overflow-x: auto }
table { border-collapse: collapse } th, td { text-align: left; padding: .25rem .9rem .25rem 0; border-bottom: 1px solid #ddd; white-space: nowrap }
td.n, th.n { text-align: right }
tr:target { background: #fff3c4 }
.bar { display: inline-block; width: 6rem; height: .7rem; border: 1px solid #555; background: #fff } .bar b { display: block; height: 100%; background: #0072b2 }
.map { display: grid; grid-template-columns: repeat(32, 1fr); gap: 2px; max-width: 58rem }
.map > *, .key { font: bold 12px/1.35rem ui-monospace, monospace; text-align: center; text-decoration: none; color: #000; border: 1px solid #999; box-sizing: border-box; height: 1.5rem; overflow: hidden }
.key { display: inline-block; width: 1.5rem; margin-right: .35rem; vertical-align: middle } .legend span { margin-right: 1.2rem; white-space: nowrap; display: inline-block }
.free { background: #fff; color: #666 } .held { background: #0072b2; color: #fff } .orphan { background: #d55e00 }
.standby { background: #9ad0f0 } .cooling { background: #f0e442 } .reserved { background: #cc79a7 }
.none { background: repeating-linear-gradient(45deg, #fff, #fff 3px, #bbb 3px, #bbb 5px) }
a:focus, a:hover { outline: 3px solid #000 }
@media (max-width: 700px) { .map { grid-template-columns: repeat(16, 1fr) } body { padding: 0 .6rem } }
</style>
</head>
<body>
)";

constexpr std::array<const char*, 7> kClasses = {"free", "held", "orphan", "standby", "cooling", "reserved", "none"};

std::string ClassOf(AddressState state) { return kClasses[static_cast<std::size_t>(state)]; }

// Escapes text from the cluster, which anyone with write access may have written.
std::string Html(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '&') {
      escaped += "&amp;";
    } else if (c == '<') {
      escaped += "&lt;";
    } else if (c == '>') {
      escaped += "&gt;";
    } else if (c == '"') {
      escaped += "&quot;";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

std::string TextOf(const Json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

std::string Counted(std::size_t count, const char* one, const char* many) {
  return std::to_string(count) + " " + (count == 1 ? one : many);
}

std::string Legend() {
  std::string text = "<p class=\"legend\">";
  for (const StateMark& mark : kStateMarks) {
    text += "<span><b class=\"key " + ClassOf(mark.state) + "\">" + mark.character + "</b>" +
            (mark.state == AddressState::kNotAssignable ? "no pod may get it" : mark.meaning) + "</span>";
  }
  return text + "</p>\n";
}

// A bar that shows how much of the pool is used.
std::string Bar(const SeenPool& seen) {
  const auto total = static_cast<double>(seen.status.total);
  const double share = total > 0 ? static_cast<double>(seen.status.used) / total : 0;
  const long percent = std::lround(share * 100);
  return "<span class=\"bar\" title=\"" + std::to_string(percent) +
         " % used\"><b style=\"width: " + std::to_string(percent) + "%\"></b></span>";
}

std::string Pools(const Inventory& inventory) {
  const Json rows = PoolRows(inventory);
  if (rows.empty()) return "<p>There is no pool.</p>\n";
  std::string text = "<div class=\"wide\"><table>\n<tr>";
  const auto is_count = [](std::string_view column) {
    return column == "total" || column == "used" || column == "free" || column == "blocks";
  };
  for (const auto& [column, value] : rows[0].items()) {
    text += (is_count(column) ? "<th class=\"n\">" : "<th>") + column + "</th>";
  }
  text += "<th>share used</th></tr>\n";
  for (std::size_t i = 0; i < rows.size(); ++i) {
    text += "<tr>";
    for (const auto& [column, value] : rows[i].items()) {
      text += (is_count(column) ? "<td class=\"n\">" : "<td>") + Html(TextOf(value)) + "</td>";
    }
    text += "<td>" + Bar(inventory.pools[i]) + "</td></tr>\n";
  }
  return text + "</table></div>\n";
}

// The anchor of an address contains the space, because two spaces may contain the same address.
std::string AnchorOf(const ipam::Block& block, const std::string& address) {
  return "a-" + Html(block.space) + "-" + address;
}

struct AddressRow {
  const ipam::Block* block;
  AddressState state;
  Json cells;  // the address's row of AddressRows
};

std::string SaidOnHover(const AddressRow& row) {
  std::string text = TextOf(row.cells["address"]) + " " + MarkOf(row.state).name;
  const auto add = [&](const char* what, const char* key) {
    if (const std::string value = TextOf(row.cells[key]); !value.empty()) text += what + value;
  };
  if (row.state == AddressState::kHeld || row.state == AddressState::kOrphan) {
    add(", pod ", "pod");
    add(", interface ", "interface");
    add(", node ", "node");
    add(", since ", "since");
  } else {
    text = TextOf(row.cells["address"]) + " " + TextOf(row.cells["state"]);
  }
  return text;
}

using RowsByOffset = std::map<ipam::BlockOffset, AddressRow>;

std::string Cells(const ipam::Block& block, const std::vector<AddressState>& states, const RowsByOffset& rows) {
  std::string text = "<div class=\"map\">";
  for (ipam::BlockOffset offset = 0; offset < block.size(); ++offset) {
    const std::string address = block.cidr.At(offset).ToString();
    const StateMark& mark = MarkOf(states[offset]);
    const auto row = rows.find(offset);
    if (row == rows.end()) {
      text += "<span class=\"" + ClassOf(mark.state) + "\" title=\"" + address + " " + mark.name + "\">" +
              mark.character + "</span>";
    } else {
      text += "<a class=\"" + ClassOf(mark.state) + "\" href=\"#" + AnchorOf(block, address) + "\" title=\"" +
              Html(SaidOnHover(row->second)) + "\">" + mark.character + "</a>";
    }
  }
  return text + "</div>\n";
}

std::string Counts(const std::vector<AddressState>& states) {
  std::map<AddressState, std::size_t> counts;
  for (const AddressState state : states) ++counts[state];
  std::string text;
  for (const StateMark& mark : kStateMarks) {
    if (counts[mark.state] > 0) text += " · " + std::to_string(counts[mark.state]) + " " + mark.name;
  }
  return text;
}

std::string Addresses(const std::vector<AddressRow>& rows) {
  if (rows.empty()) return "<p>No address has an entry.</p>\n";
  constexpr std::array<const char*, 6> kColumns = {"pod", "node", "interface", "since", "pool", "space"};
  std::string text = "<div class=\"wide\"><table>\n<tr><th>address</th><th>state</th>";
  for (const char* column : kColumns) text += std::string("<th>") + column + "</th>";
  text += "</tr>\n";
  for (const AddressRow& row : rows) {
    const std::string address = TextOf(row.cells["address"]);
    const std::string state = row.state == AddressState::kOrphan ? "orphan" : TextOf(row.cells["state"]);
    text += "<tr id=\"" + AnchorOf(*row.block, address) + "\"><td>" + address + "</td><td><b class=\"key " +
            ClassOf(row.state) + "\">" + MarkOf(row.state).character + "</b>" + Html(state) + "</td>";
    for (const char* column : kColumns) text += "<td>" + Html(TextOf(row.cells[column])) + "</td>";
    text += "</tr>\n";
  }
  return text + "</table></div>\n";
}

}  // namespace

std::string MapPage(const Inventory& inventory) {
  const std::vector<Use> uses = UsesOf(inventory);
  Json cells = AddressRows(inventory);
  std::vector<AddressRow> rows;
  std::string blocks;
  std::size_t next = 0;  // `uses` have the order of the blocks, and of the offsets in each block
  for (const ipam::Block& block : inventory.blocks) {
    const SeenPool* const pool = inventory.FindPool(block.pool_uid);
    const std::vector<AddressState> states = StatesOf(inventory, block, pool == nullptr ? nullptr : &pool->pool);
    RowsByOffset of_block;
    for (; next < uses.size() && uses[next].block == &block; ++next) {
      AddressRow row{.block = &block, .state = states[uses[next].offset], .cells = std::move(cells[next])};
      of_block.emplace(uses[next].offset, row);
      rows.push_back(std::move(row));
    }
    blocks += "<h3>" + block.cidr.ToString() + " <small>pool " + Html(block.pool) + " · " +
              (block.shared() ? "shared by all nodes" : "node " + Html(block.node)) + Counts(states) +
              "</small></h3>\n" + Cells(block, states, of_block);
  }
  return std::string(kHead) + "<h1>Who has which address</h1>\n<p>" + Counted(inventory.pools.size(), "pool", "pools") +
         ", " + Counted(inventory.blocks.size(), "block", "blocks") + ", " +
         Counted(rows.size(), "address with an entry", "addresses with entries") + ", read at " +
         TimeOf(inventory.now_ms) + " by <code>berthctl show map</code>.</p>\n" + "<h2>Pools</h2>\n" +
         Pools(inventory) + "<h2>Blocks</h2>\n" + Legend() +
         (blocks.empty() ? "<p>There is no block: no node has claimed one yet.</p>\n" : blocks) +
         "<h2>Addresses</h2>\n" + Addresses(rows) + "</body>\n</html>\n";
}

}  // namespace berth::cli
