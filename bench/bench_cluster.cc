// SPDX-License-Identifier: Apache-2.0
// A pool and its status, as berth-controller would write it.
#include "bench/bench_cluster.h"

#include <nlohmann/json.hpp>

#include "crds/names.h"
#include "crds/pool.h"
#include "k8sclient/http_api.h"
#include "k8sclient/kubeconfig.h"
#include "k8sclient/verbs.h"

namespace berth::bench {

using ipam::ErrorCode;
using ipam::Expected;

namespace {

k8sclient::CallOptions Soon() { return k8sclient::CallOptions::Within(std::chrono::seconds(10)); }

}  // namespace

Expected<BenchCluster> BenchCluster::Open(const std::string& kubeconfig) {
  auto config =
      k8sclient::LoadKubeconfig(k8sclient::SplitKubeconfigList(kubeconfig), /*context=*/"", k8sclient::ReadWholeFile);
  if (!config) return std::unexpected(config.error());
  auto api = k8sclient::HttpApi::Make(*std::move(config), {.user_agent = "berth-bench"});
  if (!api) return std::unexpected(api.error());
  return BenchCluster(*std::move(api));
}

Expected<ipam::Pool> BenchCluster::MakePool(const std::string& name, const std::string& subnet) const {
  const auto prefix = ipam::Prefix::Parse(subnet);
  if (!prefix) return std::unexpected(prefix.error());
  ipam::Pool wanted;
  wanted.name = name;
  wanted.subnet = *prefix;
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

}  // namespace berth::bench
