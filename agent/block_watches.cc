// SPDX-License-Identifier: Apache-2.0
// The watches show versions without entries, because most writes are this agent's own.
#include "agent/block_watches.h"

#include <chrono>
#include <set>
#include <utility>

#include <nlohmann/json.hpp>

#include "agent/call_runtime.h"
#include "crds/names.h"
#include "crds/object_meta.h"

namespace berth::agent {

using nlohmann::json;

void BlockWatches::Update() {
  const std::set<std::string> wanted = own_.Names();
  std::erase_if(watches_, [&wanted](const auto& watch) { return !wanted.contains(watch.first); });
  for (const std::string& name : wanted) {
    if (!watches_.contains(name)) watches_[name] = Watch(name);
  }
}

std::unique_ptr<WatchThread> BlockWatches::Watch(const std::string& block) {
  WatchActions actions;
  const auto told = std::make_shared<std::uint64_t>(0);
  actions.upsert = [this, told](const json& object) {
    const auto meta = crds::ParseObjectMeta(object, crds::kBlockKind);
    if (!meta) return;
    *told = VersionOf(meta->resource_version);
    own_.ObserveVersion(meta->name, *told, clock_.Now() + kStepMax);
  };
  actions.listed = [this, block, told](const std::set<std::string>& names) {
    // A list from a cache may lack a block that was created a moment ago.
    static_cast<void>(own_.ObserveListed(block, names.empty() ? 0 : *told, clock_.Now() + kStepMax));
  };
  actions.remove = [this](const json& object) {
    const auto meta = crds::ParseObjectMeta(object, crds::kBlockKind);
    if (meta) own_.ObserveGone(meta->name, meta->uid, clock_.Now() + kStepMax);
    gone_();
  };
  return std::make_unique<WatchThread>(
      api_,
      clock_,
      k8sclient::ReflectorOptions{
          .path = std::string(crds::kBlocksPath), .field_selector = "metadata.name=" + block, .metadata_only = true},
      std::move(actions));
}

}  // namespace berth::agent
