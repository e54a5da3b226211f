// SPDX-License-Identifier: Apache-2.0
// Controller: works in passes. In each pass it looks at the state that the watches have shown, decides, and writes.
//
// A pass depends only on the state, never on an event. So after a lost answer, a conflict or a restart at any line, the
// next pass decides again. One thread runs the controller and owns the world.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <utility>
#include <vector>

#include "extender/choice.h"
#include "k8sclient/api.h"
#include "k8sclient/server_clock.h"
#include "reconciler/decide.h"
#include "reconciler/mailbox.h"
#include "reconciler/metrics.h"
#include "reconciler/perform.h"
#include "reconciler/world.h"

namespace berth::reconciler {

class Controller {
 public:
  // All arguments must outlive this. Requires: `clock` learns the API server's time from `api` and from the api of the
  // watches.
  Controller(k8sclient::Api& api, k8sclient::ServerClock& clock, Mailbox& mailbox, Metrics& metrics,
             Settings settings = {})
      : api_(api),
        clock_(clock),
        mailbox_(mailbox),
        metrics_(metrics),
        decider_(std::move(settings)),
        performer_(api, clock, world_, state_, metrics) {
    state_.node_patches = NodePatches(decider_.settings().patches_per_second);
  }
  Controller(const Controller&) = delete;
  Controller& operator=(const Controller&) = delete;

  // Called after the first decision of each pass, with the resourceVersion from which the next leader has to watch pods
  // to see every deletion of a pod that still matters (VersionForSuccessor). Called by the thread of Run. Set before
  // Run.
  std::function<void(std::uint64_t version)> on_version = [](std::uint64_t) {};

  // Tells the controller that the watch of pods begins at the version that a previous leader left. Call before Run.
  void BeginWithOldPods();

  // If Settings::unrequested is set: called after the first decision of each pass with the addresses that nodes have
  // left, the world, and the time at which the world was read. Called by the thread of Run. Set before Run.
  std::function<void(extender::Snapshot snapshot, const World& world, SteadyTime read_at)> on_extender_snapshot =
      [](const extender::Snapshot&, const World&, SteadyTime) {};

  // Runs passes until stop is requested.
  void Run(const std::stop_token& stop);

  // Runs one pass. Returns when the next pass is due if nothing happens before.
  [[nodiscard]] std::chrono::steady_clock::time_point RunPass(const std::stop_token& stop);

 private:
  [[nodiscard]] Now ReadClock();
  // Updates the metrics of the world. Logs when this machine's clock begins or ceases to differ from the API server's.
  void Report();
  // Notes the Nodes that show no count, once after this controller has become the leader: the previous leader may have
  // written an event that says so.
  void NoteNodesWithoutNumbers();
  // Runs after the first decision of a pass: forgets what later decisions do not need, logs when the brake on freeing
  // orphans changes, and calls on_version.
  void AfterDecision(const Decision& decision, const Now& now);
  // The resourceVersion from which a successor must watch pods to see every deletion of the last 15 s, and every
  // deletion of the last 2 minutes whose entry is not freed yet. The version is as new as possible, because the API
  // server forgets old versions.
  [[nodiscard]] std::uint64_t VersionForSuccessor(std::chrono::steady_clock::time_point now) const;
  // Sorts the actions. Address counts come before all other actions. Apart from that, the order is by the time at which
  // the wait of the action's kind ends, and then by the time at which the wait of the action's object ends. Equal
  // actions keep the decision's order.
  [[nodiscard]] std::vector<const Action*> InOrder(const Decision& decision) const;
  // Performs the actions of InOrder that the back-off allows. False: PerformAll has left out the rest, because the API
  // server does not answer, actions of two kinds hang, or stop is requested.
  bool PerformAll(const Decision& decision, const std::stop_token& stop);
  [[nodiscard]] bool WantsRelist(const Decision& decision);
  // Lists the objects again, decides on the relisted world, and performs the actions.
  void RunRelisted(const Decision& unlisted, const std::stop_token& stop);
  struct Keys;
  // Sets the back-off after a failed request that began at `began`. True: the request hung.
  bool HandleFailure(const Keys& keys, Error error, SteadyTime began);
  [[nodiscard]] std::chrono::steady_clock::time_point NextPass(const Decision& decision, bool did_something);

  k8sclient::Api& api_;
  k8sclient::ServerClock& clock_;
  Mailbox& mailbox_;
  Metrics& metrics_;
  World world_;
  ControllerState state_;
  Decider decider_;
  Performer performer_;
  bool did_something_ = false;
  bool was_braked_ = false;
  bool knows_nodes_without_numbers_ = true;
  std::chrono::steady_clock::time_point vanished_forgotten_;
  std::optional<std::chrono::steady_clock::time_point> looked_;  // when the metrics of the world were last updated
};

}  // namespace berth::reconciler
