// SPDX-License-Identifier: Apache-2.0
// ClusterView: pools, namespace labels and this node's labels, as watches last showed them.
//
// Hints: what an ADD decides on them is checked by compare-and-swap, or read anew before it is refused. But a watch
// that is late shows pools that are gone, whose addresses another may give by now. So ADDs take only from a pool that
// was read once itself, and not from one that was gone when it was read last. From a Shared block, which any node may
// have created by what it knew, they take only if its pool was read after the block was first seen.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
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
  // api and clock must outlive this; `changed` is called after each change of pools, from a watch's thread.
  ClusterView(k8sclient::Api& api, k8sclient::Clock& clock, std::string node, std::function<void()> changed);
  ClusterView(const ClusterView&) = delete;
  ClusterView& operator=(const ClusterView&) = delete;
  ~ClusterView() = default;

  // Begins to watch.
  void Start();
  // In place of Start: reads all of it once, in this thread, until that worked or stop is requested.
  void ListAll(const std::stop_token& stop);
  // Waits until pools and the node were listed once. False: not by then.
  [[nodiscard]] bool WaitUntilListed(std::chrono::milliseconds limit);
  [[nodiscard]] bool IsListed() const;

  // The pool as the API server has it now; from here on Pools says nothing older. nullptr: it does not exist, and Pools
  // does not show it before this has found it again. Errors: those of the GET; kInvalid: not understood. Pools does not
  // show it then either: a block may have been created meanwhile.
  [[nodiscard]] Expected<ipam::PoolView> ReadLatest(const std::string& name, const k8sclient::CallOptions& options);
  // A block of the pool came into memory that may have been created after ReadLatest found the pool: Pools does not
  // show the pool before ReadLatest finds it by a GET that begins after this.
  void DropProof(const std::string& name);
  // Those of the names that are known, and were found by ReadLatest.
  [[nodiscard]] std::vector<ipam::PoolView> Pools(std::span<const std::string> names) const;
  // All Shared blocks there are, as they were just listed.
  void NoteShared(std::span<const ipam::BlockView> blocks);
  // The pool of a Shared block, if ReadLatest has found it by a GET that began after the block was noted; or nullptr.
  [[nodiscard]] ipam::PoolView PoolOf(const ipam::Block& block) const;
  // All but those that ReadLatest did not find.
  [[nodiscard]] std::vector<ipam::PoolView> AllPools() const;
  // The API server has gone back to an older state: nothing that is known counts before it was read again.
  void Distrust();
  // Nothing: not listed yet (the node: or it has no object, which counts as one without labels after listing).
  [[nodiscard]] std::optional<ipam::Labels> NodeLabels() const;
  // The numbers that the Node shows, by resource (docs/scheduling.md), if one of them has risen since the last call.
  [[nodiscard]] std::optional<std::map<std::string, std::int64_t>> TakeRisenNumbers();
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

  // What ReadLatest found of a name.
  struct Proof {
    std::string uid;  // empty: nothing, or the GET failed
    bool exists = false;
    std::uint64_t read = 0;  // number of the GET; of one that did not find it: of the last that had begun by then
  };

  [[nodiscard]] Expected<ipam::PoolView> Conclude(const std::string& name, std::uint64_t read,
                                                  const Expected<nlohmann::json>& object) BERTH_REQUIRES(mutex_);

  // Forgets what earlier GETs found, and what GETs that have already begun will find.
  void DropProof(Proof& proof) BERTH_REQUIRES(mutex_);
  [[nodiscard]] bool IsProved(const ipam::Pool& pool, bool exists) const BERTH_REQUIRES(mutex_);
  // What was seen takes the place of what is older.
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
  std::uint64_t reads_ BERTH_GUARDED_BY(mutex_) = 0;  // that have begun
  std::size_t reading_ BERTH_GUARDED_BY(mutex_) = 0;  // that have not ended
  // Of Shared blocks, by UID: reads_ when the block was first seen.
  std::unordered_map<std::string, std::uint64_t> shared_seen_ BERTH_GUARDED_BY(mutex_);
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
