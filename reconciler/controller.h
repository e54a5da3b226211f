// SPDX-License-Identifier: Apache-2.0
// Controller: round after round, looks at what was seen, decides and does it.
//
// A round never trusts an event, only the state; so a lost answer, a conflict or a restart at any line costs one more
// round. One thread runs it and owns the world.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <utility>

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
  // All must outlive this. Requires: api is one from which clock learns, as is that of the watches.
  Controller(k8sclient::Api& api, k8sclient::ServerClock& clock, Mailbox& mailbox, Metrics& metrics,
             Settings settings = {})
      : api_(api),
        clock_(clock),
        mailbox_(mailbox),
        metrics_(metrics),
        decider_(std::move(settings)),
        performer_(api, world_, memory_, metrics) {}
  Controller(const Controller&) = delete;
  Controller& operator=(const Controller&) = delete;

  // Told now and then from which version of the pods a successor has to look on, to know what this one knows of those
  // that vanished. Called by the thread that runs this. Set before Run.
  std::function<void(std::uint64_t version)> on_version = [](std::uint64_t) {};

  // Told after each decision how many addresses nodes have left, and when the world was read, if Settings::unrequested
  // is set. Called as on_version.
  std::function<void(extender::Snapshot rooms, const World& world, SteadyTime read_at)> on_rooms =
      [](const extender::Snapshot&, const World&, SteadyTime) {};

  // Returns when stop is requested.
  void Run(const std::stop_token& stop);

  // One round. Returns when the next is due even if nothing happens.
  [[nodiscard]] std::chrono::steady_clock::time_point RunRound(const std::stop_token& stop);

 private:
  [[nodiscard]] Moment Now();
  // Metrics of the world, and whether this machine's clock differs from the API server's.
  void Report();
  // After a decision: what need not be known any more of pods, and what people shall know.
  void AfterDecision(const Decision& decision, const Moment& now);
  // From which on it sees go who went and whose entries are not freed yet. As young as that allows: the API server
  // forgets.
  [[nodiscard]] std::uint64_t VersionForSuccessor(std::chrono::steady_clock::time_point now) const;
  // Does what may be tried. False: the API server is away, so the rest was not tried.
  bool PerformAll(const Decision& decision, const std::stop_token& stop);
  [[nodiscard]] bool WantsRelist(const Decision& decision);
  // Decides and acts on a relisted world.
  void RunRelisted(const Decision& unlisted, const std::stop_token& stop);
  // `server`: what waits if the API server is away.
  void HandleFailure(const ObjectKey& key, const Error& error, const ObjectKey& server);
  [[nodiscard]] std::chrono::steady_clock::time_point NextRound(const Decision& decision, bool did_something);

  k8sclient::Api& api_;
  k8sclient::ServerClock& clock_;
  Mailbox& mailbox_;
  Metrics& metrics_;
  World world_;
  Memory memory_;
  Decider decider_;
  Performer performer_;
  bool did_something_ = false;
  bool was_braked_ = false;
  std::chrono::steady_clock::time_point vanished_forgotten_;
  std::optional<std::chrono::steady_clock::time_point> looked_;  // what metrics say of the world
};

}  // namespace berth::reconciler
