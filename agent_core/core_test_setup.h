// SPDX-License-Identifier: Apache-2.0
// For tests only: short texts for blocks, entries and changes. "a1" stands for an attachment, its pod and its entry.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "agent_core/block_state.h"
#include "ipam/block.h"
#include "ipam/change.h"
#include "ipam/entry.h"
#include "ipam/pool.h"

namespace berth::agent_core {

// A name has up to 16 hexadecimal digits, not all "0": "a1", "b2".
inline ipam::Attachment AttachmentNamed(std::string_view name) {
  return name.empty() ? "" : "0123456789ab-" + std::string(16 - name.size(), '0') + std::string(name);
}
inline std::string NameOf(std::string_view attachment) {
  const std::string_view digits = attachment.substr(std::min<std::size_t>(13, attachment.size()));
  return std::string(digits.substr(std::min(digits.find_first_not_of('0'), digits.size())));
}

// The container's network namespace is "ns-<name>".
inline ipam::HeldEntry EntryNamed(std::string_view name) {
  return {.pod_namespace = "team-a",
          .pod = std::string(name),
          .uid = "u",
          .attachment = AttachmentNamed(name),
          .interface = "eth0",
          .since_ms = 1,
          .node = {},
          .netns = "ns-" + std::string(name),
          .unknown = {}};
}

// Makes an entry of a short text. "a1": a1 holds the address. "a1+": a1 may also have an address in a Shared block.
// "~": cooling. "~a1": the controller freed the address from a1, and kept the held entry. "~-a1": a person freed the
// address from a1. "!r": reserved for r. "-": no entry. Other texts stay as they are.
inline std::string EntryText(std::string_view shown) {
  constexpr std::int64_t kUntil = 3'600'000;
  const auto text = [](const ipam::Entry& entry) { return ipam::FormatEntry(entry).value(); };
  if (shown == "-") return {};
  if (shown == "?") return "?";
  if (shown.starts_with('!')) return text(ipam::ReservedEntry{std::string(shown.substr(1))});
  if (shown == "~") return text(ipam::CoolingEntry{.until_ms = kUntil, .forget = {}});
  if (shown.starts_with("~-")) {
    return text(ipam::CoolingEntry{.until_ms = kUntil, .forget = AttachmentNamed(shown.substr(2))});
  }
  if (shown.starts_with('~')) {
    const std::string_view name = shown.substr(1);
    return text(
        ipam::CoolingEntry{.until_ms = kUntil, .forget = AttachmentNamed(name), .freed = text(EntryNamed(name))});
  }
  ipam::HeldEntry entry = EntryNamed(shown.ends_with('+') ? shown.substr(0, shown.size() - 1) : shown);
  entry.has_shared_sibling = shown.ends_with('+');
  return text(entry);
}
// The inverse of EntryText.
inline std::string ShownEntry(const std::string& text) {
  if (text.empty()) return "-";
  const ipam::Entry entry = ipam::ParseEntry(text);
  if (const auto* held = std::get_if<ipam::HeldEntry>(&entry)) {
    return NameOf(held->attachment) + (held->has_shared_sibling ? "+" : "");
  }
  if (const auto* reserved = std::get_if<ipam::ReservedEntry>(&entry)) return "!" + reserved->reservation;
  const auto* cooling = std::get_if<ipam::CoolingEntry>(&entry);
  if (cooling == nullptr) return text;
  return (cooling->forget.empty() || !cooling->freed.empty() ? "~" : "~-") + NameOf(cooling->forget);
}

// Returns for example "1-3,5", or "-" for no offsets.
inline std::string ShownOffsets(const ipam::OffsetSet& offsets) {
  std::string shown;
  for (const ipam::BlockOffset first : offsets) {
    if (first > 0 && offsets.contains(first - 1)) continue;
    ipam::BlockOffset last = first;
    while (offsets.contains(last + 1)) ++last;
    shown += (shown.empty() ? "" : ",") + std::to_string(first) + (last == first ? "" : "-" + std::to_string(last));
  }
  return shown.empty() ? "-" : shown;
}

// A pool with all addresses of 10.55.0.0/16, also the first and the last address of the subnet.
inline ipam::PoolView TestPoolView(std::string_view subnet = "10.55.0.0/16", std::string_view block = "10.55.0.0/29") {
  ipam::Pool pool;
  pool.name = "p1";
  pool.uid = "uid-of-p1";
  pool.subnet = ipam::Prefix::Parse(subnet).value();
  pool.block_length = ipam::Prefix::Parse(block).value().length();
  pool.allow_edge_addresses = true;
  pool.ready = true;
  return std::make_shared<const ipam::Pool>(std::move(pool));
}

// A block of node "n1" without entries.
inline ipam::Block EmptyBlock(const ipam::Pool& pool, std::string_view cidr = "10.55.0.0/29") {
  ipam::Block block = ipam::NewBlock(pool, ipam::Prefix::Parse(cidr).value(), "n1");
  block.uid = "uid-1";
  block.resource_version = "1";
  return block;
}

// An ADD that may be answered with an address on standby.
inline ipam::Change Taking(const ipam::PoolView& pool, std::string_view name) {
  return {.attachment = AttachmentNamed(name),
          .what = ipam::TakeAddress{.pool = pool, .entry = EntryNamed(name)},
          .may_take_standby = true,
          .standby = ipam::StandbyPlan{.pool = pool}};
}
inline ipam::Change Releasing(std::string_view name) {
  const ipam::Attachment attachment = AttachmentNamed(name);
  return {.attachment = attachment, .what = ipam::ReleaseAddresses{.attachments = {attachment}}};
}

// Returns how `after` differs from `before`: "10.55.0.1=a1 10.55.0.2=- standby=3-4 agent=m-me.2".
inline std::string ShownDifference(const ipam::Block& before, const ipam::Block& after) {
  std::string shown;
  const auto add = [&shown](const std::string& word) { shown += (shown.empty() ? "" : " ") + word; };
  for (ipam::BlockOffset offset = 0; offset < after.size(); ++offset) {
    const std::string text = TextAt(after, offset);
    if (TextAt(before, offset) != text) add(after.cidr.At(offset).ToString() + "=" + ShownEntry(text));
  }
  if (before.standby != after.standby) add("standby=" + ShownOffsets(after.standby));
  if (before.agent != after.agent) add("agent=" + after.agent);
  if (before.deleting != after.deleting) add("deleting");
  if (before.uid != after.uid) add("uid=" + after.uid);
  if (before.node != after.node) add("node=" + after.node);
  // `next` is only a hint: show it if nothing else differs.
  if (shown.empty() && before.next != after.next) add("next=" + std::to_string(after.next));
  return shown;
}

}  // namespace berth::agent_core
