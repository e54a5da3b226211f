// SPDX-License-Identifier: Apache-2.0
// Controllers: the simulated processes of berth-controller. Either all of them lead at the same time, because safety
// must not depend on the election, and at the end only one leads; or they elect a leader, as in a cluster.
#pragma once

#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "sim/network.h"
#include "sim/scheduler.h"
#include "sim/story.h"

namespace berth::sim {

class Controllers {
 public:
  // Both must outlive this.
  Controllers(Network& network, Story& story) : network_(network), story_(story) {}

  // From now on the controllers elect a leader, and a controller that ends by itself is started again. Requires: none
  // was started yet.
  void BeginElections();
  [[nodiscard]] bool has_elections() const { return has_elections_; }
  // Starts a controller. `clock_error`: how far its wall clock is ahead of the right time.
  void Start(Nanos clock_error);
  // Kills a random controller, as kill -9 does, and starts another one on another machine.
  void ReplaceOne(Nanos clock_error);
  // While held, the controllers' watches of pods show nothing.
  void HoldPodWatches(bool are_held);
  // Sets the wall clock of a random controller.
  void SetClock(Nanos error);
  // Without elections: kills all controllers but one, as an election would let only one lead. Two controllers that lead
  // overwrite each other's reports while they have not seen the same state for the same time.
  void LeaveOne();

  // With elections, these functions choose a random controller. EndOne: the controller is told to end (SIGTERM), and
  // another one starts. FreezeOne: its threads stop for `time`. CutOff: for `time` it reaches no API server or gets no
  // answers.
  void EndOne(Nanos clock_error);
  void FreezeOne(Nanos time);
  void CutOff(Link::State state, Nanos time);
  // No controller is frozen or cut off.
  [[nodiscard]] bool AreWell() const { return troubled_ == 0; }
  // The API server stored an object; `after` is null if the object is gone. Watches the Lease for the rule
  // `one-leader`: only the controller that holds the Lease writes.
  void Stored(const std::string& collection, const nlohmann::json& after);
  // Checks the rule `leads`: a controller leads, and another one leads after the leader was killed or told to end.
  // Requires: no fault happens.
  void CheckSuccession();

  // Requests of all controllers that were ever started.
  [[nodiscard]] std::uint64_t requests() const;
  [[nodiscard]] std::size_t count() const { return running_.size(); }
  // Number of controllers that were started so far.
  [[nodiscard]] std::uint64_t starts() const { return all_.size(); }

 private:
  struct Controller;
  void Run(Controller& one);
  [[nodiscard]] Controller* Any() const;
  void Kill(Controller& one);
  void CheckLeads(const Controller& one);
  // Starts the controllers again that have ended by themselves.
  void Supervise();
  [[nodiscard]] Controller* Leader() const;
  // Returns when a leader renews the Lease. Breaks rule `leads` if that takes longer than `most`.
  void AwaitLeader(Nanos most, const std::string& why);

  Network& network_;
  Story& story_;
  std::vector<std::shared_ptr<Controller>> all_;  // never destroyed: nobody cleans up after a killed process
  std::vector<Controller*> running_;
  bool has_elections_ = false;
  int troubled_ = 0;
  std::string holder_;   // holder of the Lease
  Nanos held_since_{0};  // when holder_ last changed
  Nanos renewed_{0};     // when the Lease was last written
};

}  // namespace berth::sim
