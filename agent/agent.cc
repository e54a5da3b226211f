// SPDX-License-Identifier: Apache-2.0
// The agent's CNI calls: from the request body to the reply.
#include "agent/agent.h"

#include <set>
#include <utility>

#include <nlohmann/json.hpp>
#include <spdlog/spdlog.h>

#include "agent/call_runtime.h"
#include "base/mutex.h"
#include "cni/args.h"
#include "cni/error.h"
#include "cni/forward.h"
#include "crds/object_meta.h"
#include "k8sclient/verbs.h"
#include "node/folder.h"
#include "node/ipam_call.h"
#include "node/netns.h"
#include "node/node_mode.h"

namespace berth::agent {

namespace {

constexpr std::size_t kInstanceDigits = 12;
// A block whose patches get no answer may use at most a quarter of a GC's time.
constexpr int kGarbageShares = 4;
// Two agents of a node estimate the API server's time with an error of about 1 s each. If a GC was sent before this
// agent was ready, the GC frees no address that was taken less than 10 s before the GC was sent, or later: an earlier
// agent may have answered the ADD of such an address after the GC was sent. (For its own ADDs, this agent knows the
// time since boot of each answer.)
constexpr std::chrono::seconds kEstimatesDiffer{10};

Reply ErrorReply(const Error& error, cni::Version version) {
  return {.ok = false, .is_new = false, .body = cni::ErrorJson(error, version), .hold = {}, .take_back = {}};
}

// False: there is an intent, or the intents cannot be read.
bool HasNoIntent(AgentStore& store, const ipam::Attachment& attachment) {
  const auto intents = store.ReadOpenIntents(attachment);
  return intents && intents->empty();
}

}  // namespace

bool IsAway(ErrorCode code) {
  return code == ErrorCode::kUnavailable || code == ErrorCode::kUnknownOutcome || code == ErrorCode::kTimeout ||
         code == ErrorCode::kUnauthenticated;
}

struct Agent::Call {
  const cni::Environment& environment;
  const cni::NetworkConfig& config;
  std::int64_t started_nanos;
  SteadyTime deadline;
  AgentStore& store;
  node::IpamCall& ipam;
};

// Counts a call: Drain waits until all CountedCalls are destroyed.
class Agent::CountedCall {
 public:
  explicit CountedCall(Agent& agent) : agent_(agent) { agent_.metrics_.SetCallsWaiting(++agent_.calls_); }
  CountedCall(const CountedCall&) = delete;
  CountedCall& operator=(const CountedCall&) = delete;
  ~CountedCall() {
    const std::size_t left = --agent_.calls_;
    agent_.metrics_.SetCallsWaiting(left);
    if (left > 0) return;
    const Lock lock(agent_.mutex_);
    // Notify only while draining: otherwise each call would wake the maintenance loop.
    if (agent_.draining_) agent_.changed_.notify_all();
  }

