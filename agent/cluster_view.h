// SPDX-License-Identifier: Apache-2.0
// ClusterView: pools, labels of namespaces and labels of this node, as watches last showed them.
//
// ClusterView may be outdated. Most of its data are only hints: an ADD checks its decision with compare-and-swap, or
// reads again before it fails. Two things would give one address to two pods, so ADDs have rules for them:
//   - A late watch may show a pool that is gone, and another pool may give the pool's addresses now. So ADDs use a pool
//     only if the last ReadLatest found the pool.
//   - Another node may have created a Shared block with an outdated version of the pool. So ADDs use a Shared block
//     only if its pool was read after this agent first saw the block.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <stop_token>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "agent/watch_thread.h"
#include "base/mutex.h"
#include "ipam/block_store.h"
#include "ipam/label_selector.h"
#include "ipam/pool.h"
#include "k8sclient/api.h"
#include "k8sclient/clock.h"
#include "k8sclient/reflector.h"

namespace berth::agent {

class ClusterView {
 public:
  // api and clock must outlive this object. `changed` is called from a watch's thread after each change of pools or of
  // the Node.
  ClusterView(k8sclient::Api& api, k8sclient::Clock& clock, std::string node, std::function<void()> changed);
  ClusterView(const ClusterView&) = delete;
  ClusterView& operator=(const ClusterView&) = delete;
  ~ClusterView() = default;

  // Starts the watches, each in a thread of its own.
  void Start();
  // Instead of Start: lists everything once, in this thread. Returns when this has succeeded, or stop is requested.
  void ListAll(const std::stop_token& stop);
  // Waits until pools and the Node were listed once. Returns false if the time limit passes before.
  [[nodiscard]] bool WaitUntilListed(std::chrono::milliseconds limit);

  // Reads the newest version of the pool; from now on Pools returns no older version. Returns nullptr if the pool does
  // not exist; then Pools does not return it until ReadLatest finds it again. Errors: those of the GET; kInvalid: the
  // pool cannot be parsed. After an error Pools does not return the pool either, because a block may have been created
  // meanwhile.
  [[nodiscard]] Expected<ipam::PoolView> ReadLatest(const std::string& name, const k8sclient::CallOptions& options);
  // Returns the known pools of these names that ReadLatest has found.
  [[nodiscard]] std::vector<ipam::PoolView> Pools(std::span<const std::string> names) const;
  // Call when a write of a Shared block begins, and when it ends, whatever its outcome.
  void NoteSharedWrite();
  // Returns how often NoteSharedWrite was called.
  [[nodiscard]] std::uint64_t SharedWrites() const;
  // Takes a list of all Shared blocks, which shows every write that had ended when the list began. `writes`: value of
  // SharedWrites() before the list.
  void NoteShared(std::uint64_t writes, std::span<const ipam::BlockView> blocks);
  // Returns the equal block that another call has in memory, or else `block`: many calls that list the Shared blocks at
  // the same time use memory for one list.
  [[nodiscard]] ipam::BlockView Reuse(ipam::BlockView block);
  // Whether the last list of Shared blocks shows no entry of the attachment, and this agent has written no Shared block
  // since. So a DEL of an unknown attachment need not list the Shared blocks each time. Other programs add no entries
  // of this node, except the controller, which writes lost entries again with attachments that no DEL names. Call this
  // after you have read the attachment's intents. False: there may be an entry.
  [[nodiscard]] bool HasNoneInShared(const ipam::Attachment& attachment) const;
  // Returns the pool of a Shared block if ReadLatest has found it with a GET that began after the block was noted; else
  // nullptr.
  [[nodiscard]] ipam::PoolView PoolOf(const ipam::Block& block) const;
  // Returns how many results of ReadLatest are kept.
  [[nodiscard]] std::size_t CountProofs() const;
  // Returns all known pools, except those that ReadLatest did not find.
  [[nodiscard]] std::vector<ipam::PoolView> AllPools() const;
  // Call when the API server was restored from a backup: Pools returns no pool until ReadLatest finds it again, and
  // HasNoneInShared returns false until the Shared blocks are listed again.
  void Distrust();
  // A missing Node counts as a Node without labels. Requires: the Node was listed.
  [[nodiscard]] ipam::Labels NodeLabels() const;
  // Returns the Node's address counts, by resource (docs/scheduling.md), if one of them has risen since the last call.
  [[nodiscard]] std::optional<std::map<std::string, std::int64_t>> TakeRisenNumbers();
  // nullopt: no watch has shown the namespace.
  [[nodiscard]] std::optional<ipam::Labels> NamespaceLabels(const std::string& name) const;

 private:
  struct Watch {
    k8sclient::ReflectorOptions options;
    WatchActions actions;
    std::unique_ptr<WatchThread> thread = {};
  };
  struct KnownPool {
    ipam::PoolView pool;
    std::uint64_t version = 0;
  };

  struct SharedBlock {
    std::uint64_t read = 0;                 // value of reads_ when the block was first seen
    std::weak_ptr<const ipam::Block> view;  // as it was last seen, while a call uses it
  };

  // The result of ReadLatest for a name.
  struct Proof {
    std::string uid;  // empty: no pool was found, or the GET failed
    bool exists = false;
    std::uint64_t read = 0;  // number of the GET that found the pool; if none did, the highest GET number so far
  };

  [[nodiscard]] Expected<ipam::PoolView> Conclude(const std::string& name, std::uint64_t read,
                                                  const Expected<nlohmann::json>& object) BERTH_REQUIRES(mutex_);

  [[nodiscard]] bool IsProved(const ipam::Pool& pool, bool exists) const BERTH_REQUIRES(mutex_);
  // Stores the object if no newer version is known.
  void Learn(const nlohmann::json& object) BERTH_REQUIRES(mutex_);
  void WatchPools();
  void WatchNamespaces();
  void WatchNode();

  k8sclient::Api& api_;
  k8sclient::Clock& clock_;
  mutable Mutex mutex_;
  std::condition_variable listed_;
  std::map<std::string, KnownPool> pools_ BERTH_GUARDED_BY(mutex_);
  std::map<std::string, Proof> proofs_ BERTH_GUARDED_BY(mutex_);
  std::uint64_t reads_ BERTH_GUARDED_BY(mutex_) = 0;  // number of GETs that have begun
  std::size_t reading_ BERTH_GUARDED_BY(mutex_) = 0;  // number of GETs under way
  std::unordered_map<std::string, SharedBlock> shared_seen_ BERTH_GUARDED_BY(mutex_);
  std::uint64_t shared_writes_ BERTH_GUARDED_BY(mutex_) = 1;
  std::uint64_t shared_listed_at_ BERTH_GUARDED_BY(mutex_) = 0;             // shared_writes_ before the last list
  std::set<ipam::Attachment> shared_attachments_ BERTH_GUARDED_BY(mutex_);  // this node's, in the last list
  std::map<std::string, ipam::Labels> namespaces_ BERTH_GUARDED_BY(mutex_);
  ipam::Labels node_labels_ BERTH_GUARDED_BY(mutex_);
  std::map<std::string, std::int64_t> node_numbers_ BERTH_GUARDED_BY(mutex_);
  bool numbers_rose_ BERTH_GUARDED_BY(mutex_) = false;
  bool pools_listed_ BERTH_GUARDED_BY(mutex_) = false;
  bool node_listed_ BERTH_GUARDED_BY(mutex_) = false;
  const std::string node_;
  std::function<void()> changed_;
  std::vector<Watch> watches_;
};

}  // namespace berth::agent
