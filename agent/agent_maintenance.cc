// SPDX-License-Identifier: Apache-2.0
// The agent's work besides calls: it loads and fences its blocks, replays the journal, and runs the maintenance loop.
#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <fcntl.h>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <unistd.h>
#include <utility>

#include <nlohmann/json.hpp>
#include <spdlog/spdlog.h>

#include "agent/agent.h"
#include "agent/block_upkeep.h"
#include "agent/call_runtime.h"
#include "base/mutex.h"
#include "cni/attachment.h"
#include "cni/forward.h"
#include "crds/block.h"
#include "crds/names.h"
#include "crds/object_meta.h"
#include "ipam/engine.h"
#include "k8sclient/verbs.h"
#include "node/del_queue.h"
#include "node/node_mode.h"

namespace berth::agent {

using ipam::BlockView;
using nlohmann::json;

namespace {

constexpr std::chrono::seconds kRetryPause{1};
constexpr std::chrono::seconds kMaintenanceEvery{1};
constexpr std::chrono::milliseconds kMaintenancePause{20};
// A call that finds a pool exhausted waits this long for the maintenance loop.
constexpr std::chrono::seconds kLookMax{2};
// The maintenance loop lists the node's blocks every 5 to 10 min. For a LIST by node, the API server looks at every
// block. If 5,000 nodes did this twice a minute, the API server would be overloaded.
constexpr std::chrono::minutes kResyncEvery{5};
// The API server's flow control counts a LIST by its page size. A page of 500 counts as a tenth of all requests that
// agents may have under way, so thousands of agents that start together would wait for each other. Few nodes have more
// than 10 blocks.
constexpr int kOwnBlocksPage = 10;

BlockView ToView(const json& object) {
  auto block = crds::ParseBlock(object);
  if (block) return std::make_shared<const ipam::Block>(*std::move(block));
  spdlog::error("block not understood err=\"{}\"", block.error().message);
  return nullptr;
}

}  // namespace

void Agent::Load(const std::stop_token& stop) {
  if (!LoadUntilDone(stop)) return;
  LeaveLoadedMark();
  maintenance_ = std::jthread([this](const std::stop_token& maintenance_stop) { RunMaintenance(maintenance_stop); });
  ready_since_ = node::BootTimeNow();
  const Lock lock(mutex_);
  ready_ = true;
  changed_.notify_all();
  spdlog::info("ready node={} instance={} blocks={}", options_.node, own_.instance(), own_.Snapshot().size());
}

bool Agent::HasLoadedSinceBoot() const {
  return !options_.loaded_mark.empty() && access(options_.loaded_mark.c_str(), F_OK) == 0;
}

void Agent::LeaveLoadedMark() const {
  if (options_.loaded_mark.empty()) return;
  const node::HeldFile mark(open(options_.loaded_mark.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  if (mark.is_open()) return;
  spdlog::error("cannot create {}, so a restart of the agent makes the node NotReady for a moment: {}",
                options_.loaded_mark,
                std::strerror(errno));
}

void Agent::LoadAndClaim(const std::stop_token& stop) {
  view_.ListAll(stop);
  if (!LoadUntilDone(stop)) return;
  bool goes_on = true;
  while (goes_on) {
    ClaimAhead();
    goes_on = warm_blocks_.lacks() && (warm_blocks_.HasNews() || clock_.Sleep(kMaintenanceEvery, stop));
  }
}

bool Agent::LoadUntilDone(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    auto loaded = has_taken_over_ ? Expected<void>() : TakeOver();
    if (loaded) loaded = LoadOnce();
    if (loaded) break;
    if (own_.stopped()) return false;
    spdlog::warn("cannot load the node's blocks, trying again err=\"{}\" details=\"{}\"",
                 loaded.error().message,
                 loaded.error().details);
    {
      const Lock lock(mutex_);
      const Error& error = loaded.error();
      load_error_ = error.message + (error.details.empty() ? "" : ": " + error.details);
    }
    if (!clock_.Sleep(kRetryPause, stop)) return false;
  }
  return !stop.stop_requested() && !own_.stopped();
}

Expected<void> Agent::TakeOver() {
  if (!lock_.is_open()) {
    auto lock = directory_.LockShared();
    if (!lock) return std::unexpected(lock.error());
    lock_ = *std::move(lock);
  }
  if (auto became = directory_.BecomeNodeOwner(own_.instance()); !became) return became;
  // Hold the ownership until the journal is open: a later agent waits, and this agent does not replace the journal of
  // an agent that was faster.
  const auto ownership = directory_.HoldNodeOwnership(own_.instance());
  if (!ownership) {
    static_cast<void>(IsStillOurs());
    return std::unexpected(ownership.error());
  }
  // A retiring agent writes the mode while it owns the node: it has done so before, or never will.
  if (auto mode = node::RequireMode(state_, node::NodeMode::kAgent); !mode) return mode;
  const auto nodes = state_.Sub("nodes", node::FileSync::kYes);
  if (!nodes) return std::unexpected(nodes.error());
  const auto folder = nodes->Sub(options_.node, node::FileSync::kYes);
  if (!folder) return std::unexpected(folder.error());
  auto journal = Journal::Open(*folder);
  if (!journal) return std::unexpected(journal.error());
  journal_ = *std::move(journal);
  has_taken_over_ = true;
  return {};
}

bool Agent::IsStillOurs() {
  const auto ownership = directory_.HoldNodeOwnership(own_.instance());
  if (ownership || ownership.error().code != ErrorCode::kUnavailable) return true;
  own_.Stop();
  GiveWay();
  return false;
}

void Agent::GiveWay() {
  std::call_once(replaced_once_, [this] {
    spdlog::warn("this agent stops serving the node instance={}", own_.instance());
    BeginStop();
    replaced_();
  });
}

Expected<void> Agent::LoadOnce() {
  // The order matters: first no other agent may create blocks of this node, and then this agent lists the blocks. A
  // later agent waits until this is done, and then fences the blocks itself.
  if (!IsStillOurs()) return Fail(ErrorCode::kUnavailable, "another agent has taken over this node");
  const auto ownership = directory_.HoldNodeOwnership(own_.instance());
  if (!ownership) return std::unexpected(ownership.error());
  if (auto taken = TakeQueuedDels(); !taken) return taken;
  if (auto fenced = FenceOwnBlocks(); !fenced) return fenced;
  if (auto settled = SettleLeftIntents(); !settled) return settled;
  ReplayJournal();
  if (!view_.WaitUntilListed(kStepMax)) {
    return Fail(ErrorCode::kUnavailable, "the agent could not list its pools and its Node in time");
  }
  is_away_ = false;
  return {};
}

Expected<Agent::ListedBlocks> Agent::ListOwnBlocks(k8sclient::ListOptions options) {
  ListedBlocks listed;
  options.field_selector = std::string(crds::kBlockNodeField) + "=" + options_.node;
  const auto take = [&listed](const json& object) {
    BlockView block = ToView(object);
    if (block == nullptr) listed.quarantined.emplace(crds::NameOf(object), object.dump());
    if (block != nullptr) listed.blocks.push_back(std::move(block));
  };
  const auto version = k8sclient::ListEach(api_,
                                           std::string(crds::kBlocksPath),
                                           options,
                                           k8sclient::CallOptions::Within(kStepMax),
                                           {.begin = [&listed] { listed = {}; }, .item = take});
  if (!version) return std::unexpected(version.error().Within("list ipblocks"));
  return listed;
}

Expected<void> Agent::FenceOwnBlocks() {
  auto listed = ListOwnBlocks({.page_size = kOwnBlocksPage});
  if (!listed) return std::unexpected(listed.error());
  for (const BlockView& block : listed->blocks) {
    const auto fenced = own_.Fence(block, clock_.Now() + kStepMax);
    if (fenced || fenced.error().code == ErrorCode::kNotFound) continue;
    if (!ConcernsOneBlock(fenced.error().code)) return fenced;
    spdlog::error("block quarantined block={} err=\"{}\"", block->name, fenced.error().message);
    listed->quarantined.emplace(block->name, crds::BlockToJson(*block).dump());
  }
  quarantine_.Set(listed->quarantined);
  const auto notes = directory_.ReadHandedOut();
  if (!notes) return std::unexpected(notes.error());
  for (const node::HandedOut& note : *notes) {
    // For a handed-out address of a quarantined block, the note is the only record.
    if (own_.Knows(note.block) || listed->quarantined.contains(note.block)) continue;
    Tell({.kind = agent_core::Report::Kind::kHandedOutLost, .block = note.block, .text = note.entry});
    directory_.ForgetHandedOut(note.attachment, note.block);
  }
  return {};
}

Expected<void> Agent::SettleLeftIntents() {
  const auto intents = directory_.ReadIntents("");
  if (!intents) return std::unexpected(intents.error());
  std::set<ipam::Attachment> attachments;
  for (const ipam::OpenIntent& intent : *intents) attachments.insert(intent.attachment);
  CallRuntime runtime(clock_, clock_.Now(), kStepMax, own_);
  AgentStore store(Parts(), runtime, runtime.end());
  ipam::Engine engine(store, runtime);
  for (const ipam::Attachment& attachment : attachments) {
    const auto settled = engine.SettleIntents(attachment);
    if (settled) {
      spdlog::info("settled a write that an earlier process left in doubt attachment={}", attachment);
      continue;
    }
    // The API server is not away, because it has listed the blocks. If it refuses this write, the agent still serves
    // the node, and the attachment's DEL settles the write.
    if (!ConcernsOneBlock(settled.error().code) && settled.error().code != ErrorCode::kUnknownOutcome) return settled;
    spdlog::error("cannot settle a write that an earlier process left in doubt attachment={} err=\"{}\"",
                  attachment,
                  settled.error().message);
  }
  return {};
}

Expected<void> Agent::TakeQueuedDels() {
  const auto ownership = directory_.HoldNodeOwnership(own_.instance());
  if (!ownership) return std::unexpected(ownership.error());
  const auto queue = node::DelQueue::Lock(state_, /*deadline=*/0);
  if (!queue) return std::unexpected(queue.error());
  const auto calls = queue->Calls();
  if (!calls || calls->empty()) return calls ? Expected<void>() : std::unexpected(calls.error());
  for (const std::string& text : *calls) {
    const auto call = cni::ParseForwardedCall(text);
    const auto config = call ? cni::ParseConfig(call->config, cni::Verb::kDel) : std::unexpected(call.error());
    if (!config) {
      spdlog::error(
          "a queued DEL cannot be read: its pod's address stays held until the controller frees the address err=\"{}\"",
          config.error().message);
      continue;
    }
    const cni::Environment& environment = call->environment;
    const auto attachment = cni::MakeAttachment(config->name, environment.container_id, environment.ifname);
    if (auto marked = directory_.MarkDeleted(attachment, call->started_nanos); !marked) return marked;
    const std::int64_t started = call->started_nanos;
    if (gate_.WasNewerAddAnswered(attachment, started) || gate_.IsNewerAddRunning(attachment, started)) continue;
    if (auto added = journal_->Add(attachment, node::FileSync::kNo); !added) return added;
  }
  if (auto synced = journal_->Sync(); !synced) return synced;
  spdlog::info("read the queued DELs, which came while no agent ran count={}", calls->size());
  return queue->Clear();
}

void Agent::RunMaintenance(const std::stop_token& stop) {
  const auto after_resync = [this] {
    return clock_.Now() + std::chrono::duration_cast<std::chrono::milliseconds>(kResyncEvery * (1 + clock_.Random()));
  };
  auto next_resync = after_resync();
  auto next_renewal = clock_.Now();
  ReportOddBlocks();
  while (!stop.stop_requested() && !own_.stopped()) {
    if (directory_.IsGone()) {
      spdlog::error("{} was removed while the agent ran: the agent starts again", directory_.path());
      return GiveWay();
    }
    if (!IsStillOurs()) return;
    if (options_.watches_blocks) block_watches_.Update();
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
    ReportClock();
    ClaimAhead();
    SweepCooled(own_, clock_);
    // RenewStandby looks at each address: call it at most once a second, even if a burst of calls wakes this loop
    // often.
    if (clock_.Now() >= next_renewal) {
      RenewStandby(own_, view_, clock_);
      next_renewal = clock_.Now() + kMaintenanceEvery;
    }
    if (clock_.Now() >= next_resync) {
      Resync();
      next_resync = after_resync();
    }
    // Wait 20 ms between two passes, so that a burst of ADDs causes one pass and not one pass each.
    if (!clock_.Sleep(kMaintenancePause, stop)) return;
    Lock lock(mutex_);
    changed_.wait_for(lock.native(), kMaintenanceEvery, [&]() BERTH_REQUIRES(mutex_) {
      return is_woken_ || stopping_ || stop.stop_requested();
    });
    if (stopping_) return;
    is_woken_ = false;
  }
}

void Agent::ReplayJournal() {
  struct Pass {
    Mutex mutex;
    std::condition_variable ended;
    int open BERTH_GUARDED_BY(mutex) = 0;
    int written BERTH_GUARDED_BY(mutex) = 0;
    std::optional<Error> failure BERTH_GUARDED_BY(mutex);
    std::set<ipam::Attachment> refused BERTH_GUARDED_BY(mutex);
  };
  const auto pass = std::make_shared<Pass>();
  std::erase_if(retry_pauses_, [this](const auto& one) { return !journal_->Contains(one.first); });
  for (const ipam::Attachment& attachment : journal_->Pending()) {
    const auto pause = retry_pauses_.find(attachment);
    if (pause != retry_pauses_.end() && pause->second.IsOn(clock_.Now())) continue;
    // If a call has the attachment's turn, the call writes the DEL, or the next pass does.
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
          if (failure && failure->code == ErrorCode::kInvalid) pass->refused.insert(attachment);
          if (!failure) ++pass->written;
          --pass->open;
          pass->ended.notify_all();
        });
    if (!released && IsAway(released.error().code)) break;  // the other DELs would fail for the same reason
  }
  // Each release ends: when its patch has succeeded or failed, or when the agent stops.
  Lock lock(pass->mutex);
  pass->ended.wait(lock.native(), [&pass]() BERTH_REQUIRES(pass->mutex) { return pass->open == 0; });
  for (const ipam::Attachment& attachment : pass->refused) retry_pauses_[attachment].AfterRefusal(clock_.Now());
  if (pass->failure) {
    spdlog::warn(
        "cannot write journalled DELs, trying again pending={} err=\"{}\"", journal_->Size(), pass->failure->message);
    if (IsAway(pass->failure->code)) return;
    // The API server may refuse a DEL for a long time: sync the journal.
    if (auto synced = journal_->Sync(); !synced)
      spdlog::error("cannot write the journal err=\"{}\"", synced.error().message);
  }
  if (pass->written > 0) spdlog::info("journalled DELs written count={}", pass->written);
  // A refusal also proves that the API server is back.
  if (pass->written > 0 || pass->failure) is_away_ = false;
  if (!is_away_) return;
  // No write showed whether the API server is back: send a small LIST.
  const auto answer =
      k8sclient::List(api_,
                      std::string(crds::kPoolsPath),
                      {.resource_version = "0", .page_size = 1, .accept = k8sclient::kPartialMetadataList},
                      k8sclient::CallOptions::Within(kRetryPause));
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
  // An earlier claim whose answer was lost may have created a block, and one block is enough: look first.
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

void Agent::WantResync() {
  wants_resync_ = true;
  Wake();
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
  // Calls that come during a look of the maintenance loop wait for this look.
  changed_.wait_until(lock.native(), std::min(deadline, now + kLookMax), [&]() BERTH_REQUIRES(mutex_) {
    return resyncs_ != resyncs_before_look_ || stopping_;
  });
  lock.unlock();
  return own_.Generation() != known;
}

// Lists the node's blocks. Takes in blocks that others claimed for this node or that a claim with a lost answer
// created, and notices known blocks that were changed or deleted.
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
  // The list may be older than a block that it lacks.
  for (const std::string& name : known) {
    static_cast<void>(own_.ObserveListed(name, /*version=*/0, clock_.Now() + kStepMax));
  }
  ReportOddBlocks();
}

}  // namespace berth::agent
