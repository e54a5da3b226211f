// SPDX-License-Identifier: Apache-2.0
// What the agent does besides calls: loading and fencing its blocks, replaying the journal, claiming ahead, sweeping
// cooled entries, watching its blocks.
#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <fcntl.h>
#include <limits>
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
#include "agent/call_runtime.h"
#include "cni/attachment.h"
#include "cni/forward.h"
#include "crds/block.h"
#include "crds/names.h"
#include "crds/object_meta.h"
#include "ipam/claim.h"
#include "ipam/engine.h"
#include "ipam/pool_choice.h"
#include "k8sclient/verbs.h"
#include "node/del_queue.h"
#include "node/node_mode.h"

namespace berth::agent {

using ipam::BlockView;
using ipam::ErrorCode;
using ipam::Expected;
using nlohmann::json;

namespace {

constexpr std::chrono::seconds kStepMax{20};
constexpr std::chrono::seconds kRetryPause{1};
constexpr std::chrono::seconds kKeepEvery{1};
constexpr std::chrono::milliseconds kKeepPause{20};
// And up to as long again. A LIST by node makes the API server look at every block there is: of five thousand nodes
// twice a minute that is more than it can do.
constexpr std::chrono::minutes kResyncEvery{5};
// The API server's flow control takes a LIST for as much work as a page of it can hold: with 500, a tenth of all that
// agents may do at the same time, and thousands that start together wait for each other. Few nodes have more blocks.
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
  keeper_ = std::jthread([this](const std::stop_token& keeper_stop) { Keep(keeper_stop); });
  const std::scoped_lock lock(mutex_);
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
  spdlog::error(
      "a restart will make the node NotReady for a moment: create {}: {}", options_.loaded_mark, std::strerror(errno));
}

void Agent::LoadAndClaim(const std::stop_token& stop) {
  view_.ListAll(stop);
  if (!LoadUntilDone(stop)) return;
  bool goes_on = true;
  while (goes_on) {
    ClaimAhead();
    const bool has_claimed = own_.Generation() != kept_generation_;
    goes_on = spare_ < 0 && (has_claimed || clock_.Sleep(kKeepEvery, stop));
  }
}

bool Agent::LoadUntilDone(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    auto loaded = is_creator_ ? Expected<void>() : TakeOver();
    if (loaded) loaded = LoadOnce();
    if (loaded) break;
    if (own_.stopped()) return false;
    spdlog::warn("loading blocks failed, trying again err=\"{}\" details=\"{}\"",
                 loaded.error().message,
                 loaded.error().details);
    {
      const ipam::Error& error = loaded.error();
      const std::scoped_lock lock(mutex_);
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
  if (auto creator = directory_.BecomeCreator(own_.instance()); !creator) return creator;
  // An agent that retires writes the mode while it is the creator: that was before, or never comes.
  if (auto mode = node::RequireMode(state_, node::NodeMode::kAgent); !mode) return mode;
  const auto nodes = state_.Sub("nodes");
  if (!nodes) return std::unexpected(nodes.error());
  const auto folder = nodes->Sub(options_.node);
  if (!folder) return std::unexpected(folder.error());
  auto journal = Journal::Open(folder->PathOf("journal"));
  if (!journal) return std::unexpected(journal.error());
  journal_ = *std::move(journal);
  is_creator_ = true;
  return {};
}

bool Agent::IsStillOurs() {
  const auto creator = directory_.HoldCreator(own_.instance());
  if (creator || creator.error().code != ErrorCode::kUnavailable) return true;
  own_.Stop();
  std::call_once(replaced_once_, [this] {
    spdlog::warn("another agent of this node has taken over instance={}", own_.instance());
    BeginStop();
    replaced_();
  });
  return false;
}

Expected<void> Agent::LoadOnce() {
  // In this order: first nobody else creates blocks of this node, then those that exist are listed. A later agent waits
  // until that is done, and fences them after this one.
  if (!IsStillOurs()) return ipam::Fail(ErrorCode::kUnavailable, "another agent serves this node by now");
  const auto creator = directory_.HoldCreator(own_.instance());
  if (!creator) return std::unexpected(creator.error());
  if (auto taken = TakeQueuedDels(); !taken) return taken;
  const auto options = k8sclient::CallOptions::Within(kStepMax);
  const auto list = k8sclient::List(
      api_,
      std::string(crds::kBlocksPath),
      {.field_selector = std::string(crds::kBlockNodeField) + "=" + options_.node, .page_size = kOwnBlocksPage},
      options);
  if (!list) return std::unexpected(list.error().Within("list ipblocks"));
  if (auto fenced = FenceOwnBlocks(list->items); !fenced) return fenced;
  if (auto settled = SettleLeftIntents(); !settled) return settled;
  ReplayJournal();
  if (!view_.WaitUntilListed(kStepMax)) {
    return ipam::Fail(ErrorCode::kUnavailable, "pools and node were not listed in time");
  }
  is_away_ = false;
  return {};
}

Expected<void> Agent::FenceOwnBlocks(const std::vector<json>& objects) {
  const auto handed_out = directory_.ReadHandedOut();
  if (!handed_out) return std::unexpected(handed_out.error());
  const auto standby = [&handed_out](const ipam::Block& block) { return node::HandedOutOf(block, *handed_out); };
  std::map<std::string, std::uint32_t> fenced_sizes;  // by uid
  for (const json& object : objects) {
    auto block = crds::ParseBlock(object);
    if (!block) return std::unexpected(block.error());
    auto fenced = own_.Fence(std::make_shared<const ipam::Block>(*block), clock_.Now() + kStepMax, standby);
    if (fenced) fenced_sizes.emplace(block->uid, block->size());
    if (!fenced && fenced.error().code != ErrorCode::kNotFound) return fenced;
  }
  for (const node::HandedOut& one : *handed_out) {
    const auto forget = [this, one] { directory_.ForgetHandedOut(one.attachment, one.block); };
    const auto size = fenced_sizes.find(one.block_uid);
    if (size != fenced_sizes.end() && one.offset < size->second) {
      spdlog::info("handed out by an earlier agent block={} entry=\"{}\"", one.block, one.entry);
      own_.Resume(one.block, one.offset, one.attachment, one.entry, forget);
    } else {
      HandedOutLost(one.block, one.entry);
      forget();
    }
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
    if (auto settled = engine.SettleIntents(attachment); !settled) return settled;
    spdlog::info("settled a write that an earlier process left open attachment={}", attachment);
  }
  return {};
}

Expected<void> Agent::TakeQueuedDels() {
  const auto queue = node::DelQueue::Lock(state_, /*deadline=*/0);
  if (!queue) return std::unexpected(queue.error());
  const auto calls = queue->Calls();
  if (!calls || calls->empty()) return calls ? Expected<void>() : std::unexpected(calls.error());
  for (const std::string& text : *calls) {
    const auto call = cni::ParseForwardedCall(text);
    const auto config = call ? cni::ParseConfig(call->config, cni::Verb::kDel) : std::unexpected(call.error());
    if (!config) {
      spdlog::warn("a DEL that nobody was answered is left out err=\"{}\"", config.error().message);
      continue;
    }
    const cni::Environment& environment = call->environment;
    const auto attachment = cni::MakeAttachment(config->name, environment.container_id, environment.ifname);
    if (auto marked = directory_.MarkDeleted(attachment, call->started_nanos); !marked) return marked;
    if (gate_.WasNewerAddAnswered(attachment, call->started_nanos)) continue;
    if (auto added = journal_->Add(attachment, JournalSync::kNo); !added) return added;
  }
  if (auto synced = journal_->Sync(); !synced) return synced;
  spdlog::info("took over DELs that came while no agent listened count={}", calls->size());
  return queue->Clear();
}

void Agent::Keep(const std::stop_token& stop) {
  const auto after_resync = [this] {
    return clock_.Now() + std::chrono::duration_cast<std::chrono::milliseconds>(kResyncEvery * (1 + clock_.Random()));
  };
  auto next_resync = after_resync();
  auto next_renewal = clock_.Now();
  ReportOddBlocks();
  while (!stop.stop_requested() && !own_.stopped()) {
    if (!IsStillOurs()) return;
    WatchBlocks();
    // A DEL may have found nobody at the socket of an agent that was replaced while this one was ready already.
    if (auto taken = TakeQueuedDels(); !taken) spdlog::warn("queued DELs wait err=\"{}\"", taken.error().message);
    ReplayJournal();
    own_.ProveStandby(clock_.Now() + kStepMax);
    own_.WriteHandedOut(clock_.Now() + kLateMax, [this](const ipam::Error& error) {
      if (IsAway(error.code)) GoAway();
    });
    CompactJournal();
    ClaimAhead();
    const std::vector<BlockView> blocks = own_.Snapshot();
    SweepCooled(blocks);
    // A burst pokes often, and this looks at each address.
    if (clock_.Now() >= next_renewal) {
      RenewStandby(blocks);
      next_renewal = clock_.Now() + kKeepEvery;
    }
    if (clock_.Now() >= next_resync) {
      Resync();
      next_resync = after_resync();
    }
    // A burst of ADDs needs one look at what is left, not one each.
    if (!clock_.Sleep(kKeepPause, stop)) return;
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kKeepEvery, [&] { return poked_ || stopping_ || stop.stop_requested(); });
    if (stopping_) return;
    poked_ = false;
  }
}

void Agent::ReplayJournal() {
  struct Pass {
    std::mutex mutex;
    std::condition_variable ended;
    int open = 0;
    int written = 0;
    std::optional<ipam::Error> failure;
  };
  const auto pass = std::make_shared<Pass>();
  for (const ipam::Attachment& attachment : journal_->Pending()) {
    // Where a call has the turn, it is about to be written.
    auto turn = gate_.Enter(attachment, clock_.Now());
    if (turn == nullptr || !journal_->Contains(attachment)) continue;
    CallRuntime runtime(clock_, clock_.Now(), kStepMax, own_);
    AgentStore store(Parts(), runtime, runtime.end());
    if (HoldsNothing(store, attachment)) {
      journal_->Remove(attachment);
      continue;
    }
    {
      const std::scoped_lock lock(pass->mutex);
      ++pass->open;
    }
    ipam::Engine engine(store, runtime);
    const auto released =
        Release(store, engine, attachment, std::move(turn), [pass](const std::optional<ipam::Error>& failure) {
          const std::scoped_lock lock(pass->mutex);
          if (failure) pass->failure = failure;
          if (!failure) ++pass->written;
          --pass->open;
          pass->ended.notify_all();
        });
    if (!released && IsAway(released.error().code)) break;  // the others would fail for the same reason
  }
  // Each ends: in a patch, at its deadline, or with the agent.
  std::unique_lock lock(pass->mutex);
  pass->ended.wait(lock, [&pass] { return pass->open == 0; });
  if (pass->failure) {
    spdlog::warn(
        "journalled DELs failed, trying again pending={} err=\"{}\"", journal_->Size(), pass->failure->message);
    if (IsAway(pass->failure->code)) return;
  }
  if (pass->written > 0) spdlog::info("journal written count={}", pass->written);
  // What was refused was answered, too.
  if (pass->written > 0 || pass->failure) is_away_ = false;
  if (!is_away_) return;
  // Nothing to write that would tell: ask.
  const auto answer =
      k8sclient::List(api_,
                      std::string(crds::kPoolsPath),
                      {.resource_version = "0", .page_size = 1, .accept = k8sclient::kPartialMetadataList},
                      k8sclient::CallOptions::Within(kRetryPause));
  if (answer) is_away_ = false;
}

void Agent::CompactJournal() {
  if (!journal_->IsLong()) return;
  const auto creator = directory_.HoldCreator(own_.instance());
  if (!creator) return;  // the journal is another agent's by now
  if (auto compacted = journal_->Compact(); !compacted) {
    spdlog::warn("journal err=\"{}\"", compacted.error().message);
  }
}

void Agent::ClaimAhead() {
  if (is_away_) return;
  // The last one may have come about after all, and one is enough.
  if (wants_resync_.exchange(false)) Resync();
  kept_generation_ = own_.Generation();
  const std::vector<BlockView> blocks = own_.Snapshot();
  std::int64_t spare = std::numeric_limits<std::int64_t>::max();
  const std::optional<ipam::Labels> labels = view_.NodeLabels();
  for (const ipam::PoolView& pool : view_.AllPools()) {
    const bool is_for_node = pool->affinity == ipam::Affinity::kNode && pool->warm_addresses > 0 &&
                             ipam::CheckUsable(*pool) &&
                             (!pool->node_selector || pool->node_selector->Matches(labels.value_or(ipam::Labels{})));
    if (is_for_node) spare = std::min(spare, ClaimAheadFor(*pool, blocks));
  }
  spare_ = spare;
}

std::int64_t Agent::ClaimAheadFor(const ipam::Pool& pool, const std::vector<BlockView>& blocks) {
  CallRuntime runtime(clock_, clock_.Now(), kStepMax, own_);
  int count = 0;
  std::uint32_t free = 0;
  bool is_used = false;
  for (const BlockView& block : blocks) {
    if (!ipam::BelongsTo(*block, pool)) continue;
    ++count;
    free += ipam::CountFree(*block, pool, runtime.UnixMillis());
    is_used = is_used || ipam::IsHeld(*block);
  }
  const std::int64_t spare = std::int64_t{free} - pool.warm_addresses;
  if (spare >= 0) return spare;
  if (pool.max_blocks_per_node > 0 && count >= pool.max_blocks_per_node) return spare;
  // Where blocks are scarce they are for nodes that use them. An ADD claims by itself.
  if (!ipam::MayClaimAhead(pool, is_used)) return std::numeric_limits<std::int64_t>::max();
  AgentStore store(Parts(), runtime, runtime.end());
  static_cast<void>(store.ReadBlocks(ipam::BlockScope::kOwn, ipam::Freshness::kHint).has_value());
  const auto turn = store.BeginClaim(pool);
  if (!turn || turn->is_all_claimed || (turn->look_again && own_.Snapshot().size() != blocks.size())) return spare;
  const auto claimed = ipam::Engine(store, runtime).ClaimAhead(pool);
  if (claimed) {
    metrics_.Claimed(pool.name, /*ahead=*/true);
    spdlog::info("block claimed ahead block={} pool={}", (*claimed)->name, pool.name);
    WatchBlocks();
  } else if (claimed.error().code != ErrorCode::kExhausted) {  // ADDs say so
    if (claimed.error().code == ErrorCode::kUnknownOutcome) wants_resync_ = true;
    spdlog::warn("claiming ahead failed pool={} err=\"{}\"", pool.name, claimed.error().message);
  }
  return spare;
}

// Finds blocks that were claimed for this node by others, or by a write whose answer was lost.
void Agent::Resync() {
  const auto creator = directory_.HoldCreator(own_.instance());
  if (!creator) return;
  const auto list = k8sclient::List(api_,
                                    std::string(crds::kBlocksPath),
                                    {.field_selector = std::string(crds::kBlockNodeField) + "=" + options_.node,
                                     .resource_version = "0",
                                     .page_size = 0},
                                    k8sclient::CallOptions::Within(kStepMax));
  if (!list) return;
  std::set<std::string> known = own_.Names();
  for (const json& object : list->items) {
    const BlockView block = ToView(object);
    if (block == nullptr) continue;
    if (known.erase(block->name) > 0) {
      own_.Observe(block, clock_.Now() + kStepMax);
      continue;
    }
    // Claimed for this node by the controller, or by a call whose answer was lost.
    const auto pool = view_.ReadLatest(block->pool, k8sclient::CallOptions::Within(kStepMax));
    if (!pool || *pool == nullptr) continue;
    const auto fenced = own_.Fence(block, clock_.Now() + kStepMax);
    if (fenced) spdlog::info("block found block={} pool={}", block->name, block->pool);
  }
  // The list may be older than the block.
  for (const std::string& name : known) own_.ObserveMissing(name, clock_.Now() + kStepMax);
  ReportOddBlocks();
}

void Agent::SweepCooled(const std::vector<BlockView>& blocks) {
  CallRuntime runtime(clock_, clock_.Now(), kStepMax, own_);
  const std::int64_t now_ms = runtime.UnixMillis();
  const auto is_over = [now_ms](const std::string& entry) {
    const auto until = ipam::CoolingUntil(entry);
    return until && *until <= now_ms;
  };
  for (const BlockView& block : blocks) {
    const bool has_cooled = std::ranges::any_of(block->allocations, [&](const auto& a) { return is_over(a.second); });
    if (!has_cooled) continue;
    const auto sweep = [is_over](ipam::Block& changed) -> Expected<void> {
      const auto swept = std::erase_if(changed.allocations, [&](const auto& a) { return is_over(a.second); });
      changed.free = std::min(changed.size(), changed.free + static_cast<std::uint32_t>(swept));
      return {};
    };
    const auto written = own_.Edit(block, {.attachment = {}, .apply = sweep}, runtime.end());
    if (!written)
      spdlog::warn("sweeping cooled entries failed block={} err=\"{}\"", block->name, written.error().message);
  }
}

void Agent::RenewStandby(const std::vector<BlockView>& blocks) {
  const std::vector<ipam::PoolView> pools = view_.AllPools();
  const std::int64_t now_ms = CallRuntime(clock_, clock_.Now(), kStepMax, own_).UnixMillis();
  for (const BlockView& block : blocks) {
    if (block->standby.empty()) continue;
    const auto found = std::ranges::find_if(
        pools, [&](const ipam::PoolView& one) { return one->uid == block->pool_uid && ipam::CheckUsable(*one); });
    const ipam::PoolView pool = found == pools.end() ? nullptr : *found;
    const auto stand_by = [pool, now_ms, uid = block->uid](ipam::Block& changed, std::size_t wanted) {
      if (changed.uid != uid) return;  // another block by now, maybe of another pool
      if (pool == nullptr) {
        changed.standby.clear();
      } else {
        ipam::StandBy(changed, *pool, wanted, now_ms);
      }
    };
    own_.RenewStandby(block, stand_by, clock_.Now() + kStepMax);
  }
}

void Agent::WatchBlocks() {
  if (!options_.watches_blocks) return;
  std::vector<std::unique_ptr<WatchThread>> ended;
  const std::scoped_lock lock(watches_mutex_);
  const std::set<std::string> wanted = own_.Names();
  for (auto it = block_watches_.begin(); it != block_watches_.end();) {
    if (wanted.contains(it->first)) {
      ++it;
    } else {
      ended.push_back(std::move(it->second));
      it = block_watches_.erase(it);
    }
  }
  // Versions alone, without entries: most are of this agent's own writes.
  const auto observe = [this](const json& object) {
    const auto meta = crds::ParseObjectMeta(object, crds::kBlockKind);
    if (meta) own_.ObserveVersion(meta->name, VersionOf(meta->resource_version), clock_.Now() + kStepMax);
  };
  for (const std::string& name : wanted) {
    if (block_watches_.contains(name)) continue;
    block_watches_[name] = std::make_unique<WatchThread>(
        api_,
        clock_,
        k8sclient::ReflectorOptions{
            .path = std::string(crds::kBlocksPath), .field_selector = "metadata.name=" + name, .metadata_only = true},
        WatchActions{.replace =
                         [this, observe, name](const std::vector<json>& objects) {
                           for (const json& object : objects) observe(object);
                           // A list from a cache may not know a block yet that was created just now.
                           if (objects.empty()) own_.ObserveMissing(name, clock_.Now() + kStepMax);
                         },
                     .upsert = observe,
                     .remove =
                         [this](const json& object) {
                           const auto meta = crds::ParseObjectMeta(object, crds::kBlockKind);
                           if (meta) own_.ObserveGone(meta->name, meta->uid, clock_.Now() + kStepMax);
                           Poke();
                         }});
  }
}

}  // namespace berth::agent
