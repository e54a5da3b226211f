// SPDX-License-Identifier: Apache-2.0
// The agent's work besides calls: it replays the journal, claims blocks in advance, finds blocks that others changed,
// and removes cooling entries whose time is over.
#include <algorithm>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>
#include <spdlog/spdlog.h>

#include "agent/agent.h"
#include "agent/call_runtime.h"
#include "base/mutex.h"
#include "crds/names.h"
#include "crds/object_meta.h"
#include "ipam/claim.h"
#include "ipam/engine.h"
#include "ipam/pool_choice.h"
#include "k8sclient/verbs.h"

namespace berth::agent {

using ipam::BlockView;
using nlohmann::json;

namespace {

constexpr std::chrono::seconds kProbeMax{1};
constexpr std::chrono::seconds kMaintenanceEvery{1};
constexpr std::chrono::milliseconds kMaintenancePause{20};
// The maintenance loop lists the node's blocks every 5 to 10 min. For a LIST by node, the API server looks at every
// block. If 5,000 nodes did this twice a minute, the API server would be overloaded.
constexpr std::chrono::minutes kResyncEvery{5};

// True: the failure may concern only this DEL, and may last for hours, so other DELs must not wait for this DEL.
// kInvalid: the API server refuses the writes of the block. kIo, kInternal: a file under /run/berth, such as an intent,
// cannot be used. kUnknownOutcome: an earlier write of the block is in doubt, and this write was refused, or got no
// answer.
bool ConcernsOneDel(ErrorCode code) {
  return code == ErrorCode::kInvalid || code == ErrorCode::kIo || code == ErrorCode::kInternal ||
         code == ErrorCode::kUnknownOutcome;
}

}  // namespace

void Agent::RunMaintenance(const std::stop_token& stop) {
  const auto after_resync = [this] {
    return clock_.Now() + std::chrono::duration_cast<std::chrono::milliseconds>(kResyncEvery * (1 + clock_.Random()));
  };
  auto next_resync = after_resync();
  auto next_renewal = clock_.Now();
  bool has_told_loss = false;
  ReportOddBlocks();
  while (!stop.stop_requested() && !own_.stopped()) {
    if (has_lost_files_ || directory_.IsLost()) {
      has_lost_files_ = true;
      // The next agent needs the notes of addresses whose entries are not written. An ADD that gets an address before
      // this agent ends stores its note where MoveNotes stored the others.
      const auto noted = MoveNotes();
      if (noted || own_.HandedOut().empty()) {
        spdlog::error("{} was removed while the agent ran: the agent starts again", directory_.path());
        return GiveWay();
      }
      if (!std::exchange(has_told_loss, true)) {
        spdlog::error(
            "{} was removed while the agent ran, and the agent cannot record there which addresses pods have, trying "
            "again err=\"{}\"",
            directory_.path(),
            noted.error().message);
      }
      own_.WriteHandedOut();
      if (!clock_.Sleep(kMaintenanceEvery, stop)) return;
      continue;
    }
    if (!IsStillOurs()) return;
    if (options_.watches_blocks) UpdateBlockWatches();
    // `berth` may have queued a DEL after this agent became ready, because it found no listener at the socket of the
    // replaced agent.
    if (auto taken = TakeQueuedDels(); !taken) {
      spdlog::warn("cannot take DELs from the queue, trying again err=\"{}\"", taken.error().message);
    }
    quarantine_.TryAgain();
    ReplayJournal();
    own_.ProveStandby(clock_.Now() + kStepMax);
    own_.WriteHandedOut();
    CompactJournal();
    if (const auto news = server_clock_.TakeNews())
      spdlog::log(news->is_wrong ? spdlog::level::warn : spdlog::level::info, "{}", news->text);
    ClaimAhead();
    SweepCooled();
    // RenewStandby looks at each address: call it at most once a second, even if a burst of calls wakes this loop
    // often.
    if (clock_.Now() >= next_renewal) {
      RenewStandby();
      next_renewal = clock_.Now() + kMaintenanceEvery;
    }
    if (clock_.Now() >= next_resync) {
      Resync();
      next_resync = after_resync();
    }
    // Wait 20 ms between two passes, so that a burst of ADDs causes one pass and not one pass each. While the API
    // server is away, wait a second: calls and watches wake this loop, and each pass sends requests again.
    const bool was_away = is_away_;
    if (!clock_.Sleep(was_away ? kMaintenanceEvery : kMaintenancePause, stop)) return;
    Lock lock(mutex_);
    changed_.wait_for(lock.native(), std::chrono::seconds(was_away ? 0 : 1), [&]() BERTH_REQUIRES(mutex_) {
      return is_woken_ || stopping_ || stop.stop_requested();
    });
    if (stopping_) return;
    is_woken_ = false;
  }
}

std::vector<ipam::Attachment> Agent::DelsToReplay() {
  std::erase_if(retry_pauses_, [this](const auto& one) { return !journal_->Contains(one.first); });
  const auto due = [this](const ipam::Attachment& attachment) {
    const auto pause = retry_pauses_.find(attachment);
    return pause == retry_pauses_.end() ? SteadyTime::min() : pause->second.end();
  };
  const SteadyTime now = clock_.Now();
  const std::set<ipam::Attachment> paused = own_.InDoubtInPaused();
  const auto has_to_wait = [&](const ipam::Attachment& attachment) {
    return now < due(attachment) || paused.contains(attachment);
  };
  std::vector<ipam::Attachment> pending = journal_->Pending();
  std::erase_if(pending, has_to_wait);
  std::ranges::stable_sort(pending, {}, due);
  return pending;
}

void Agent::ReplayJournal() {
  struct Pass {
    Mutex mutex;
    std::condition_variable ended;
    int open BERTH_GUARDED_BY(mutex) = 0;
    int written BERTH_GUARDED_BY(mutex) = 0;
    std::optional<Error> failure BERTH_GUARDED_BY(mutex);
    std::set<ipam::Attachment> failed BERTH_GUARDED_BY(mutex);
  };
  const auto pass = std::make_shared<Pass>();
  const std::vector<ipam::Attachment> pending = DelsToReplay();
  for (const ipam::Attachment& attachment : pending) {
    // If a call has the attachment's turn, skip the DEL: the call or the next pass writes it.
    auto turn = gate_.Enter(attachment, clock_.Now());
    if (turn == nullptr || !journal_->Contains(attachment)) continue;
    CallRuntime runtime(clock_, clock_.Now(), kStepMax, own_);
    AgentStore store(Parts(), runtime, runtime.end());
    const bool may_be_quarantined = quarantine_.MayHold(attachment);
    if (HoldsNothing(store, attachment)) {
      if (!may_be_quarantined) static_cast<void>(journal_->Remove(attachment));
      continue;
    }
    {
      const Lock lock(pass->mutex);
      ++pass->open;
    }
    ipam::Engine engine(store, runtime);
    const auto released =
        Release(store, engine, attachment, std::move(turn), [pass, attachment](const std::optional<Error>& failure) {
          const Lock lock(pass->mutex);
          if (failure) pass->failure = failure;
          if (failure && ConcernsOneDel(failure->code)) pass->failed.insert(attachment);
          if (!failure) ++pass->written;
          --pass->open;
          pass->ended.notify_all();
        });
    // The other DELs would also wait for an answer: end the pass. If only this DEL fails, the next pass tries the
    // others first.
    if (!released && IsAway(released.error().code)) {
      const Lock lock(pass->mutex);
      pass->failed.insert(attachment);
      break;
    }
  }
  // Wait for all releases. Each release ends when its patch has succeeded or failed, or when the agent stops.
  Lock lock(pass->mutex);
  pass->ended.wait(lock.native(), [&pass]() BERTH_REQUIRES(pass->mutex) { return pass->open == 0; });
  for (const ipam::Attachment& attachment : pass->failed) retry_pauses_[attachment].AfterFailure(clock_.Now());
  if (pass->failure) {
    spdlog::warn(
        "cannot write journalled DELs, trying again pending={} err=\"{}\"", journal_->Size(), pass->failure->message);
    if (IsAway(pass->failure->code) && !ConcernsOneDel(pass->failure->code) && pass->written == 0) return;
    // The API server may refuse a DEL for a long time: sync the journal.
    if (auto synced = journal_->Sync(); !synced)
      spdlog::error("cannot write the journal err=\"{}\"", synced.error().message);
  }
  if (pass->written > 0) spdlog::info("journalled DELs written count={}", pass->written);
  // A refusal also proves that the API server is back.
  const auto is_refusal = [](ErrorCode code) { return code == ErrorCode::kInvalid || !ConcernsOneDel(code); };
  if (pass->written > 0 || (pass->failure && is_refusal(pass->failure->code))) is_away_ = false;
  if (!is_away_) return;
  // No write showed whether the API server is back: send a small LIST, which the server must not answer from its cache.
  const auto answer = k8sclient::Get(
      api_,
      {.path = std::string(crds::kPoolsPath), .query = {{"limit", "1"}}, .accept = k8sclient::kPartialMetadataList},
      k8sclient::CallOptions::Within(kProbeMax));
  if (answer) is_away_ = false;
}

void Agent::CompactJournal() {
  if (!journal_->IsLong()) return;
  const auto ownership = directory_.HoldNodeOwnership(own_.instance());
  if (!ownership) return;  // another agent owns the journal now
  if (auto compacted = journal_->Compact(); !compacted) {
    spdlog::warn("cannot write the journal err=\"{}\"", compacted.error().message);
  }
}

void Agent::ClaimAhead() {
  if (is_away_) return;
  // List the blocks before Claim: an earlier claim whose answer was lost may have created the block that is needed.
  const bool is_above = IsNumberAboveBlocks();
  if (wants_resync_.exchange(false) || is_above) Resync();
  if (!warm_blocks_.Claim()) wants_resync_ = true;
}

bool Agent::IsNumberAboveBlocks() {
  const auto numbers = view_.TakeRisenNumbers();
  if (!numbers) return false;
  CallRuntime runtime(clock_, clock_.Now(), kStepMax, own_);
  std::map<std::string, std::int64_t> known;  // addresses, by resource
  for (const ipam::PoolView& pool : view_.AllPools()) {
    for (const BlockView& block : own_.Snapshot()) {
      if (!ipam::BelongsTo(*block, *pool)) continue;
      const auto free = ipam::CountFree(*block, *pool, runtime.UnixMillis());
      known[pool->resource] += std::int64_t{free} + static_cast<std::int64_t>(block->used());
    }
  }
  return std::ranges::any_of(*numbers, [&](const auto& one) { return one.second > known[one.first]; });
}

bool Agent::FoundBlocks(std::uint64_t known, SteadyTime deadline) {
  Lock lock(mutex_);
  const SteadyTime now = clock_.Now();
  if (now >= next_look_) {
    next_look_ = now + kMaintenanceEvery;
    resyncs_before_look_ = resyncs_;
    wants_resync_ = true;
    is_woken_ = true;
    changed_.notify_all();
  }
  // Calls that come within 1 s of the last request for a list share this list.
  changed_.wait_until(lock.native(), std::min(deadline, now + options_.list_wait_max), [&]() BERTH_REQUIRES(mutex_) {
    return resyncs_ != resyncs_before_look_ || stopping_;
  });
  lock.unlock();
  return own_.Generation() != known;
}

// Lists the node's blocks. Takes in blocks that the controller or a claim with a lost answer created, and notices known
// blocks that were changed or deleted.
void Agent::Resync() {
  FindBlocks();
  const Lock lock(mutex_);
  ++resyncs_;
  changed_.notify_all();
}

void Agent::FindBlocks() {
  const auto ownership = directory_.HoldNodeOwnership(own_.instance());
  if (!ownership) return;
  const auto listed = ListOwnBlocks({.resource_version = "0", .page_size = 0});
  if (!listed) return;
  std::set<std::string> known = own_.Names();
  for (const auto& [name, text] : listed->quarantined) known.erase(name);
  for (const BlockView& block : listed->blocks) {
    if (known.erase(block->name) > 0) {
      own_.Observe(block, clock_.Now() + kStepMax);
      continue;
    }
    // The controller claimed the block for this node, or this agent claimed it and the answer was lost.
    const auto pool = view_.ReadLatest(block->pool, k8sclient::CallOptions::Within(kStepMax));
    if (!pool || *pool == nullptr) continue;
    const auto fenced = own_.TakeIn(block, clock_.Now() + kStepMax);
    if (fenced)
      spdlog::info(
          "found a block of this node that this agent did not know block={} pool={}", block->name, block->pool);
  }
  // The list lacks these blocks, but may be older than they are: ObserveListed reads each of them.
  for (const std::string& name : known) {
    static_cast<void>(own_.ObserveListed(name, /*version=*/0, clock_.Now() + kStepMax));
  }
  ReportOddBlocks();
}

void Agent::SweepCooled() {
  CallRuntime runtime(clock_, clock_.Now(), kStepMax, own_);
  const std::int64_t now_ms = runtime.UnixMillis();
  const auto is_over = [now_ms](const auto& item) {
    const auto until = ipam::CoolingUntil(item.second, now_ms);
    return until && *until <= now_ms;
  };
  for (const BlockView& block : own_.ForUpkeep()) {
    if (std::ranges::none_of(block->allocations, is_over)) continue;
    const auto written = own_.Edit(block, {.what = ipam::SweepCooled{.now_ms = now_ms}}, runtime.end());
    if (!written)
      spdlog::warn(
          "cannot remove cooling entries whose time is over block={} err=\"{}\"", block->name, written.error().message);
  }
}

void Agent::RenewStandby() {
  const std::vector<ipam::PoolView> pools = view_.AllPools();
  const std::int64_t now_ms = CallRuntime(clock_, clock_.Now(), kStepMax, own_).UnixMillis();
  for (const BlockView& block : own_.ForUpkeep()) {
    if (block->standby.empty()) continue;
    const auto found = std::ranges::find_if(
        pools, [&](const ipam::PoolView& one) { return one->uid == block->pool_uid && ipam::CheckUsable(*one); });
    const ipam::StandbyPlan plan{
        .pool = found == pools.end() ? nullptr : *found, .now_ms = now_ms, .block_uid = block->uid};
    ipam::Block renewed = *block;
    ipam::ApplyStandbyPlan(plan, renewed, block->standby.size());
    ipam::TrimStandby(renewed);
    if (!ipam::HasHeldEntry(renewed)) renewed.standby.clear();
    if (renewed.standby != block->standby) own_.EditDeferred(block, {.standby = plan}, [](const auto&) {});
  }
}

void Agent::UpdateBlockWatches() {
  const std::set<std::string> wanted = own_.Names();
  std::erase_if(block_watches_, [&wanted](const auto& watch) { return !wanted.contains(watch.first); });
  for (const std::string& name : wanted) {
    if (!block_watches_.contains(name)) block_watches_[name] = WatchBlock(name);
  }
}

// The watch asks only for metadata, because this agent itself wrote most versions, and knows their entries.
std::unique_ptr<WatchThread> Agent::WatchBlock(const std::string& block) {
  WatchActions actions;
  const auto told = std::make_shared<std::uint64_t>(0);
  actions.upsert = [this, told](const json& object) {
    const auto meta = crds::ParseObjectMeta(object, crds::kBlockKind);
    if (!meta) return;
    *told = ParseVersion(meta->resource_version);
    own_.ObserveVersion(meta->name, *told, clock_.Now() + kStepMax);
  };
  actions.listed = [this, block, told](const std::set<std::string>& names) {
    // A list from a cache may lack a block that was created a moment ago.
    static_cast<void>(own_.ObserveListed(block, names.empty() ? 0 : *told, clock_.Now() + kStepMax));
  };
  actions.remove = [this](const json& object) {
    const auto meta = crds::ParseObjectMeta(object, crds::kBlockKind);
    if (meta) own_.ObserveGone(meta->name, meta->uid, clock_.Now() + kStepMax);
    Wake();
  };
  return std::make_unique<WatchThread>(
      api_,
      clock_,
      k8sclient::ReflectorOptions{
          .path = std::string(crds::kBlocksPath), .field_selector = "metadata.name=" + block, .metadata_only = true},
      std::move(actions));
}

}  // namespace berth::agent
