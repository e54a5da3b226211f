// SPDX-License-Identifier: Apache-2.0
// Runs the passes, and performs the actions of each decision.
#include "reconciler/controller.h"

#include <algorithm>
#include <map>
#include <ranges>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <spdlog/spdlog.h>

#include "reconciler/decide_numbers.h"
#include "reconciler/relist.h"

namespace berth::reconciler {

namespace {

using std::chrono::steady_clock;

// Pause between two passes. So if every node of a cluster writes blocks all the time, the controller makes at most five
// passes a second.
constexpr std::chrono::milliseconds kPassPause{200};
constexpr std::chrono::milliseconds kPassPeriodMax{60'000};
constexpr std::chrono::milliseconds kCallMax{10'000};
// Time limit of a background request (IsBackground), for which no other action waits. The API server serves requests
// about IPAllocations after all other requests of berth (install/base/flow-control.yaml).
constexpr std::chrono::milliseconds kBackgroundCallMax{2'000};
// If the API server does not answer the request of an action, this action waits 2 s longer than the other actions.
constexpr std::chrono::milliseconds kAfterOthers{2'000};
// A request that fails after this time or later counts as hanging. This time is a little less than 2 s, the shortest
// time limit of a request.
constexpr std::chrono::milliseconds kHangsFrom{1'900};
// If an action hangs, all actions of its kind wait at least this many times as long as its request took. So the hanging
// actions of one kind take at most a third of the controller's time.
constexpr int kHangingFactor = 2;
// A Node whose patch failed comes after the other Nodes until its wait has been over for this time. If the API server
// did not answer a patch of a Node, a patch of any Node must also have succeeded since.
constexpr std::chrono::seconds kFailureCounts{10};
// Pause of all patches of Nodes after the limit was reached (NodePatches).
constexpr std::chrono::milliseconds kAfterPatches{100};
// Time that a pass spends on one kind of background actions.
constexpr std::chrono::milliseconds kBackgroundPerPass{500};
// Time that a pass spends on changes of blocks, and the same time again on deletions of blocks. Before a change or
// deletion, the controller may list the pods of a node, which takes seconds on a busy API server.
constexpr std::chrono::milliseconds kBlocksPerPass{10'000};
constexpr std::chrono::milliseconds kRelistMax{60'000};
// Pause for an object after its deletion: the answer to a deletion does not contain the object's new version, and only
// the watch shows this version.
constexpr std::chrono::milliseconds kAfterDeletion{200};
// Pause for an object after a relist that led to no action on the object.
constexpr std::chrono::milliseconds kAfterRelist{1000};
// Period of the metrics that are computed from all blocks.
constexpr std::chrono::milliseconds kLookPeriod{5'000};
// How long the controller remembers the deletion of a pod that no entry names. An entry of the pod may become visible
// only after the deletion.
constexpr std::chrono::minutes kVanishedKept{2};
// Time after which a new leader has seen all changes of pods since the version that the previous leader left.
constexpr std::chrono::minutes kPodsOldMax{2};
// The next leader sees all pod deletions of this time before the handover. This time is short, because the API server
// serves watches only from versions of about the last minute. If held entries name pods that may be gone (suspects),
// the next leader may begin at an older version (VersionForSuccessor).
constexpr std::chrono::seconds kVanishedHandedOver{15};

// Back-off keys that name no object.
constexpr const char* kServerKey = "server";
constexpr const char* kRelistKey = "relist";

// True for an action for which no other action of the same decision waits.
bool IsBackground(const Action& action) {
  return std::holds_alternative<CreateAllocation>(action) || std::holds_alternative<DeleteAllocation>(action) ||
         std::holds_alternative<ShowNumbers>(action) || std::holds_alternative<ListPods>(action);
}

// Time that a pass spends on actions of this action's kind. Actions that come again and again, such as the status of a
// pool, have no limit. With a limit, each pass would perform the same first actions, and never the last ones.
steady_clock::duration PartOf(const Action& action) {
  if (IsBackground(action)) return kBackgroundPerPass;
  const bool is_of_block = std::holds_alternative<ChangeBlock>(action) || std::holds_alternative<DeleteBlock>(action);
  return is_of_block ? kBlocksPerPass : steady_clock::duration::max();
}

// The back-off key of all actions of one kind.
ObjectKey KindKey(const Action& action) {
  if (std::holds_alternative<CreateAllocation>(action) || std::holds_alternative<DeleteAllocation>(action))
    return kAllocationsKey;
  return "kind " + std::to_string(action.index());
}

// True if the next request would fail too, for any object.
bool IsServerAway(ErrorCode code) {
  return code == ErrorCode::kUnavailable || code == ErrorCode::kTimeout || code == ErrorCode::kUnauthenticated;
}

}  // namespace

// The back-off keys of a request.
struct Controller::Keys {
  ObjectKey object;
  ObjectKey kind;                 // waits if the request hangs
  ObjectKey server = kServerKey;  // waits if the API server does not answer
};

Now Controller::ReadClock() {
  const auto since_epoch = clock_.WallNow().time_since_epoch();
  return {.unix_ms = std::chrono::duration_cast<std::chrono::milliseconds>(since_epoch).count(),
          .steady = clock_.Now()};
}

void Controller::BeginWithOldPods() {
  state_.pods_are_old_until = clock_.Now() + kPodsOldMax;
  knows_nodes_without_numbers_ = false;
}

void Controller::NoteNodesWithoutNumbers() {
  if (knows_nodes_without_numbers_ || !world_.knows_holders) return;
  knows_nodes_without_numbers_ = true;
  for (const auto& [name, node] : world_.nodes.all()) {
    if (node.numbers.empty()) state_.without_numbers.insert(name);
  }
}

void Controller::Run(const std::stop_token& stop) {
  auto next = clock_.Now();
  while (mailbox_.WaitUntil(next, stop)) {
    next = RunPass(stop);
    if (!clock_.Sleep(kPassPause, stop)) return;
  }
}

steady_clock::time_point Controller::RunPass(const std::stop_token& stop) {
  mailbox_.FetchInto(world_, clock_.Now());
  if (!mailbox_.IsLoaded()) return clock_.Now() + kPassPeriodMax;
  NoteNodesWithoutNumbers();
  did_something_ = false;
  const Now now = ReadClock();
  performer_.SettleDoubts(now, k8sclient::CallOptions::Within(kCallMax, stop));
  Decision decision = decider_.Decide(world_, state_, now, /*relisted=*/false);
  // The extender gets the snapshot before any Node is patched, because the patch makes the scheduler ask again.
  if (auto snapshot = std::exchange(decision.extender_snapshot, std::nullopt))
    on_extender_snapshot(*std::move(snapshot), world_, now.steady);
  AfterDecision(decision, now);
  if (state_.backoff.MayTry(kServerKey, now.steady) && PerformAll(decision, stop) && WantsRelist(decision))
    RunRelisted(decision, stop);
  const auto end = clock_.Now();
  metrics_.PassEnded(end - now.steady, decision);
  if (!looked_ || end - *looked_ >= kLookPeriod) {
    looked_ = end;
    Report();
  }
  return NextPass(decision, did_something_);
}

void Controller::Report() {
  metrics_.Look(world_);
  if (const auto difference = clock_.Difference()) metrics_.SetClockDifference(*difference);
  const auto news = clock_.TakeNews();
  if (news) spdlog::log(news->is_wrong ? spdlog::level::warn : spdlog::level::info, "{}", news->text);
}

void Controller::AfterDecision(const Decision& decision, const Now& now) {
  std::set<ObjectKey> wanted;
  for (const Action& action : decision.actions) wanted.insert(KeyOf(action));
  state_.backoff.Forget(now.steady, wanted);
  state_.freed.clear();
  world_.pods.ForgetTouched();
  world_.allocations.ForgetTouched();
  if (decision.orphans.is_braked != was_braked_) {
    was_braked_ = decision.orphans.is_braked;
    std::size_t unseen = 0;
    for (const auto& [pool, count] : decision.orphans.unseen) unseen += count;
    if (was_braked_) {
      spdlog::error(
          "very many entries name pods that do not exist and whose deletion the controller did not see, so the "
          "controller frees no address count={}",
          unseen);
    } else {
      spdlog::info("the controller frees orphans again");
    }
  }
  std::erase_if(state_.pods_listed, [&](const auto& item) { return item.second.at + kNextList < now.steady; });
  if (world_.knows_holders) {
    std::erase_if(state_.without_numbers, [&](const auto& name) { return world_.nodes.Find(name) == nullptr; });
    std::erase_if(state_.numbers_written, [&](const auto& item) { return world_.nodes.Find(item.first) == nullptr; });
  }
  on_version(VersionForSuccessor(now.steady));
  if (now.steady - vanished_forgotten_ < kVanishedKept) return;
  vanished_forgotten_ = now.steady;
  std::set<PastPod> suspected;
  for (const auto& [key, suspect] : decider_.suspects().all()) suspected.insert(PastPodOf(suspect.entry));
  world_.pods.ForgetVanished(now.steady - kVanishedKept, [&](const PastPod& pod) { return suspected.contains(pod); });
}

std::uint64_t Controller::VersionForSuccessor(steady_clock::time_point now) const {
  std::uint64_t version = world_.pods.VersionToBeginWith(now - kVanishedHandedOver);
  for (const auto& [key, suspect] : decider_.suspects().all()) {
    const std::uint64_t was_there = world_.pods.VersionOfVanished(PastPodOf(suspect.entry), now - kVanishedKept);
    if (was_there != 0) version = std::min(version, was_there);
  }
  return version;
}

std::vector<const Action*> Controller::InOrder(const Decision& decision) const {
  using Order = std::tuple<bool, steady_clock::time_point, steady_clock::time_point>;
  std::vector<std::pair<Order, const Action*>> in_order;
  in_order.reserve(decision.actions.size());
  const auto now = clock_.Now();
  for (const Action& action : decision.actions) {
    // An address count may depend on a list of pods that grows old, so the counts are written first, even after a
    // conflict, in the order of decide_numbers.h.
    const bool is_number = std::holds_alternative<ShowNumbers>(action);
    auto waited_until = state_.backoff.NotBefore(KeyOf(action));
    const bool is_over = waited_until < now - kFailureCounts && !state_.backoff.HasFailed(KindKey(action));
    if (is_number && is_over) waited_until = steady_clock::time_point::min();
    // Actions of a kind whose requests hang come last, even after the wait of this kind has ended.
    const Order order(!is_number, state_.backoff.NotBefore(KindKey(action)), waited_until);
    in_order.emplace_back(order, &action);
  }
  std::ranges::stable_sort(in_order, {}, &std::pair<Order, const Action*>::first);
  const auto actions = std::views::elements<1>(in_order);
  return {actions.begin(), actions.end()};
}

bool Controller::PerformAll(const Decision& decision, const std::stop_token& stop) {
  std::map<ObjectKey, steady_clock::duration> spent;  // by kind
  int hung = 0;                                       // kinds of actions that hang
  for (const Action* const one : InOrder(decision)) {
    if (stop.stop_requested()) return false;
    const Action& action = *one;
    const Now now = ReadClock();
    const bool is_background = IsBackground(action);
    Keys keys{.object = KeyOf(action), .kind = KindKey(action)};
    // If the API server does not answer a background action, it may only be busy with requests that matter more.
    if (is_background) keys.server = keys.kind;
    if (!state_.backoff.MayTry(keys.object, now.steady) || !state_.backoff.MayTry(keys.kind, now.steady)) continue;
    if (spent[keys.kind] > PartOf(action)) continue;
    if (std::holds_alternative<ShowNumbers>(action) && !state_.node_patches.Take(now.steady)) {
      state_.backoff.Pause(keys.kind, kAfterPatches, now.steady);
      continue;
    }
    const auto limit = is_background ? kBackgroundCallMax : kCallMax;
    const auto done = performer_.Perform(action, now, k8sclient::CallOptions::Within(limit, stop));
    spent[keys.kind] += clock_.Now() - now.steady;
    if (!done) {
      const bool hangs = HandleFailure(keys, done.error(), now.steady);
      if (is_background) continue;
      // If actions of two kinds hang, assume that all other actions will hang too.
      if (hangs ? ++hung > 1 : IsServerAway(done.error().code)) return false;
      continue;
    }
    did_something_ = true;
    for (const ObjectKey& key : {keys.object, keys.kind, ObjectKey(kServerKey)}) state_.backoff.Succeeded(key);
    const bool is_deletion = std::holds_alternative<DeleteBlock>(action) || std::holds_alternative<DeleteSpace>(action);
    if (is_deletion) state_.backoff.Pause(keys.object, kAfterDeletion, now.steady);
  }
  return true;
}

bool Controller::WantsRelist(const Decision& decision) {
  const auto now = clock_.Now();
  if (state_.backoff.NotBefore(kRelistKey) > now) return false;
  return std::ranges::any_of(decision.wants_relist,
                             [&](const ObjectKey& key) { return state_.backoff.MayTry(key, now); });
}

void Controller::RunRelisted(const Decision& unlisted, const std::stop_token& stop) {
  const auto began = clock_.Now();
  const auto relisted = Relist(api_, world_, unlisted.wants_relist, k8sclient::CallOptions::Within(kRelistMax, stop));
  if (!relisted) {
    HandleFailure({.object = kRelistKey, .kind = "kind relist"}, relisted.error(), began);
    return;
  }
  state_.backoff.Succeeded(kRelistKey);
  const Decision decision = decider_.Decide(world_, state_, ReadClock(), /*relisted=*/true);
  state_.freed.clear();
  std::set<ObjectKey> acted_on;
  for (const Action& action : decision.actions) acted_on.insert(KeyOf(action));
  for (const ObjectKey& key : unlisted.wants_relist) {
    if (!acted_on.contains(key)) state_.backoff.Pause(key, kAfterRelist, clock_.Now());
  }
  // The controller has already tried the actions of `unlisted`. The actions of `decision` are about the objects as they
  // are now.
  static_cast<void>(PerformAll(decision, stop));
}

bool Controller::HandleFailure(const Keys& keys, Error error, SteadyTime began) {
  const auto now = clock_.Now();
  const bool is_passing = error.code == ErrorCode::kConflict || error.code == ErrorCode::kNotFound ||
                          error.code == ErrorCode::kAlreadyExists;
  const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(now - began);
  const bool hangs = took >= kHangsFrom;
  // If one background write gets no answer, assume that the next hundred will get none.
  const bool is_away =
      IsServerAway(error.code) || (error.code == ErrorCode::kUnknownOutcome && keys.server != kServerKey);
  std::chrono::milliseconds wait{};
  if (hangs) {
    error.retry_after = std::max(error.retry_after, kHangingFactor * took);
    wait = state_.backoff.Failed(keys.object, error, now);
    if (keys.server == keys.kind) {
      // The next background action is likely to hang too, whatever object it is about.
      state_.backoff.Failed(keys.kind, error, now);
    } else {
      state_.backoff.Pause(keys.kind, kHangingFactor * took, now);
    }
  } else {
    wait = state_.backoff.Failed(is_away ? keys.server : keys.object, error, now);
    // This action waits longer than all other actions (key `server`), so that the controller tries another action
    // first.
    if (is_away) state_.backoff.Pause(keys.object, wait + kAfterOthers, now);
  }
  if (!is_passing) metrics_.WriteFailed(berth::ToString(error.code));
  const auto level = is_passing ? spdlog::level::debug : spdlog::level::warn;
  spdlog::log(level,
              "write failed object={} err={} code={} wait_ms={}",
              keys.object,
              Quoted(error.message),
              berth::ToString(error.code),
              wait.count());
  return hangs;
}

steady_clock::time_point Controller::NextPass(const Decision& decision, bool did_something) {
  const Now now = ReadClock();
  if (did_something) return now.steady;
  auto next = now.steady + kPassPeriodMax;
  if (decision.wake_steady) next = std::min(next, *decision.wake_steady);
  if (decision.wake_unix_ms) {
    const std::chrono::milliseconds distance(*decision.wake_unix_ms - now.unix_ms);
    next = std::min(next, now.steady + std::clamp(distance, std::chrono::milliseconds(0), kPassPeriodMax));
  }
  if (const auto retry = state_.backoff.Next(now.steady)) next = std::min(next, *retry);
  return next;
}

}  // namespace berth::reconciler
