// SPDX-License-Identifier: Apache-2.0
// Pool: what may be handed out, and by which rules. The value form of an IPPool object (docs/state.md).
//
// Everything here is arithmetic over a snapshot: which addresses a pool may hand out, which blocks it is cut into, and
// which of them can be claimed.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "ipam/address.h"
#include "ipam/interval_set.h"
#include "ipam/label_selector.h"
#include "ipam/prefix.h"

namespace berth::ipam {

inline constexpr std::string_view kDefaultSpace = "default";

// A block holds at most 256 addresses: /24 or /120.
inline constexpr int kBlockBitsMax = 8;
inline constexpr int kDefaultBlockBits = 6;

enum class Affinity : std::uint8_t {
  kNode,    // every block belongs to one node, which alone writes it
  kShared,  // blocks belong to no node; every node takes single addresses by compare-and-swap
};

struct Route {
  Prefix destination;
  std::optional<Address> gateway = {};
  // CNI 1.1.0 only.
  std::optional<std::uint32_t> mtu = {}, advmss = {}, priority = {}, table = {}, scope = {};
  friend bool operator==(const Route&, const Route&) = default;
};

struct Dns {
  std::vector<std::string> nameservers;
  std::string domain;
  std::vector<std::string> search;
  std::vector<std::string> options;
  [[nodiscard]] bool empty() const {
    return nameservers.empty() && domain.empty() && search.empty() && options.empty();
  }
  friend bool operator==(const Dns&, const Dns&) = default;
};

struct Pool {
  // metadata
  std::string name;
  std::string uid;
  bool deleting = false;  // has a deletionTimestamp

  // spec
  std::string space = std::string(kDefaultSpace);
  Prefix subnet;
  std::vector<AddressRange> ranges;  // empty: the subnet
  std::vector<AddressRange> excludes;
  std::optional<int> block_length;  // spec.blockSize, a prefix length; unset: 26 or 122
  Affinity affinity = Affinity::kNode;
  std::optional<Address> gateway;
  std::optional<int> result_length;  // spec.prefixLength: mask in the CNI result; unset: the subnet's
  bool allow_edge_addresses = false;
  std::vector<Route> routes;
  Dns dns;
  std::optional<LabelSelector> node_selector;
  std::optional<LabelSelector> namespace_selector;
  bool allow_requests = false;
  bool allow_annotation = false;
  bool sticky = false;
  int warm_addresses = 16;
  int max_blocks_per_node = 0;  // 0: no limit
  std::chrono::seconds cooldown{0};
  std::string resource;  // empty: not counted
  bool disabled = false;

  // status
  bool ready = false;
  std::string not_ready_reason;  // reason and message of the condition Ready when it is not True
  std::string not_ready_message;
  std::vector<Prefix> claimable;  // hint: aggregated, every prefix at least one block long
  Uint128 block_count = 0;        // hint: block objects that exist
  bool is_scarce = false;         // hint: fewer blocks are left than nodes without one, so each is for who needs it now
  // Reservations and gateways of all pools of the space as far as they lie in this pool: nobody hands them out.
  std::vector<AddressRange> withheld;

  [[nodiscard]] Family family() const { return subnet.family(); }
  // The effective block length: the larger of blockSize (or its default) and the subnet's prefix length, so that a
  // small subnet is one block. A blockSize out of bounds, which Validate refuses, counts as the nearest legal one.
  [[nodiscard]] int BlockLength() const;
  [[nodiscard]] int ResultLength() const { return result_length.value_or(subnet.length()); }
};

// A pool as it was seen once; shared between callers, never changed. Its lists may be long.
using PoolView = std::shared_ptr<const Pool>;

// Rules that one pool must keep and that CEL in the CRD cannot say or may have been bypassed: ranges and excludes of
// the subnet's family and inside it, ranges not overlapping, gateway inside the subnet or the wider network that
// spec.prefixLength makes of it, block length and prefix length within bounds, the gateway of a route of its
// destination's family, at least one assignable address (withheld ones count as such: reservations may cover a pool).
// Errors: kInvalid; the message names the field, quotes the value and says the remedy.
[[nodiscard]] Expected<void> Validate(const Pool& pool);

// Addresses the pool may hand out: its ranges within the subnet, less excludes, gateway, withheld ones, v4-mapped ones
// (nothing could name them) and, unless allowEdgeAddresses or a subnet of one or two addresses, the first and last of
// the subnet (network and broadcast; in IPv6 the subnet-router anycast address of RFC 4291, section 2.6.1).
[[nodiscard]] IntervalSet Assignable(const Pool& pool);
// The same, of one block only: linear in the number of ranges, excludes and withheld ones.
[[nodiscard]] IntervalSet AssignableIn(const Pool& pool, const Prefix& block);

// Why an address that is not in Assignable(pool) is not, for a person who asked for it: kAddressTaken for the gateway
// and withheld addresses, kInvalid for one outside the subnet or the ranges, an excluded one, or an edge. Requires:
// Assignable(pool) does not contain it.
[[nodiscard]] Error WhyNotAssignable(const Pool& pool, Address address);

// The block that `address` lies in. Requires: the subnet contains it.
[[nodiscard]] Prefix BlockOf(const Pool& pool, Address address);

// The blocks of a pool in which an assignable address lies, in order and addressable by number, so that one can be
// picked at random from 2^122 of them.
class PoolBlocks {
 public:
  explicit PoolBlocks(const Pool& pool);
  // Those only of which an assignable address lies in `within`: claimable prefixes, or what else a search is confined
  // to.
  PoolBlocks(const Pool& pool, const std::vector<Prefix>& within);

  // 2^128 (single addresses of all IPv6) is counted as 2^128 - 1.
  [[nodiscard]] Uint128 Count() const { return count_; }
  // Requires: index < Count().
  [[nodiscard]] Prefix At(Uint128 index) const;

 private:
  void Fill(const IntervalSet& whole_blocks, int block_length);

  // Neighbouring blocks without a gap; it ends where the next one's index begins.
  struct Run {
    Prefix first;   // the run's first block
    Uint128 index;  // its number
  };
  std::vector<Run> runs_;
  Uint128 count_ = 0;
};

// The aggregated prefixes, in order, that cover exactly the blocks with an assignable address which overlap no block of
// `existing`: the hint that status.claimable carries. Of more than `limit` (0: no limit) the largest are kept, because
// they last longest. `existing` may hold blocks of other pools of the space, of any size, in any order.
[[nodiscard]] std::vector<Prefix> Claimable(const Pool& pool, const std::vector<Prefix>& existing, std::size_t limit);

}  // namespace berth::ipam
