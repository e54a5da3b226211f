// SPDX-License-Identifier: Apache-2.0
// Controllers: berth-controller as processes. Either all of them lead at a time, since who leads does not matter for
// safety, and in the calm one leads; or they elect a leader, as in a cluster.
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

  // From now on they elect a leader, and one that ends by itself is started again. Before the first start.
  void BeginElections();
  [[nodiscard]] bool has_elections() const { return has_elections_; }
  // `clock_error`: what the wall clock of its machine shows more than the right one.
  void Start(Nanos clock_error);
  // Kills any controller, as kill -9 does, and starts another one on another machine.
  void ReplaceOne(Nanos clock_error);
  // Somebody sets the clock of any.
  void SetClock(Nanos error);
  // If they do not elect: as the election sees to within seconds. Two that lead write over what the other reports, for
  // as long as they have not seen the same for the same time.
  void LeaveOne();

  // With elections. Any of them: it is told to end, and another one starts; its threads stop for so long, and go on; it
  // reaches no API server, or hears of none, for so long.
  void EndOne(Nanos clock_error);
  void FreezeOne(Nanos time);
  void CutOff(Link::State state, Nanos time);
  // None is frozen or cut off.
  [[nodiscard]] bool AreWell() const { return troubled_ == 0; }
  // The API server stored an object; null: it is gone. Rule `one-leader`: who leads by the Lease writes, and nobody
  // else.
  void Stored(const std::string& collection, const nlohmann::json& after);
  // Rule `leads`: there is a leader, and when it is killed or ends, there is another. Requires: nothing goes wrong.
  void CheckSuccession();

  // By all that were ever started.
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
  // Starts again what has ended.
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
  std::string holder_;   // by the Lease
  Nanos held_since_{0};  // by that holder
  Nanos renewed_{0};     // the Lease was written last
};

}  // namespace berth::sim
