// SPDX-License-Identifier: Apache-2.0
// Entry: who has one address of a block, as the one string that IPBlock.allocations keeps for it.
//
// Grammar (docs/state.md):
//   held      <namespace>/<pod> <uid> <attachment> i=<interface> t=<unix ms>[ n=<node>][ r=<reservation>]
//             [ ns=<network namespace>][ k=v]...
//   cooling   ~ t=<until, unix ms>[ f=<attachment>[ <the held entry that was here>]]
//   reserved  ! <reservation>
// "-" stands for an unknown part. Bytes outside [A-Za-z0-9._:,+@-] inside a part are percent-encoded, so that a part
// never holds a blank. What cannot be parsed counts as held by somebody: an address in doubt is not handed out. A text
// with a pod and an attachment always can be: the policy lets nodes write no other into Shared blocks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/error.h"

namespace berth::ipam {

// What IPBlock's schema accepts as the longest entry.
inline constexpr std::size_t kEntryLengthMax = 800;

// The longest cooldownSeconds of a pool.
inline constexpr std::int64_t kCooldownMaxSeconds = 86'400;
// How far ahead a cooling entry may end: the longest cooldown, and an hour for clocks that differ.
inline constexpr std::int64_t kCoolingAheadMaxMs = (kCooldownMaxSeconds + 3600) * 1000;

// "<net12>-<id16>": names one interface of one container in one network; 29 characters, hexadecimal.
using Attachment = std::string;
inline constexpr std::size_t kAttachmentNetworkLength = 12;

struct HeldEntry {
  std::string pod_namespace;  // empty: unknown, here and below
  std::string pod;
  std::string uid;
  Attachment attachment;
  std::string interface;
  std::int64_t since_ms = 0;         // t: UNIX time in milliseconds
  std::string node;                  // n: in Shared blocks only
  std::string reservation;           // r
  std::int64_t cooldown_s = 0;       // c: the pool's cooldown when the address was taken, so that DEL needs no pool
  bool has_shared_sibling = false;   // s=1: the attachment may hold an address in a Shared block too (see engine.h)
  std::string netns = {};            // ns: name of the container's network namespace (node/netns.h)
  std::vector<std::string> unknown;  // parts that this version does not understand, kept as they are

  friend bool operator==(const HeldEntry&, const HeldEntry&) = default;
};

struct CoolingEntry {
  std::int64_t until_ms = 0;
  Attachment forget;  // f: a reclaimed attachment that the node's agent shall forget; may be empty
  // The entry that the controller freed, as it stood; may be empty. The node's agent writes it again if the network
  // namespace that it names is still there.
  std::string freed = {};
  friend bool operator==(const CoolingEntry&, const CoolingEntry&) = default;
};

struct ReservedEntry {
  std::string reservation;
  friend bool operator==(const ReservedEntry&, const ReservedEntry&) = default;
};

// Held, but not in a form that this version understands.
struct OpaqueEntry {
  std::string text;
  friend bool operator==(const OpaqueEntry&, const OpaqueEntry&) = default;
};

using Entry = std::variant<HeldEntry, CoolingEntry, ReservedEntry, OpaqueEntry>;

// Never fails: what is not understood is an OpaqueEntry.
[[nodiscard]] Entry ParseEntry(std::string_view text);

// Errors: kInvalid if the text would be longer than kEntryLengthMax (a pod name from outside can be of any length).
[[nodiscard]] Expected<std::string> FormatEntry(const Entry& entry);

// The attachment of a held entry, without parsing the rest; empty for every other entry. The view lives as long as the
// text.
[[nodiscard]] std::string_view AttachmentOf(std::string_view entry_text);

// Returns the held entry that the controller replaced by this cooling entry and kept in it for the node's agent
// (CoolingEntry::freed). Nothing for every other entry.
struct FreedByController {
  std::string text;  // of the held entry, as it stood
  HeldEntry entry;   // names a network namespace
};
[[nodiscard]] std::optional<FreedByController> FreedUnder(std::string_view entry_text);

// The time until which a cooling entry keeps its address; empty for every other entry. 0, so that it is over, if that
// time is more than kCoolingAheadMaxMs after now_ms: no pool has such a cooldown.
[[nodiscard]] std::optional<std::int64_t> CoolingUntil(std::string_view entry_text, std::int64_t now_ms);

}  // namespace berth::ipam
