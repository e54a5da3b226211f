// SPDX-License-Identifier: Apache-2.0
// Pool: addresses that pods may get, with their rules. The C++ form of an IPPool object (docs/state.md).
//
// The functions compute with a snapshot of the object: which addresses are assignable, into which blocks the pool is
// divided, and which blocks are unclaimed.
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

// A block has at most 256 addresses: /24 or /120.
inline constexpr int kBlockBitsMax = 8;
inline constexpr int kDefaultBlockBits = 6;

enum class Affinity : std::uint8_t {
  kNode,    // each block belongs to one node, and only this node takes addresses from it
  kShared,  // blocks belong to no node; all nodes take single addresses by compare-and-swap
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
  std::string resource_version;
  bool deleting = false;  // has a deletionTimestamp

  // spec
  std::string space = std::string(kDefaultSpace);
  Prefix subnet;
  std::vector<AddressRange> ranges;  // empty: the whole subnet
  std::vector<AddressRange> excludes;
  std::optional<int> block_length;  // spec.blockSize, a prefix length; not set: 26 or 122
  Affinity affinity = Affinity::kNode;
  std::optional<Address> gateway;
  std::optional<int> result_length;  // spec.prefixLength: prefix length in the CNI result; not set: that of the subnet
  bool allow_edge_addresses = false;
  std::vector<Route> routes;
  Dns dns;
  std::optional<LabelSelector> node_selector;
  std::optional<LabelSelector> namespace_selector;
  bool allow_requests = false;
  bool allow_annotation = false;
  int warm_addresses = 16;
  int max_blocks_per_node = 0;  // 0: no limit
  std::chrono::seconds cooldown{0};
  std::string resource;  // Nodes show the pool's addresses as ipam.berth.dev/<resource>; empty: no Node shows them
  bool disabled = false;

  // status
  bool ready = false;
  std::string not_ready_reason;  // reason and message of the condition Ready if it is not True
  std::string not_ready_message;
  std::vector<Prefix> claimable;  // may be outdated: prefixes of unclaimed blocks, each at least one block long
  Uint128 block_count = 0;        // may be outdated: number of IPBlock objects
  // May be outdated. True: more nodes need a block than there are unclaimed blocks, so no node claims one in advance.
  bool is_scarce = false;
  // Addresses in this pool that no pod may get: reserved addresses, and gateways of all pools of the space.
  std::vector<AddressRange> withheld;

  [[nodiscard]] Family family() const { return subnet.family(); }
  // The block length that berth uses: the longer of blockSize (or its default) and the subnet's prefix length, so that
  // a small subnet is one block. If blockSize is out of range (Validate refuses it), the nearest allowed length counts.
  [[nodiscard]] int BlockLength() const;
  [[nodiscard]] int ResultLength() const { return result_length.value_or(subnet.length()); }
};

// A pool as it was at one time; shared between callers, never changed. Its lists may be long.
using PoolView = std::shared_ptr<const Pool>;

// ::ffff:0:0/96, the addresses that Address::Parse refuses. Short IPv6 prefixes contain them.
[[nodiscard]] AddressRange IPv4Mapped();

// Checks rules that CEL in the CRD cannot express, or that somebody may have bypassed: ranges and excludes have the
// subnet's family and lie in it; ranges do not overlap; the gateway lies in the subnet, or in the wider network that
// spec.prefixLength gives; block length and prefix length are in range; a route's gateway has the family of its
// destination; at least one address is assignable (withheld addresses count as assignable here, because reservations
// may cover a whole pool).
// Errors: kInvalid; the message names the field, quotes the value and gives a remedy.
[[nodiscard]] Expected<void> Validate(const Pool& pool);

// The assignable addresses: the ranges of the pool, without excluded addresses, the gateway, withheld addresses and
// IPv4-mapped addresses (which Address cannot parse). The subnet's first and last address (network and broadcast
// address; in IPv6 the subnet-router anycast address of RFC 4291, section 2.6.1) are assignable only if
// allowEdgeAddresses is set, or if the subnet has only one or two addresses.
[[nodiscard]] IntervalSet Assignable(const Pool& pool);
// The assignable addresses of one block. Reads each range, exclude and withheld range once, and sorts those that
// overlap the block.
[[nodiscard]] IntervalSet AssignableIn(const Pool& pool, const Prefix& block);

// Says why an address is not assignable, for a person who requested it: kAddressTaken for the gateway and for withheld
// addresses; kInvalid if the address is outside the subnet or the ranges, excluded, or an edge address. Requires:
// Assignable(pool) does not contain `address`.
[[nodiscard]] Error WhyNotAssignable(const Pool& pool, Address address);

// The block that contains `address`. Requires: the subnet contains `address`.
[[nodiscard]] Prefix BlockOf(const Pool& pool, Address address);

// The blocks of a pool that contain an assignable address, in order. Each block has a number, so that a caller can
// choose a block at random even among 2^122 blocks.
class PoolBlocks {
 public:
  explicit PoolBlocks(const Pool& pool);
  // Only blocks with an assignable address in `within`, such as claimable prefixes.
  PoolBlocks(const Pool& pool, const std::vector<Prefix>& within);

  // Number of blocks. It fits: ::/0 in single addresses has 2^128 - 2^32 blocks, because IPv4-mapped addresses do not
  // count.
  [[nodiscard]] Uint128 Count() const { return count_; }
  // Requires: index < Count().
  [[nodiscard]] Prefix At(Uint128 index) const;

 private:
  void Fill(const IntervalSet& whole_blocks, int block_length);

  // Adjacent blocks without a gap. A run ends where the index of the next run begins.
  struct Run {
    Prefix first;   // the run's first block
    Uint128 index;  // the number of that block
  };
  std::vector<Run> runs_;
  Uint128 count_ = 0;
};

// The prefixes, in order, of the blocks with an assignable address that overlap no block of `existing`, for
// status.claimable. If there are more than `limit` prefixes (0: no limit), returns the largest prefixes, because they
// contain unclaimed blocks for the longest time. `existing` may contain blocks of other pools of the space, of any
// size, in any order.
[[nodiscard]] std::vector<Prefix> Claimable(const Pool& pool, const std::vector<Prefix>& existing, std::size_t limit);

}  // namespace berth::ipam
