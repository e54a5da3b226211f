// SPDX-License-Identifier: Apache-2.0
// DirectStore: the BlockStore that sends requests to the API server, one after another. Direct mode uses it for
// everything, the agent for Shared blocks and claims.
//
// In direct mode the caller holds the lock of the NodeDirectory while it uses the store. The lock lets only one call at
// a time write the node's blocks. Because of the lock, a LIST with NotOlderThan and the version of the last write is
// never outdated. DirectStore stores an intent on disk before it sends a patch whose outcome may become unknown.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "ipam/block_store.h"
#include "k8sclient/api.h"
#include "k8sclient/verbs.h"
#include "node/node_directory.h"
#include "node/recent_view.h"

namespace berth::node {

// Reads a block, whichever node it belongs to. Errors: those of the GET; kConflict: the block cannot be parsed.
[[nodiscard]] Expected<ipam::BlockView> ReadBlock(k8sclient::Api& api, const std::string& name,
                                                  const k8sclient::CallOptions& options);
// Sends the patch that changes `before` to `after`. `asks_for_all`: the API server answers with the whole block, which
// is the result. Otherwise it answers only with metadata, and the result is `after` with the new resourceVersion.
// Errors: those of the PATCH; kInvalid: the API server accepted the patch, and stored nothing.
[[nodiscard]] Expected<ipam::BlockView> PatchBlock(k8sclient::Api& api, const ipam::Block& before,
                                                   const ipam::Block& after, const k8sclient::CallOptions& options,
                                                   bool asks_for_all = false);

// Says when a call may use the blocks that the previous process saved (recent_view.h) instead of a list. It may do so
// only if it will write a block: the saved blocks may be outdated, and the API server compares versions at a write.
enum class RecentUse : std::uint8_t {
  kNever,
  kIfItHolds,      // if one of these blocks holds the attachment, so the call will remove its entry
  kUnlessItHolds,  // if none of these blocks holds the attachment, so the call will add an entry
};

struct DirectStoreOptions {
  std::string node;
  k8sclient::CallOptions call;  // time limit of all requests together
  // The agent that uses this store; empty: direct mode. The store holds the ownership of the node during each attempt
  // to write, and until the intent of a successful attempt is closed. If another agent is the owner, the store writes
  // nothing: the new owner lists blocks and settles open intents when it starts, and would not settle a later write.
  std::string agent_instance = {};
  RecentUse recent = RecentUse::kNever;
  ipam::Attachment attachment = {};  // the call's attachment
  // Called for each block that cannot be read. The store leaves such a block out, as if all of its addresses were in
  // use.
  std::function<void(const Error&)> on_unreadable = [](const Error&) {};
  // Returns an equal block that other calls have in memory, or the given block. For Shared blocks only.
  std::function<ipam::BlockView(ipam::BlockView)> reuse = [](ipam::BlockView block) { return block; };
};

class DirectStore final : public ipam::BlockStore {
 public:
  // The references must outlive the store. Used by one thread.
  DirectStore(k8sclient::Api& api, const NodeDirectory& directory, ipam::Runtime& runtime, DirectStoreOptions options);

  // Call this when the node's lock is released: other processes may then write the node's blocks.
  void LockReleased() { recent_.Drop(); }
  // Limits of a request that is sent now: 20 s, or what is left of the call's time.
  [[nodiscard]] k8sclient::CallOptions RequestOptions() const;

  [[nodiscard]] const std::string& Node() const override { return options_.node; }
  [[nodiscard]] Expected<std::vector<ipam::PoolView>> ReadPools(std::span<const std::string> names,
                                                                ipam::Freshness freshness) override;
  [[nodiscard]] Expected<ipam::Labels> ReadNodeLabels() override;
  [[nodiscard]] Expected<ipam::Labels> ReadNamespaceLabels(const std::string& name) override;
  [[nodiscard]] Expected<std::vector<ipam::BlockView>> ReadBlocks(ipam::BlockScope scope,
                                                                  ipam::Freshness freshness) override;
  [[nodiscard]] Expected<ipam::PoolView> PoolOf(const ipam::PoolView& pool, const ipam::BlockView& block) override;
  [[nodiscard]] Expected<std::vector<ipam::Prefix>> ReadBlockCidrs(const std::string& space) override;
  [[nodiscard]] Expected<ipam::BlockView> Edit(const ipam::BlockView& seen, const ipam::Change& change) override;
  [[nodiscard]] Expected<ipam::BlockView> Create(const ipam::Block& block) override;
  [[nodiscard]] Expected<std::vector<ipam::OpenIntent>> ReadOpenIntents(const ipam::Attachment& attachment) override;
  [[nodiscard]] Expected<void> CloseIntent(const ipam::OpenIntent& intent) override;

 private:
  class Intent;

  // The block as this node sees it (HideEntriesOfOthers).
  [[nodiscard]] Expected<ipam::BlockView> Seen(Expected<ipam::Block> block) const;
  // Returns the ownership of the node for one attempt to write. In direct mode: returns a file that is not open.
  [[nodiscard]] Expected<HeldFile> BeginAttempt() const;
  [[nodiscard]] Expected<std::vector<nlohmann::json>> ReadPoolObjects(std::span<const std::string> names, bool is_hint);
  [[nodiscard]] Expected<ipam::Labels> ReadLabels(const std::string& path);
  // Fills `blocks`, without blocks that cannot be read. Returns the list's resourceVersion.
  [[nodiscard]] Expected<std::string> ListBlocks(const k8sclient::ListOptions& list,
                                                 std::vector<ipam::BlockView>& blocks);
  [[nodiscard]] bool WaitAfterConflict(const ipam::Block& block, int conflicts, std::chrono::milliseconds tried);

  k8sclient::Api& api_;
  const NodeDirectory& directory_;
  ipam::Runtime& runtime_;
  DirectStoreOptions options_;
  RecentView recent_;
  std::map<std::string, ipam::PoolView> latest_;  // pools that this call read with kLatest, by name
};

}  // namespace berth::node
