// SPDX-License-Identifier: Apache-2.0
// Engine: ADD, DEL, CHECK and GC over a BlockStore. One engine for direct mode and the node agent.
//
// What it keeps (docs/design.md, invariants): an address is answered only after the compare-and-swap that records it
// succeeded; an ADD that fails takes back what it took and nothing else; DEL goes by attachment alone and never by pod.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ipam/block_store.h"
#include "ipam/pool_choice.h"

namespace berth::ipam {

struct AddRequest {
  Attachment attachment;
  std::string interface;
  std::string pod_namespace;  // empty: unknown, and the two below
  std::string pod;
  std::string uid;
  std::string netns = {};          // name of its network namespace (node/netns.h); empty: it has none
  std::vector<std::string> pools;  // names, in order of preference; not empty
  // Those of `pools` that the pod named and its network's configuration does not: they must allow that.
  std::vector<std::string> by_annotation = {};
  std::vector<Address> requested;  // at most one per family is meant; empty: any
};

struct AssignedAddress {
  Address address;
  int prefix_length;
  std::optional<Address> gateway;
};

struct AddResult {
  std::vector<AssignedAddress> addresses;  // in the order of the families in AddRequest.pools
  std::vector<Route> routes;               // of the pools that gave an address, in that order
  Dns dns;                                 // of the first of them that has any
  bool took = false;                       // false: the attachment had all of it before
};

struct HeldAddress {
  Address address;
  std::string pool;  // of the block it is in
};

// A write that a rule refuses, of the object or of the API server, and will again.
[[nodiscard]] constexpr bool IsRefusal(ErrorCode code) {
  return code == ErrorCode::kInvalid || code == ErrorCode::kForbidden;
}

// May be used by several threads if the store and the runtime may.
class Engine {
 public:
  // Both must outlive the engine.
  Engine(BlockStore& store, Runtime& runtime) : store_(store), runtime_(runtime) {}

  // One address of every family of the pools, or an error and nothing held that was not before. The same attachment
  // again gets the same answer.
  // Errors: kNotFound: a pool does not exist; kInvalid: not usable, not admitted, request not allowed; kAddressTaken;
  // kExhausted; kUnknownOutcome: DEL settles it; and what the store answers.
  [[nodiscard]] Expected<AddResult> Add(const AddRequest& request);

  // Gives back everything the attachment has, wherever, and settles writes of it that may still be under way. Success
  // if it has nothing. On an error it goes on with the rest and returns the first.
  [[nodiscard]] Expected<void> Del(const Attachment& attachment);

  // Makes sure that nothing which an earlier call of this attachment sent can still land, and keeps what has landed
  // (its answer may have been delivered), but for a block that was to be created: such an ADD had not been answered.
  [[nodiscard]] Expected<void> SettleIntents(const Attachment& attachment);

  // An empty block of the pool for this node, ahead of need. Requires: the turn of BlockStore::BeginClaim.
  // Errors: kExhausted; kUnknownOutcome: nothing settles it; and what the store answers.
  [[nodiscard]] Expected<BlockView> ClaimAhead(const Pool& pool);

  // The addresses the attachment has; empty if none.
  [[nodiscard]] Expected<std::vector<HeldAddress>> Held(const Attachment& attachment);

  // Gives back the addresses of this node whose attachment is of the network (its first 12 digits) and for whose entry
  // `keep` is false. Goes on after errors; returns all of them.
  [[nodiscard]] std::vector<Error> CollectGarbage(std::string_view network,
                                                  const std::function<bool(const HeldEntry&)>& keep);

 private:
  struct Call;  // one ADD under way

  [[nodiscard]] Expected<std::vector<PoolView>> ReadPools(const std::vector<std::string>& names);
  [[nodiscard]] Expected<Admission> ReadAdmission(const std::vector<PoolView>& pools, const AddRequest& request);
  [[nodiscard]] Expected<void> FindHeld(Call& call);
  [[nodiscard]] Expected<void> MarkSharedSibling(Call& call);
  [[nodiscard]] Expected<Address> TakeForFamily(Call& call, const FamilyPlan& plan);
  [[nodiscard]] Expected<Address> TakeFromPool(Call& call, PoolView pool, std::optional<Address> requested);
  [[nodiscard]] Expected<Address> TakeFromKnownBlocks(Call& call, const PoolView& pool,
                                                      std::optional<Address> requested);
  // The pool of that UID, by a hint; by a consistent read if the hint does not show it.
  [[nodiscard]] Expected<PoolView> ReadPoolAgain(const Pool& pool);
  [[nodiscard]] Expected<void> ReadBlocksAgain(Call& call, Affinity affinity, Freshness freshness);
  [[nodiscard]] Expected<Address> TakeFromBlock(Call& call, const BlockView& seen, const PoolView& known,
                                                std::optional<Address> requested);
  // `is_all_claimed`: as in ClaimTurn.
  [[nodiscard]] Expected<Address> ClaimAndTake(Call& call, const PoolView& pool, std::optional<Address> requested,
                                               bool is_all_claimed);
  // The block to try next. Errors: kExhausted.
  [[nodiscard]] Expected<Prefix> PickClaim(const Pool& pool, int attempt);
  [[nodiscard]] Expected<Address> ClaimBlock(Call& call, const PoolView& pool, const Prefix& cidr,
                                             std::optional<Address> requested);
  struct Creation {
    Expected<BlockView> block;
    bool was_in_doubt = false;  // one before it may have succeeded, whose answer did not come
  };
  [[nodiscard]] Creation CreateSettled(Call& call, const Block& block);
  [[nodiscard]] Expected<Address> VerifyClaim(Call& call, const Pool& pool, const BlockView& claimed,
                                              std::optional<Address> requested);
  void TakeBack(Call& call);
  [[nodiscard]] Expected<AddResult> Answer(const Call& call);

  // Of the attachment; every block that it needs is among them (see MarkSharedSibling).
  [[nodiscard]] Expected<std::vector<BlockView>> BlocksHolding(const Attachment& attachment);
  [[nodiscard]] Expected<void> ReleaseIn(const BlockView& seen, const Attachment& attachment, bool fence);
  [[nodiscard]] Expected<void> Settle(const OpenIntent& intent);

  BlockStore& store_;
  Runtime& runtime_;
};

}  // namespace berth::ipam
