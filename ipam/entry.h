// SPDX-License-Identifier: Apache-2.0
// Entry: says how one address of a block is used, as the string in IPBlock.allocations.
//
// Grammar (docs/state.md):
//   held      <namespace>/<pod> <uid> <attachment> i=<interface> t=<unix ms>[ n=<node>][ c=<s>][ s=1]
//             [ ns=<network namespace>][ k=v]...
//   cooling   ~ t=<until, unix ms>[ f=<attachment>[ <the held entry that was here>]]
//   reserved  ! <reservation>
// "-" stands for an unknown part. Bytes of a part outside [A-Za-z0-9._:,+@-] are percent-encoded, so a part contains no
// blank. An entry that cannot be parsed counts as held, so no pod gets its address. ParseEntry parses every text of at
// least five parts that has a "/" in the first part and an attachment as the third part. The admission policy lets
// nodes write no other held entries into Shared blocks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/error.h"

namespace berth::ipam {

// The longest entry in bytes that the schema of IPBlock accepts.
inline constexpr std::size_t kEntryLengthMax = 800;

// The longest cooldownSeconds of a pool.
inline constexpr std::int64_t kCooldownMaxSeconds = 86'400;
// A cooling entry may end at most this long after now: the longest cooldown, plus 1 h for differences between clocks.
inline constexpr std::int64_t kCoolingAheadMaxMs = (kCooldownMaxSeconds + 3600) * 1000;

// "<net12>-<id16>", 29 characters: identifies one interface of one container in one network by hexadecimal digits.
using Attachment = std::string;
inline constexpr std::size_t kAttachmentNetworkLength = 12;

struct HeldEntry {
  std::string pod_namespace;  // empty: unknown; likewise the fields below
  std::string pod;
  std::string uid;
  Attachment attachment;
  std::string interface;
  std::int64_t since_ms = 0;         // t: UNIX time in milliseconds
  std::string node;                  // n: in Shared blocks only
  std::int64_t cooldown_s = 0;       // c: the pool's cooldown at the ADD, so that the DEL need not read the pool
  bool has_shared_sibling = false;   // s=1: the attachment may also hold an address of a Shared block (see engine.h)
  std::string netns = {};            // ns: name of the container's network namespace (node/netns.h)
  std::vector<std::string> unknown;  // parts that this version does not know; kept unchanged

  friend bool operator==(const HeldEntry&, const HeldEntry&) = default;
};

struct CoolingEntry {
  std::int64_t until_ms = 0;
  Attachment forget;  // f: tells the node's agent that this attachment has no address any more; may be empty
  // The held entry that the controller or berthctl freed, unchanged; may be empty. If the network namespace in this
  // entry still exists, the node's agent writes the entry again.
  std::string freed = {};
  friend bool operator==(const CoolingEntry&, const CoolingEntry&) = default;
};

struct ReservedEntry {
  std::string reservation;
  friend bool operator==(const ReservedEntry&, const ReservedEntry&) = default;
};

// An entry that this version cannot parse. It counts as held.
struct OpaqueEntry {
  std::string text;
  friend bool operator==(const OpaqueEntry&, const OpaqueEntry&) = default;
};

using Entry = std::variant<HeldEntry, CoolingEntry, ReservedEntry, OpaqueEntry>;

// Never fails: the result for a text that cannot be parsed is an OpaqueEntry.
[[nodiscard]] Entry ParseEntry(std::string_view text);

// Errors: kInvalid: the text would be longer than kEntryLengthMax. This can happen because the caller may pass a pod
// name of any length.
[[nodiscard]] Expected<std::string> FormatEntry(const Entry& entry);

// The attachment of a held entry, without parsing the rest; empty for all other entries. The view refers to
// `entry_text`.
[[nodiscard]] std::string_view AttachmentOf(std::string_view entry_text);

// Returns the cooling entry that replaces the held entry `text` (parsed: `held`) until `until_ms`, if another program
// than the node's agent frees the address. It tells the agent to forget the attachment. If `agent_looks`, it also
// contains `text`, and the agent writes `text` again if the network namespace in `text` still exists. FreedMark leaves
// `text` out if `held` names no network namespace, or if the result would be longer than kEntryLengthMax.
[[nodiscard]] std::string FreedMark(const HeldEntry& held, const std::string& text, bool agent_looks,
                                    std::int64_t until_ms);

// The held entry that another program freed and appended to a cooling entry for the node's agent (CoolingEntry::freed).
// FreedUnder returns nothing if the cooling entry has no such held entry, if the held entry names no network namespace,
// or if the held entry's attachment is not CoolingEntry::forget.
struct FreedByController {
  std::string text;  // the held entry, unchanged
  HeldEntry entry;   // the same, parsed; has a network namespace
};
[[nodiscard]] std::optional<FreedByController> FreedUnder(std::string_view entry_text);

// The time until which no pod gets the address of a cooling entry; nothing for all other entries. If this time is more
// than kCoolingAheadMaxMs after now_ms, the result is 0 (the cooling is over), because no pool has such a cooldown.
[[nodiscard]] std::optional<std::int64_t> CoolingUntil(std::string_view entry_text, std::int64_t now_ms);

}  // namespace berth::ipam
