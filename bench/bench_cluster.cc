// SPDX-License-Identifier: Apache-2.0
// Makes a pool, and writes its status as berth-controller would.
#include "bench/bench_cluster.h"

#include <nlohmann/json.hpp>

#include "crds/block.h"
#include "crds/names.h"
#include "crds/pool.h"
#include "k8sclient/http_api.h"
#include "k8sclient/kubeconfig.h"
#include "k8sclient/verbs.h"

namespace berth::bench {

namespace {

k8sclient::CallOptions Soon() { return k8sclient::CallOptions::Within(std::chrono::seconds(10)); }

}  // namespace

Expected<BenchCluster> BenchCluster::Open(const std::string& kubeconfig) {
  auto config =
      k8sclient::LoadKubeconfig(k8sclient::SplitKubeconfigList(kubeconfig), /*context=*/"", k8sclient::ReadWholeFile);
  if (!config) return std::unexpected(config.error());
  auto api = k8sclient::MakeHttpApi(*std::move(config), {.user_agent = "berth-bench"});
  if (!api) return std::unexpected(api.error());
  return BenchCluster(*std::move(api));
}

Expected<ipam::Pool> BenchCluster::MakePool(const PoolOptions& options) const {
  const auto prefix = ipam::Prefix::Parse(options.subnet);
  if (!prefix) return std::unexpected(prefix.error());
  const std::string& name = options.name;
  ipam::Pool wanted;
  wanted.name = name;
  wanted.subnet = *prefix;
  if (!options.is_claimed_ahead) {
    wanted.warm_addresses = 0;
    wanted.resource = "";  // otherwise every node claims a first block
  }
  const std::string path = std::string(crds::kPoolsPath) + "/" + name;
  auto object = k8sclient::Create(*api_, std::string(crds::kPoolsPath), crds::PoolToJson(wanted), Soon());
  if (!object && object.error().code == ErrorCode::kAlreadyExists) object = k8sclient::Get(*api_, path, Soon());
  if (!object) return std::unexpected(object.error().Within("make ippool " + name));

  const crds::PoolStatus status{.conditions = {{.type = std::string(crds::kReadyCondition),
                                                .status = "True",
                                                .reason = "Accepted",
                                                .message = "accepted by berth-bench",
                                                .last_transition_time = "2026-01-01T00:00:00Z"}},
                                .block_length = wanted.BlockLength()};
  const auto patch = crds::PoolStatusPatch(*object, status);
  if (!patch) return std::unexpected(patch.error());
  if (!patch->is_null()) {
    auto patched = k8sclient::MergePatch(*api_, path + "/status", *patch, Soon());
    if (!patched) return std::unexpected(patched.error().Within("mark ippool " + name + " Ready"));
    object = std::move(patched);
  }
  return crds::ParsePool(*object);
}

Expected<BlockTotals> BenchCluster::CountBlocks(const std::string& pool) const {
  const auto list = k8sclient::List(*api_,
                                    std::string(crds::kBlocksPath),
                                    {.field_selector = std::string(crds::kBlockPoolField) + "=" + pool},
                                    k8sclient::CallOptions::Within(std::chrono::seconds(60)));
  if (!list) return std::unexpected(list.error().Within("list ipblocks of " + pool));
  BlockTotals totals{.blocks = list->items.size()};
  for (const nlohmann::json& item : list->items) {
    const auto block = crds::ParseBlock(item);
    if (!block) return std::unexpected(block.error());
    totals.used += block->used();
  }
  return totals;
}

}  // namespace berth::bench
