// SPDX-License-Identifier: Apache-2.0
// When a backup may be restored, and which entries must come back.
#include "sim/backups.h"

#include <algorithm>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <spdlog/fmt/fmt.h>

#include "crds/names.h"
#include "reconciler/suspects.h"
#include "sim/scheduler.h"

namespace berth::sim {

using namespace std::chrono_literals;
using nlohmann::json;
using std::chrono::milliseconds;

namespace {

// Returns what must be the same in the backup and now, because no program could restore it: by the block's UID, whether
// the block is being deleted, and the entries of a Shared block.
std::map<std::string, json> Fixed(const std::vector<json>& blocks) {
  std::map<std::string, json> fixed;
  for (const json& block : blocks) {
    const bool is_own = block["spec"].contains("node");
    fixed[block["metadata"]["uid"]] = {block["metadata"].contains("deletionTimestamp"),
                                       is_own ? json() : block["allocations"]};
  }
  return fixed;
}

}  // namespace

std::size_t Backups::Starts() const {
  std::size_t starts = 0;
  for (const auto& machine : machines_) starts += machine->node.starts();
  return starts;
}

void Backups::Take() {
  story_.Tell("takes a backup");
  backup_ = store_.TakeBackup();
  starts_ = Starts();
}

bool Backups::MayRestore() const {
  const auto is_fit = [](const auto& machine) {
    return machine->node.IsServing() && !machine->is_left_alone() && !machine->kubelet.tells_odd_uids();
  };
  if (backup_ == nullptr || Starts() != starts_ || !cluster_.AreAllConnected()) return false;
  if (!std::ranges::all_of(machines_, is_fit)) return false;
  const std::string path(crds::kBlocksPath);
  std::vector<json> then;
  if (const auto found = backup_->collections.find(path); found != backup_->collections.end()) {
    for (const auto& [name, block] : found->second) then.push_back(block);
  }
  return Fixed(then) == Fixed(store_.Objects(path));
}

void Backups::Restore() {
  story_.Tell("the API server's data is restored from the backup");
  was_restored_ = true;
  network_.Set({.is_away = true});
  std::this_thread::sleep_for(milliseconds(Below(3'000)));
  cluster_.Restore(*backup_);
  std::this_thread::sleep_for(milliseconds(Below(1'000)));
  network_.Set({});
  for (const auto& machine : machines_) machine->kubelet.EndUnknown();
  const Nanos end = Now() + 100s;
  ipam::Attachment lost;
  while (!(lost = Unrecorded()).empty()) {
    if (Now() > end) return story_.Break("put-back", "nobody wrote the entry of " + lost + " again");
    std::this_thread::sleep_for(50ms);
  }
  backup_ = nullptr;
}

ipam::Attachment Backups::Unrecorded() const {
  std::map<std::string, std::set<ipam::Attachment>> recorded;  // by address
  for (const json& block : store_.Objects(std::string(crds::kBlocksPath))) {
    for (const auto& [attachment, address] : RecordedIn(block)) recorded[address].insert(attachment);
  }
  for (const auto& machine : machines_) {
    for (const auto& [attachment, holding] : machine->kubelet.holders()) {
      // The controller puts an entry back without knowing the attachment.
      constexpr std::size_t kDigits = 8;  // first digits of the UID, which differ for each pod
      const std::string put_back = fmt::format("{}-{}", reconciler::kNoNetwork, holding.pod.uid.substr(0, kDigits));
      const auto is_its = [&](const ipam::Attachment& one) { return one == attachment || one.starts_with(put_back); };
      const auto is_recorded = [&](const std::string& address) {
        return std::ranges::any_of(recorded[address], is_its);
      };
      if (!std::ranges::all_of(holding.addresses, is_recorded)) return attachment;
    }
  }
  return {};
}

}  // namespace berth::sim
