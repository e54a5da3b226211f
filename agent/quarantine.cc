// SPDX-License-Identifier: Apache-2.0
// MustNotHold and TryAgain read the quarantined blocks each time.
#include "agent/quarantine.h"

#include <algorithm>
#include <memory>
#include <utility>

#include <nlohmann/json.hpp>
#include <spdlog/spdlog.h>

#include "agent/agent_store.h"
#include "agent/call_runtime.h"
#include "base/resource_version.h"
#include "crds/block.h"
#include "crds/names.h"
#include "k8sclient/text_at.h"
#include "k8sclient/verbs.h"

namespace berth::agent {

void Quarantine::Set(Blocks blocks) {
  const Lock lock(mutex_);
  blocks_ = std::move(blocks);
}

std::set<std::string> Quarantine::Names() const {
  const Lock lock(mutex_);
  std::set<std::string> names;
  for (const auto& [name, text] : blocks_) names.insert(name);
  return names;
}

bool Quarantine::MayHold(const ipam::Attachment& attachment) const {
  const std::set<std::string> names = Names();
  if (names.empty()) return false;
  {
    const Lock lock(mutex_);
    if (std::ranges::any_of(blocks_, [&](const auto& block) { return block.second.contains(attachment); })) return true;
  }
  const auto notes = directory_.ReadHandedOut();
  return !notes || std::ranges::any_of(*notes, [&](const node::HandedOut& note) {
    return note.attachment == attachment && names.contains(note.block);
  });
}

Expected<nlohmann::json> Quarantine::Read(const std::string& name, SteadyTime deadline) {
  auto object =
      k8sclient::Get(api_,
                     k8sclient::ObjectPath(crds::kBlocksPath, name),
                     {.deadline = std::min(deadline, std::chrono::steady_clock::now() + kRequestMax), .stop = {}});
  if (!object) return object;
  const Lock lock(mutex_);
  const auto known = blocks_.find(name);
  if (known == blocks_.end()) return object;
  const std::uint64_t version =
      ParseVersion(k8sclient::TextAt(k8sclient::ValueAt(*object, "metadata"), "resourceVersion"));
  if (version < read_versions_[name]) return object;  // another thread has read a newer text
  read_versions_[name] = version;
  known->second = object->dump();
  return object;
}

Expected<void> Quarantine::MustNotHold(const ipam::Attachment& attachment, SteadyTime deadline) {
  const std::set<std::string> names = Names();
  if (names.empty()) return {};
  // If an address was handed out and its entry is not written, only the note records the address.
  const auto notes = directory_.ReadHandedOut();
  if (!notes) return std::unexpected(notes.error());
  for (const std::string& name : names) {
    const auto is_its = [&](const auto& note) { return note.attachment == attachment && note.block == name; };
    const auto object = Read(name, deadline);
    const bool is_gone = !object && object.error().code == ErrorCode::kNotFound;
    const bool may_hold = !object || object->dump().contains(attachment);
    if (is_gone || (!may_hold && std::ranges::none_of(*notes, is_its))) continue;
    return Fail(ErrorCode::kUnavailable,
                "block " + name + " is quarantined, and may hold an address of this container",
                "the runtime tries the call again; the agent's log says what is wrong with the block");
  }
  return {};
}

void Quarantine::TryAgain() {
  const std::set<std::string> names = Names();
  if (names.empty() || retry_pause_.IsOn(clock_.Now())) return;
  const auto ownership = directory_.HoldNodeOwnership(own_.instance());
  if (!ownership) return;
  const SteadyTime deadline = clock_.Now() + kStepMax;
  for (const std::string& name : names) {
    const auto object = Read(name, deadline);
    auto block = object ? crds::ParseBlock(*object) : std::unexpected(object.error());
    const auto taken = block ? own_.TakeIn(std::make_shared<const ipam::Block>(*std::move(block)), deadline)
                             : std::unexpected(block.error());
    if (taken) spdlog::info("block is not quarantined any more block={}", name);
    if (!taken && taken.error().code != ErrorCode::kNotFound) continue;
    const Lock lock(mutex_);
    blocks_.erase(name);
  }
  retry_pause_.AfterFailure(clock_.Now());
}

}  // namespace berth::agent
