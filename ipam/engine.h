// SPDX-License-Identifier: Apache-2.0
// Engine: carries out ADD, DEL, CHECK and GC with a BlockStore, for direct mode and for the node agent.
//
// The engine keeps these rules (docs/design.md, invariants): it answers an ADD with an address only after the store has
// recorded the address. A failed ADD frees exactly the addresses that it has taken, if the store can write. A DEL looks
// for the attachment, never for the pod.
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
  std::string pod_namespace;  // this field, pod and uid: empty if unknown
  std::string pod;
  std::string uid;
  std::string netns = {};          // name of the container's network namespace (node/netns.h); empty: none
  std::vector<std::string> pools;  // names, in order of preference; not empty
  // The pools among `pools` that only the pod's annotation names, not the network configuration. These pools must have
  // allowAnnotation.
  std::vector<std::string> by_annotation = {};
  std::vector<Address> requested;  // at most one of each family; empty: any address
};

struct AssignedAddress {
  Address address;
  int prefix_length;
  std::optional<Address> gateway;
};

struct AddResult {
  std::vector<AssignedAddress> addresses;  // in the order in which the families appear in AddRequest.pools
  std::vector<Route> routes;               // routes of the addresses' pools, in the same order
  Dns dns;                                 // DNS of the first of these pools that has any
  bool is_new = false;                     // true: this ADD gave the attachment all addresses that it has
};

struct HeldAddress {
  Address address;
  std::string pool;  // the pool of the address's block
};

// True if berth or the API server refused the write as invalid (schema, CEL, admission), or the API server refused it
// as forbidden (RBAC, quota). A retry normally fails too.
[[nodiscard]] constexpr bool IsRefusal(ErrorCode code) {
  return code == ErrorCode::kInvalid || code == ErrorCode::kForbidden;
}

// Several threads may use an engine if they may use the store and the runtime.
class Engine {
 public:
  // `store` and `runtime` must outlive the engine.
  Engine(BlockStore& store, Runtime& runtime) : store_(store), runtime_(runtime) {}

  // Gives the attachment one address of each family of the pools. A repeated ADD of the same attachment gets the same
  // addresses. If Add fails, it tries to free the addresses that it has taken. An address that it cannot free stays
  // until the attachment's DEL, or until the pod is gone.
  // Errors: kNotFound: a pool does not exist; kInvalid: a pool is not usable or does not admit the pod, or the request
  // is not allowed; kAddressTaken; kExhausted; kUnknownOutcome: a DEL settles the write; errors of the store.
  [[nodiscard]] Expected<AddResult> Add(const AddRequest& request);

  // Frees all addresses of the attachment, and settles its writes in doubt. Succeeds if the attachment has no address.
  // After an error, continues with the rest, and returns the first error.
  [[nodiscard]] Expected<void> Del(const Attachment& attachment);

  // Settles the writes in doubt of this attachment, so that none of them can land later. Keeps an entry that a patch
  // has written, because the patch's ADD may have been answered.
  [[nodiscard]] Expected<void> SettleIntents(const Attachment& attachment);

  // Claims an unclaimed block of the pool: creates it, empty, for this node or as a Shared block. Returns a block that
  // exists already if this node may use it and it has free addresses. Tries at most `tries` blocks; each try after the
  // third lists all blocks. Requires: the caller has the turn of BeginClaim. Errors: kExhausted; errors of
  // BlockStore::Create.
  [[nodiscard]] Expected<BlockView> Claim(const Pool& pool, int tries);

  // The addresses that the attachment holds; empty: none.
  [[nodiscard]] Expected<std::vector<HeldAddress>> Held(const Attachment& attachment);

  // Frees each address of this node whose attachment begins with `network` (12 hexadecimal digits), unless `keep`
  // returns true for its entry. After an error, continues; returns all errors.
  [[nodiscard]] std::vector<Error> CollectGarbage(std::string_view network,
                                                  const std::function<bool(const HeldEntry&)>& keep);

 private:
  struct Call;  // one running ADD

  [[nodiscard]] Expected<std::vector<PoolView>> ReadPools(const AddRequest& request);
  [[nodiscard]] Expected<Admission> ReadAdmission(const std::vector<PoolView>& pools, const AddRequest& request);
  [[nodiscard]] Expected<void> FindHeld(Call& call);
  [[nodiscard]] Expected<void> MarkSharedSibling(Call& call);
  [[nodiscard]] Expected<Address> TakeForFamily(Call& call, const FamilyPlan& plan);
  [[nodiscard]] Expected<Address> TakeFromPool(Call& call, PoolView pool, std::optional<Address> requested);
  [[nodiscard]] Expected<Address> TakeFromKnownBlocks(Call& call, const PoolView& pool,
                                                      std::optional<Address> requested);
  // Looks once more in all pools of the plan. Requires: TakeFromPool found each of these pools full. Returns
  // `exhausted` if all pools are still full.
  [[nodiscard]] Expected<Address> TakeAtLast(Call& call, const FamilyPlan& plan, Error exhausted);
  // Reads the pools with these UIDs, and returns them in this order. Reads with kHint first, and with kLatest if the
  // hint does not show all pools.
  [[nodiscard]] Expected<std::vector<PoolView>> ReadPoolsAgain(const std::vector<PoolView>& pools);
  [[nodiscard]] Expected<void> ReadBlocksAgain(Call& call, Affinity affinity, Freshness freshness);
  [[nodiscard]] Expected<Address> TakeFromBlock(Call& call, const BlockView& seen, const PoolView& known,
                                                std::optional<Address> requested);
  // Claims a block for the ADD, and adds it to the call's blocks. Returns the pool as it is after the claim.
  // `is_all_claimed`: see ClaimTurn.
  [[nodiscard]] Expected<PoolView> ClaimFor(Call& call, const PoolView& view, std::optional<Address> requested,
                                            bool is_all_claimed);
  // Chooses the next block to try. Errors: kExhausted.
  [[nodiscard]] Expected<Prefix> PickClaim(const Pool& pool, int attempt);
  [[nodiscard]] Expected<BlockView> ClaimBlock(const Pool& pool, const Prefix& cidr);
  void TakeBack(Call& call);
  [[nodiscard]] Expected<AddResult> Answer(const Call& call);

  // The blocks that hold the attachment. Reads Shared blocks only if one may hold it (MarkSharedSibling in engine.cc).
  [[nodiscard]] Expected<std::vector<BlockView>> BlocksHolding(const Attachment& attachment);
  [[nodiscard]] Expected<void> ReleaseIn(const BlockView& seen, const Attachment& attachment, bool fence);
  [[nodiscard]] Expected<void> Settle(const OpenIntent& intent);

  BlockStore& store_;
  Runtime& runtime_;
};

}  // namespace berth::ipam