 private:
  Agent& agent_;
};

Expected<std::unique_ptr<Agent>> Agent::Make(k8sclient::Api& api, k8sclient::Clock& clock, AgentOptions options,
                                             std::function<void()> replaced) {
  auto directory = node::NodeDirectory::Open(options.run_dir, options.node, options.server);
  if (!directory) return std::unexpected(directory.error());
  auto state = node::Folder::Open(options.state_dir);
  if (!state) return std::unexpected(state.error());
  if (auto mode = node::RequireMode(*state, node::NodeMode::kAgent); !mode) return std::unexpected(mode.error());
  const auto machine = node::MachineName(*state);
  if (!machine) return std::unexpected(machine.error());
  Files files{.instance = *machine + "-" + node::RandomDigits(kInstanceDigits),
              .directory = *std::move(directory),
              .state = *std::move(state)};
  return std::unique_ptr<Agent>(new Agent(api, clock, std::move(options), std::move(replaced), std::move(files)));
}

Agent::Agent(k8sclient::Api& api, k8sclient::Clock& clock, AgentOptions options, std::function<void()> replaced,
             Files files)
    : server_clock_(clock),
      dated_api_(api, server_clock_),
      options_(std::move(options)),
      replaced_(std::move(replaced)),
      directory_(std::move(files.directory)),
      state_(std::move(files.state)),
      own_(api_, clock_, directory_,
           {.self = {.node = options_.node,
                     .instance = std::move(files.instance),
                     .may_have_netns =
                         [this](const std::string& netns) {
                           return node::LookForNetns(options_.netns_dir, netns) != node::NetnsState::kGone;
                         }},
            .standby = options_.standby},
           *this),
      view_(api_, clock_, options_.node, [this] { Wake(); }) {}

Agent::~Agent() {
  BeginStop();
  own_.Stop();
  // The loader starts maintenance_, so end the loader before maintenance_ is destroyed.
  loader_.request_stop();
  if (loader_.joinable()) loader_.join();
  // The flusher's thread delivers the last results of deferred changes, and uses the other members for that.
  if (flusher_.joinable()) flusher_.join();
}

void Agent::Start() {
  view_.Start();
  flusher_ = std::jthread([this] { own_.RunFlusher(); });
  loader_ = std::jthread([this](const std::stop_token& stop) { Load(stop); });
}

void Agent::BeginStop() {
  const Lock lock(mutex_);
  stopping_ = true;
  changed_.notify_all();
}

bool Agent::IsReady() const {
  const Lock lock(mutex_);
  return ready_ && !stopping_;
}

Expected<void> Agent::WaitUntilReady(SteadyTime deadline) {
  Lock lock(mutex_);
  const bool done =
      changed_.wait_until(lock.native(), deadline, [this]() BERTH_REQUIRES(mutex_) { return ready_ || stopping_; });
  if (stopping_)
    return Fail(ErrorCode::kUnavailable, "the node's berth-agent is shutting down", "the runtime tries the call again");
  if (done) return {};
  return NotLoaded(ErrorCode::kUnavailable);
}

std::unexpected<Error> Agent::NotLoaded(ErrorCode code) const {
  return Fail(code,
              "the node's berth-agent has not loaded its blocks yet",
              load_error_.empty() ? "the runtime tries the call again" : load_error_);
}

Reply Agent::Busy() {
  return ErrorReply({.code = ErrorCode::kUnavailable,
                     .message = "the node's berth-agent accepts no more calls: its queue is full",
                     .details = "the runtime tries the call again; is the API server slow?"},
                    cni::kNewestVersion);
}

Reply Agent::Handle(std::string_view body) {
  try {
    return HandleChecked(body);
  } catch (const std::exception& thrown) {
    // No code throws on purpose. If one call meets a bug or a lack of memory, the other calls must go on. (OwnBlocks
    // ends the process if sending a patch throws: nobody would know which part of a change was made.)
    spdlog::error("a call met a bug, please report it err=\"{}\"", thrown.what());
    return ErrorReply({.code = ErrorCode::kInternal,
                       .message = "the node's berth-agent met a bug: " + Quoted(thrown.what()),
                       .details = "please report this bug with the agent's log; the runtime may try the call again"},
                      cni::kNewestVersion);
  }
}

Reply Agent::HandleChecked(std::string_view body) {
  auto call = cni::ParseForwardedCall(body);
  if (!call) return ErrorReply(call.error(), cni::kNewestVersion);
  auto config = cni::ParseConfig(call->config, call->environment.verb);
  if (!config) return ErrorReply(config.error(), cni::VersionForErrors(call->config));
  call->config.reset();  // saves memory while the call waits for the API server
  if (options_.reads_pods && call->environment.verb == cni::Verb::kAdd && config->annotations.empty()) {
    if (auto read = ReadPodAnnotations(call->environment, *config); !read) {
      return ErrorReply(read.error(), config->version);
    }
  }
  const CountedCall counted(*this);
  return Serve(call->environment, *config, call->started_nanos);
}

Reply Agent::Serve(const cni::Environment& environment, const cni::NetworkConfig& config, std::int64_t started_nanos) {
  const auto begin = clock_.Now();
  // The time limit of a call counts from the start of the plugin's process.
  const std::chrono::nanoseconds waited(std::max<std::int64_t>(0, node::BootTimeNow() - started_nanos));
  CallRuntime runtime(
      clock_, begin - std::chrono::duration_cast<SteadyTime::duration>(waited), config.ipam.timeout, own_);
  AgentStore store(Parts(), runtime, runtime.end());
  node::IpamCall ipam(environment, config, store, runtime);
  Call call{.environment = environment,
            .config = config,
            .started_nanos = started_nanos,
            .deadline = runtime.end(),
            .store = store,
            .ipam = ipam};
  auto reply = Dispatch(call);
  if (!reply && reply.error().code == ErrorCode::kForbidden && IsReady()) {
    // The agent could load its blocks, so it has the RBAC permission. The API server has probably just started: for
    // some seconds it answers 403 to permitted requests.
    reply.error().code = ErrorCode::kUnavailable;
  }
  const auto took = clock_.Now() - begin;
  const std::string verb(cni::ToString(environment.verb));
  const std::uint32_t code = reply ? 0 : CniCode(reply.error().code);
  metrics_.Call(verb, code, took);
  const auto took_us = std::chrono::duration_cast<std::chrono::microseconds>(took).count();
  if (reply) {
    spdlog::debug("call done verb={} network={} container={} interface={} attachment={} answer={} took_us={}",
                  verb,
                  config.name,
                  environment.container_id,
                  environment.ifname,
                  ipam.attachment(),
                  reply->body,
                  took_us);
    return *std::move(reply);
  }
  LogFailed(environment, config.name, reply.error(), took);
  return ErrorReply(reply.error(), config.version);
}

Expected<Reply> Agent::Dispatch(Call& call) {
  const auto silent = [](const Expected<void>& outcome) -> Expected<Reply> {
    if (!outcome) return std::unexpected(outcome.error());
    return Reply{.ok = true, .is_new = false, .body = {}, .hold = {}, .take_back = {}};
  };
  switch (call.environment.verb) {
    case cni::Verb::kAdd:
      return Add(call);
    case cni::Verb::kDel:
      return silent(Del(call));
    case cni::Verb::kCheck:
      return silent(Check(call));
    case cni::Verb::kGc: {
      if (auto ready = WaitUntilReady(call.deadline); !ready) return std::unexpected(ready.error());
      call.store.LimitEdits(std::chrono::milliseconds(call.config.ipam.timeout) / kGarbageShares);
      const auto was_running = [&](const ipam::Attachment& attachment) {
        return gate_.WasAddRunning(attachment, call.started_nanos);
      };
      const auto listed_ms = [&] {
        const auto now =
            clock_.WallNow() - (call.started_nanos < ready_since_ ? kEstimatesDiffer : kEstimatesDiffer.zero());
        return node::StartMillis(now, node::BootTimeNow() - call.started_nanos);
      };
      return silent(call.ipam.CollectGarbage(listed_ms, was_running, [] { return std::vector<ipam::Attachment>(); }));
    }
    case cni::Verb::kStatus:
      // A restart of the agent or a short outage of the API server must not make the node NotReady.
      if (IsReady() || HasLoadedSinceBoot()) return silent({});
      {
        const Lock lock(mutex_);
        return NotLoaded(ErrorCode::kNotReady);
      }
    case cni::Verb::kAbout:
    case cni::Verb::kVersion:
      break;
  }
  return Fail(ErrorCode::kEnvironment, "berth-agent does not serve this verb");
}

Expected<Reply> Agent::Add(Call& call) {
  const ipam::Attachment& attachment = call.ipam.attachment();
  auto request = call.ipam.MakeAddRequest();
  if (!request) return std::unexpected(request.error());
  request->netns = NetnsToRecord(call.environment.netns);
  const auto running = gate_.HoldAdd(attachment, call.started_nanos);
  if (auto ready = WaitUntilReady(call.deadline); !ready) return std::unexpected(ready.error());
  // The turn lasts until the caller has the answer or the address is freed, so no other ADD of this attachment gets an
  // address that is about to be freed.
  const auto turn = gate_.Enter(attachment, call.deadline);
  if (turn == nullptr) return Fail(ErrorCode::kTimeout, "another call of this container did not end in time");
  const auto deleted = directory_.DeletedAt(attachment);
  if (!deleted) return std::unexpected(deleted.error());
  if (*deleted && call.started_nanos < **deleted) {
    return Fail(ErrorCode::kTimeout, "a DEL of this container came after this ADD was started: nothing is allocated");
  }
  if (journal_->Contains(attachment)) {
    if (quarantine_.MayHold(attachment)) {
      return Fail(ErrorCode::kUnavailable,
                  "an earlier DEL of this container waits for a quarantined block",
                  "the runtime tries the call again; the agent's log names the block and what is wrong with it");
    }
    // An address that an earlier container with the same ID left must not count as this container's address.
    if (auto done = call.ipam.engine().Del(attachment); !done) {
      return std::unexpected(done.error().Within("an earlier DEL of this container is not written yet"));
    }
    if (auto removed = journal_->Remove(attachment); !removed) return std::unexpected(removed.error());
  }
  if (auto free = quarantine_.MustNotHold(attachment, call.deadline); !free) return std::unexpected(free.error());
  if (!is_away_) call.store.HandOutStandby();
  const std::uint64_t known = own_.Generation();
  auto answer = call.ipam.Add(*request);
  if (!answer && answer.error().code == ErrorCode::kExhausted && FoundBlocks(known, call.deadline)) {
    answer = call.ipam.Add(*request);
  }
  if (!answer) {
    if (answer.error().code == ErrorCode::kUnavailable) is_away_ = true;
    if (call.store.leaves_unknown_block()) {
      wants_resync_ = true;
      Wake();
    }
    return std::unexpected(answer.error());
  }
  if (warm_blocks_.NeedsRound()) Wake();
  gate_.NoteAnswered(running, node::BootTimeNow());
  const auto take_back = [this, attachment, turn, limit = call.config.ipam.timeout] {
    CallRuntime runtime(clock_, clock_.Now(), limit, own_);
    AgentStore store(Parts(), runtime, runtime.end());
    const auto done = ipam::Engine(store, runtime).Del(attachment);
    if (done) return;
    spdlog::warn(
        "no caller received the answer to an ADD, and the agent cannot free the address now: the journal gets a DEL "
        "attachment={} err=\"{}\"",
        attachment,
        done.error().message);
    if (auto added = WriteDown(attachment, node::FileSync::kYes); !added) {
      spdlog::error("cannot write the journal err=\"{}\"", added.error().message);
    }
  };
  return Reply{.ok = true,
               .is_new = answer->is_new,
               .body = std::move(answer->text),
               .hold = std::make_shared<std::pair<AttachmentGate::HeldAdd, std::shared_ptr<void>>>(running, turn),
               .take_back = answer->is_new ? std::function<void()>(take_back) : nullptr};
}

Expected<void> Agent::Check(Call& call) {
  if (auto ready = WaitUntilReady(call.deadline); !ready) return std::unexpected(ready.error());
  // After this turn begins, an earlier DEL is either written or in the journal.
  const auto turn = gate_.Enter(call.ipam.attachment(), call.deadline);
  if (turn == nullptr) return Fail(ErrorCode::kTimeout, "another call of this container did not end in time");
  if (journal_->Contains(call.ipam.attachment())) return call.ipam.HoldsNothing();
  const bool may_hold = quarantine_.MayHold(call.ipam.attachment());
  auto checked = call.ipam.Check();
  if (checked || !may_hold || checked.error().code != ErrorCode::kNothingHeld) return checked;
  return Fail(ErrorCode::kUnavailable,
              "a quarantined block of this node may hold the container's address",
              "the agent's log names the block and what is wrong with it");
}

Expected<void> Agent::Del(Call& call) {
  const ipam::Attachment& attachment = call.ipam.attachment();
  const auto journal = [&] { return WriteDown(attachment, node::FileSync::kYes); };
  MarkDeleted(attachment, call.started_nanos);
  const auto turn = gate_.Enter(attachment, call.deadline);
  // This DEL must not free an address that a later ADD got or will get.
  const bool is_late = turn == nullptr ? gate_.IsNewerAddRunning(attachment, call.started_nanos)
                                       : gate_.WasNewerAddAnswered(attachment, call.started_nanos);
  if (is_late) return {};
  // If an ADD has the turn, it started before this DEL: the journal later frees what the ADD takes.
  if (turn == nullptr) return journal();
  if (!IsReady()) {
    // The blocks are not loaded: wait up to 5 s for a restart that is nearly over, but do not wait if the API server is
    // away.
    if (is_away_) return journal();
    if (!WaitUntilReady(std::min(call.deadline, clock_.Now() + std::chrono::seconds(5)))) {
      GoAway();
      return journal();
    }
  }
  const bool may_be_quarantined = quarantine_.MayHold(attachment);
  if (HoldsNothing(call.store, attachment)) return ConcludeFreed(attachment, may_be_quarantined);
  if (is_away_) return journal();
  const auto done = Release(call.store, call.ipam.engine(), attachment, turn, nullptr);
  if (done) return done;
  // kIo: a file under /run/berth cannot be written, such as the intent that a write of a Shared block needs.
  if (!IsAway(done.error().code) && done.error().code != ErrorCode::kIo) return done;
  if (IsAway(done.error().code)) GoAway();
  return journal();
}

bool Agent::HoldsNothing(AgentStore& store, const ipam::Attachment& attachment) const {
  const auto shows_nothing = [&] { return !own_.Holds(attachment) && view_.HasNoneInShared(attachment); };
  // Look in the blocks again: if a write was settled between the first two looks, only the blocks now show it.
  return shows_nothing() && HasNoIntent(store, attachment) && shows_nothing();
}

Expected<void> Agent::Release(AgentStore& store, ipam::Engine& engine, const ipam::Attachment& attachment,
                              std::shared_ptr<void> turn, DeferredEdits::Then then) {
  const bool may_be_quarantined = quarantine_.MayHold(attachment);
  // The edits that settle intents must not be deferred. If the intents cannot be read, the engine reports the error.
  bool is_written_first = !own_.Holds(attachment) || !HasNoIntent(store, attachment);
  if (!is_written_first && (may_be_quarantined || !journal_->Contains(attachment))) {
    // If a quarantined block may hold the attachment, the DEL stays in the journal, and has to survive a power cut.
    const auto added = WriteDown(attachment, may_be_quarantined ? node::FileSync::kYes : node::FileSync::kNo);
    if (!added && added.error().code != ErrorCode::kIo) {
      if (then) then(added.error());
      return added;
    }
    if (!added) spdlog::error("cannot write the journal err=\"{}\"", added.error().message);
    is_written_first = !added;  // for example, the disk is full
  }
  if (is_written_first) {
    auto written = engine.Del(attachment);
    if (written) written = ConcludeFreed(attachment, may_be_quarantined);
    if (then) then(written ? std::nullopt : std::optional(written.error()));
    return written;
  }
  const auto deferred = std::make_shared<DeferredEdits>(
      [this, attachment, may_be_quarantined, turn = std::move(turn), then = std::move(then)](
          const std::optional<Error>& failure) {
        if (!failure && !may_be_quarantined) static_cast<void>(journal_->Remove(attachment));
        if (failure && !is_away_) {
          spdlog::warn("cannot write an answered DEL to the API server, trying again attachment={} err=\"{}\"",
                       attachment,
                       failure->message);
        }
        if (failure && IsAway(failure->code)) GoAway();
        if (then) then(failure);
      });
  store.DeferEdits(deferred);
  auto released = engine.Del(attachment);
  deferred->End(released ? std::nullopt : std::optional(released.error()));
  return released;
}

void Agent::GoAway() {
  is_away_ = true;
  if (!has_taken_over_) return;
  if (auto synced = journal_->Sync(); !synced)
    spdlog::error("cannot write the journal err=\"{}\"", synced.error().message);
}

Expected<void> Agent::ReadPodAnnotations(const cni::Environment& environment, cni::NetworkConfig& config) const {
  const auto args = cni::ParseArgs(environment.args);
  // CNI_ARGS names no pod, or is malformed. Add reports malformed arguments.
  if (!args || args->pod_namespace.empty() || args->pod_name.empty()) return {};
  const auto pod =
      k8sclient::Get(api_,
                     k8sclient::Path({"api", "v1", "namespaces", args->pod_namespace, "pods", args->pod_name}),
                     k8sclient::CallOptions::Within(
                         std::min<std::chrono::milliseconds>(config.ipam.timeout / 2, std::chrono::seconds(20))),
                     k8sclient::kPartialMetadata);
  if (!pod) return std::unexpected(pod.error().Within("read the pod's annotations"));
  const auto meta = crds::ParseObjectMeta(*pod, "Pod");
  if (!meta) return std::unexpected(meta.error().Within("read the pod's annotations"));
  auto annotations = crds::ParseAnnotations(*pod, "Pod");
  if (!annotations) return std::unexpected(annotations.error().Within("read the pod's annotations"));
  // For a static pod the GET returns the mirror pod: its annotation has the UID that the kubelet passes to the runtime.
  const bool is_its = meta->uid == args->pod_uid || (*annotations)["kubernetes.io/config.mirror"] == args->pod_uid;
  if (!args->pod_uid.empty() && !is_its) {
    return Fail(
        ErrorCode::kUnavailable,
        "pod " + args->pod_namespace + "/" + args->pod_name + " has been replaced by another pod of the same name");
  }
  for (auto& [name, value] : *annotations) {
    if (name.starts_with(cni::kAnnotationPrefix)) config.annotations[name] = std::move(value);
  }
  return {};
}

Expected<void> Agent::ConcludeFreed(const ipam::Attachment& attachment, bool may_be_quarantined) {
  if (may_be_quarantined) return WriteDown(attachment, node::FileSync::kYes);
  if (auto ownership = directory_.HoldNodeOwnership(own_.instance()); !ownership)
    return std::unexpected(ownership.error());
  static_cast<void>(journal_->Remove(attachment));
  return {};
}

Expected<void> Agent::WriteDown(const ipam::Attachment& attachment, node::FileSync sync) {
  if (!has_taken_over_) {
    const Lock lock(mutex_);
    return NotLoaded(ErrorCode::kUnavailable);
  }
  // If a successor owns the node, it has already read the journal, and would never see this line.
  const auto ownership = directory_.HoldNodeOwnership(own_.instance());
  if (!ownership) return std::unexpected(ownership.error());
  return journal_->Add(attachment, sync);
}

void Agent::Wake() {
  const Lock lock(mutex_);
  is_woken_ = true;
  changed_.notify_all();
}

}  // namespace berth::agent
