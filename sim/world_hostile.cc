// SPDX-License-Identifier: Apache-2.0
// The admission policy, a thief with a stolen token, and tenants.
#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <variant>

#include <nlohmann/json.hpp>
#include <spdlog/fmt/fmt.h>

#include "crds/names.h"
#include "ipam/entry.h"
#include "k8sclient/testing/model_policy.h"
#include "reconciler/read_holders.h"
#include "sim/world.h"

namespace berth::sim {

using nlohmann::json;

std::optional<std::string> World::Admit(const std::string& collection, const json& before, const json& after) {
  if (collection != crds::kBlocksPath) return std::nullopt;
  const std::string sender = network_.Sender();
  if (plant_ != nullptr && plant_->admits_all) return std::nullopt;
  const auto why = k8sclient::testing::RefusalByPolicy(k8sclient::testing::WriterOf(sender), before, after);
  const bool is_thief = sender == std::string("node ") + Thief::kNode;
  if (why && !is_thief) {
    story_.Break(
        "policy",
        fmt::format("a policy refuses a write of {}: {}: {} -> {}", sender, *why, before.dump(), after.dump()));
  }
  return why;
}

void World::TellCheckers(const json& before, const json& after) {
  const json was = thief_ == nullptr ? before : Thief::WithoutIts(before);
  const json is = thief_ == nullptr ? after : Thief::WithoutIts(after);
  if (was.is_null() && is.is_null()) return;
  for (const auto& checker : checkers_) checker->Stored(was, is);
  const std::string node = was.is_null() ? "" : was["spec"].value("node", "");
  if (cluster_.IsGone(node) || cluster_.IsOutOfService(node)) return;
  for (const auto& checker : checkers_) checker->StoredBy(network_.Sender(), was, is);
}

void World::StartThief() {
  // The thief may take addresses that the scheduler has counted, may write entries that a restored backup brings back,
  // and may keep a deleted pool from going.
  const bool is_in_the_way = has_scheduler_ || has_backups_ || may_replace_pool_;
  if (!May("stolen") || controllers_.count() == 0 || is_in_the_way || Below(2) != 0) return;
  thief_ = std::make_unique<Thief>(store_, network_, story_);
  cluster_.AddNode(Thief::kNode);
  thief_->Start();
}

bool World::NamesLivePod(const std::string& text) const {
  const auto entry = ipam::ParseEntry(text);
  const auto* held = std::get_if<ipam::HeldEntry>(&entry);
  // The names are compared, because a static pod's mirror pod has another UID.
  return held != nullptr && std::ranges::any_of(store_.Objects(std::string(reconciler::kPodsPath)),
                                                [&](const json& pod) { return pod["metadata"]["name"] == held->pod; });
}

bool World::IsLeftOfThief(const json& block, const std::string& text) const {
  // A block of the stolen node stays as long as one of its entries names a live pod (docs/hardening.md).
  const bool is_own = !block["spec"].value("node", "").empty();
  const auto lives = [this](const json& one) { return NamesLivePod(one.get_ref<const std::string&>()); };
  if (is_own ? std::ranges::any_of(block["allocations"], lives) : NamesLivePod(text)) return false;
  return !text.starts_with("~ t=");
}

void World::EndThief() {
  if (thief_ == nullptr) return;
  thief_->End();
  while (!cluster_.RemoveNode(Thief::kNode)) std::this_thread::sleep_for(std::chrono::seconds(1));
  if (May("ghost")) cluster_.CreateGhost(Thief::kNode);
}

void World::StartTenant(Machine& machine) {
  // A tenant's pod does not request the extended resource, and might take an address that the scheduler has counted.
  if (has_scheduler_ || tenants_left_ == 0) return;
  --tenants_left_;
  ++machine.churning;
  Spawn(machine.kubelet.process(), [&machine, name = fmt::format("{}t{}", machine.node.called(), ++more_)] {
    machine.kubelet.RunTenant(name);
    --machine.churning;
  });
}

}  // namespace berth::sim
