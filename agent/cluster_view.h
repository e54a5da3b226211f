// SPDX-License-Identifier: Apache-2.0
// ClusterView: pools, namespace labels and this node's labels, as watches last showed them.
//
// Hints: what an ADD decides on them is checked by compare-and-swap, or read anew before it is refused.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include <nlohmann/json_fwd.hpp>

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
  ~ClusterView();

  // Begins to watch.
  void Start();
  // In place of Start: reads all of it once, in this thread, until that worked or stop is requested.
  void ListAll(const std::stop_token& stop);
  // Waits until pools and the node were listed once. False: not by then.
  [[nodiscard]] bool WaitUntilListed(std::chrono::milliseconds limit);
  [[nodiscard]] bool IsListed() const;

  // The pool as the API server has it now; from here on Pools says nothing older. nullptr: it does not exist. Errors:
  // those of the GET; kInvalid: not understood.
  [[nodiscard]] ipam::Expected<ipam::PoolView> ReadLatest(const std::string& name,
                                                          const k8sclient::CallOptions& options);
  // Those of the names that are known.
  [[nodiscard]] std::vector<ipam::PoolView> Pools(std::span<const std::string> names) const;
  [[nodiscard]] std::vector<ipam::PoolView> AllPools() const;
  // Nothing: not listed yet (the node: or it has no object, which counts as one without labels after listing).
  [[nodiscard]] std::optional<ipam::Labels> NodeLabels() const;
  [[nodiscard]] std::optional<ipam::Labels> NamespaceLabels(const std::string& name) const;

 private:
  class Watch;
  struct KnownPool {
    ipam::PoolView pool;
    std::uint64_t version = 0;
  };

  // What was seen takes the place of what is older. Requires: the mutex.
  void Learn(const nlohmann::json& object, std::map<std::string, KnownPool>& pools) const;
  void WatchPools(k8sclient::Api& api, k8sclient::Clock& clock);
  void WatchNamespaces(k8sclient::Api& api, k8sclient::Clock& clock);
  void WatchNode(k8sclient::Api& api, k8sclient::Clock& clock);

  k8sclient::Api& api_;
  mutable std::mutex mutex_;
  std::condition_variable listed_;
  std::map<std::string, KnownPool> pools_;
  std::map<std::string, ipam::Labels> namespaces_;
  ipam::Labels node_labels_;
  bool pools_listed_ = false;
  bool node_listed_ = false;
  const std::string node_;
  std::function<void()> changed_;
  std::vector<std::unique_ptr<Watch>> watches_;
};

}  // namespace berth::agent
