// SPDX-License-Identifier: Apache-2.0
// How the agent takes over its node: it fences the node's blocks, and settles what an earlier agent left.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <set>
#include <unistd.h>
#include <utility>

#include <nlohmann/json.hpp>
#include <spdlog/spdlog.h>

#include "agent/agent.h"
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

constexpr std::chrono::seconds kLoadPause{1};
constexpr std::chrono::seconds kClaimEvery{1};
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

// True if the error concerns only one block, which cannot be written or parsed.
bool ConcernsOneBlock(ErrorCode code) { return code == ErrorCode::kInvalid || code == ErrorCode::kConflict; }

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
    goes_on = warm_blocks_.lacks() && (warm_blocks_.HasNews() || clock_.Sleep(kClaimEvery, stop));
  }
}

bool Agent::LoadUntilDone(const std::stop_token& stop) {
  agent_core::RetryPause pause;
  while (!stop.stop_requested()) {
    auto loaded = has_taken_over_ ? Expected<void>() : TakeOver();
    if (loaded) loaded = LoadOnce();
    if (loaded) break;
    if (own_.stopped()) return false;
    if (has_taken_over_ ? directory_.IsLost() : directory_.IsGone()) {
      has_lost_files_ = true;
      GiveWay();
      return false;
    }
    spdlog::warn("cannot load the node's blocks, trying again err=\"{}\" details=\"{}\"",
                 loaded.error().message,
                 loaded.error().details);
    {
      const Lock lock(mutex_);
      const Error& error = loaded.error();
      load_error_ = error.message + (error.details.empty() ? "" : ": " + error.details);
    }
    // If the API server answers no write, the pauses grow, because each attempt lists and writes the blocks again.
    if (loaded.error().code == ErrorCode::kUnknownOutcome) pause.AfterFailure(clock_.Now());
    const auto rest = std::chrono::ceil<std::chrono::milliseconds>(pause.end() - clock_.Now());
    if (!clock_.Sleep(std::max<std::chrono::milliseconds>(kLoadPause, rest), stop)) return false;
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
  // A retiring agent and `install --direct` hold the queue's lock while they write the mode, and `install --direct`
  // first checks that `nodes` does not exist. So the mode stays when this agent has created `nodes`.
  const auto queue = node::DelQueue::Lock(state_, /*deadline=*/0);
  if (!queue) return std::unexpected(queue.error());
  if (auto mode = node::RequireMode(state_, node::NodeMode::kAgent); !mode) {
    lock_.Close();  // berth-direct serves the node, and each of its calls needs the lock
    return mode;
  }
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

void Agent::Drain(std::chrono::milliseconds limit) {
  const SteadyTime end = clock_.Now() + limit;
  {
    Lock lock(mutex_);
    draining_ = true;
    changed_.wait_until(lock.native(), end, [this] { return calls_.load() == 0; });
  }
  own_.AwaitDeferred(end);
  // If files were removed, store the notes again: when MoveNotes stored them last, somebody may still have been
  // removing files.
  if (!has_taken_over_ || own_.stopped() || !(has_lost_files_ || directory_.IsLost())) return;
  if (const auto noted = MoveNotes(); !noted) {
    spdlog::error(
        "{} was removed while the agent ran, and the agent cannot record there which addresses pods have err=\"{}\"",
        directory_.path(),
        noted.error().message);
  }
}

node::HeldFile Agent::KeepLock() const {
  return node::HeldFile(has_taken_over_ ? fcntl(lock_.descriptor(), F_DUPFD_CLOEXEC, 0) : -1);
}

Expected<void> Agent::MoveNotes() {
  auto created = node::NodeDirectory::Open(options_.run_dir, options_.node, options_.server);
  if (!created) return std::unexpected(created.error());
  // If a successor has taken over, KeepNodeOwner fails: the successor has read the notes already, and would not see new
  // ones. A successor that comes now waits until the notes are written.
  const auto ownership = created->KeepNodeOwner(own_.instance());
  if (!ownership) return std::unexpected(ownership.error());
  return own_.MoveNotesTo(*std::move(created));
}

void Agent::GiveWay() {
  std::call_once(replaced_once_, [this] {
    spdlog::warn("this agent stops serving the node instance={}", own_.instance());
    BeginStop();
    replaced_();
  });
}

Expected<void> Agent::LoadOnce() {
  // List the blocks only while this agent holds the ownership of the node: meanwhile no other agent can create a block
  // that the list lacks. A later agent waits until LoadOnce has ended, and then fences the blocks itself.
  if (!IsStillOurs()) return Fail(ErrorCode::kUnavailable, "another agent has taken over this node");
  const auto ownership = directory_.HoldNodeOwnership(own_.instance());
  if (!ownership) return std::unexpected(ownership.error());
  if (auto taken = TakeQueuedDels(); !taken) return taken;
  if (auto fenced = FenceOwnBlocks(); !fenced) return fenced;
  if (auto settled = SettleLeftIntents(); !settled) return settled;
  ReplayJournal();
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
  // Wait before the first fence: if this wait failed after the fences, the next attempt would write all fences again.
  if (!view_.WaitUntilListed(kStepMax)) {
    return Fail(ErrorCode::kUnavailable, "the agent could not list its pools and its Node in time");
  }
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
    MarkDeleted(attachment, call->started_nanos);
    // An ADD moves from running to answered, so ask in this order.
    const auto is_late = [&, started = call->started_nanos] {
      return gate_.IsNewerAddRunning(attachment, started) || gate_.WasNewerAddAnswered(attachment, started);
    };
    if (is_late()) continue;
    if (auto added = journal_->Add(attachment, node::FileSync::kNo); !added) return added;
    // Ask again: an ADD that began before the journal had the DEL does not know of it.
    if (auto removed = is_late() ? journal_->Remove(attachment) : Expected<void>(); !removed) return removed;
  }
  if (auto synced = journal_->Sync(); !synced) return synced;
  spdlog::info("read the queued DELs, which came while no agent ran count={}", calls->size());
  return queue->Clear();
}

}  // namespace berth::agent
