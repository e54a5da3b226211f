// SPDX-License-Identifier: Apache-2.0
// DirectStore: the engine's BlockStore by requests to the API server, one after another: all of direct mode, and Shared
// blocks and claims of the agent.
//
// In direct mode all calls of one node take turns from the first look at blocks to the last write, by the lock of the
// NodeDirectory: so this node's blocks have one writer at a time, and a LIST that is not older than the last write is
// never stale for itself. Whatever the outcome of a write may be, an intent on disk says so before it is sent.
#pragma once

#include <cstdint>
#include <functional>
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

// Whether a call may go by what the process before it saw of this node's blocks: where it leads to a write, which
// compares, and not to an answer without one.
enum class RecentUse : std::uint8_t {
  kNever,
  kIfItHolds,      // the attachment: it will be taken out
  kUnlessItHolds,  // it will be put in
};

struct DirectStoreOptions {
  std::string node;
  // The hard end of every request and of waiting for the lock.
  k8sclient::CallOptions call;
  BootNanos lock_deadline = 0;
  // False: the agent's own, which has the node's lock as long as it lives.
  bool takes_turns = true;
  RecentUse recent = RecentUse::kNever;
  ipam::Attachment attachment = {};  // of the call
  // Called once, right after the lock was taken; an error ends the call before anything is written.
  std::function<Expected<void>()> on_locked = {};
  // Called before each attempt of a write is decided; what it returns is held until the attempt's outcome is known, and
  // the intent closed if it is in. An error: nothing more is written.
  std::function<Expected<HeldFile>()> begin_attempt = {};
  // The intent of a block of this node that was created is left to the caller, who closes it when it keeps the block.
  bool leaves_creations_open = false;
  // Told of each block that cannot be read. It is left alone, as if all of it were in use.
  std::function<void(const Error&)> on_unreadable = [](const Error&) {};
};

class DirectStore final : public ipam::BlockStore {
 public:
  // All must outlive the store. One thread.
  DirectStore(k8sclient::Api& api, const NodeDirectory& directory, ipam::Runtime& runtime, DirectStoreOptions options);

  // Waits for the node's lock; does nothing if this store has it. Errors: those of NodeDirectory::Lock and of
  // on_locked.
  [[nodiscard]] Expected<void> Lock();
  void Unlock();

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
  [[nodiscard]] Expected<ipam::BlockView> Create(const ipam::Block& block, const ipam::Attachment& attachment) override;
  [[nodiscard]] Expected<std::vector<ipam::OpenIntent>> ReadOpenIntents(const ipam::Attachment& attachment) override;
  [[nodiscard]] Expected<void> CloseIntent(const ipam::OpenIntent& intent) override;

 private:
  class Intent;

  [[nodiscard]] Expected<HeldFile> BeginAttempt() const;
  [[nodiscard]] Expected<std::vector<nlohmann::json>> ReadPoolObjects(std::span<const std::string> names, bool is_hint);
  [[nodiscard]] Expected<ipam::Labels> ReadLabels(const std::string& path);
  [[nodiscard]] Expected<ipam::BlockView> ReadBlock(const std::string& name);
  // Blocks that cannot be read are left out. Returns the list's version.
  [[nodiscard]] Expected<std::string> ListBlocks(const k8sclient::ListOptions& list,
                                                 std::vector<ipam::BlockView>& blocks);
  [[nodiscard]] Expected<ipam::BlockView> Patch(const ipam::Block& before, const ipam::Block& after);
  [[nodiscard]] bool WaitAfterConflict(const ipam::Block& block, int conflicts, std::chrono::milliseconds tried);

  k8sclient::Api& api_;
  const NodeDirectory& directory_;
  ipam::Runtime& runtime_;
  DirectStoreOptions options_;
  RecentView recent_;
  ipam::BlockView created_;  // by this call, last; its pool was not read since. Null: there is none
  HeldFile lock_;
};

}  // namespace berth::node
