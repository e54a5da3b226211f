// SPDX-License-Identifier: Apache-2.0
// BenchCluster: the pools of a run of the benchmark, made with an administrator's kubeconfig.
#pragma once

#include <memory>
#include <string>

#include "base/error.h"
#include "ipam/pool.h"
#include "k8sclient/api.h"

namespace berth::bench {

struct PoolOptions {
  std::string name;
  std::string subnet;
  // If true, every agent claims a block of the pool as soon as it starts, as agents do by default.
  bool is_claimed_ahead = true;
};

struct BlockTotals {
  std::size_t blocks = 0;
  std::size_t used = 0;  // number of entries
};

class BenchCluster {
 public:
  // `kubeconfig`: one path, or several separated by colons. Errors: kDecode.
  [[nodiscard]] static Expected<BenchCluster> Open(const std::string& kubeconfig);

  // Creates the pool, or takes the existing pool of that name, and marks it Ready. So the benchmark needs no
  // controller, whose requests would disturb the measurement. Errors: those of the requests.
  [[nodiscard]] Expected<ipam::Pool> MakePool(const PoolOptions& options) const;

  // Totals of all blocks of a pool. Errors: those of the request.
  [[nodiscard]] Expected<BlockTotals> CountBlocks(const std::string& pool) const;

  // The requests have the User-Agent "berth-bench". Keeps one connection per caller open.
  [[nodiscard]] k8sclient::Api& api() const { return *api_; }

 private:
  explicit BenchCluster(std::unique_ptr<k8sclient::Api> api) : api_(std::move(api)) {}

  std::unique_ptr<k8sclient::Api> api_;
};

}  // namespace berth::bench
