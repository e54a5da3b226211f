// SPDX-License-Identifier: Apache-2.0
// Controllers: berth-controller as processes, of which several may lead at a time: who leads does not matter for
// safety, so the simulator elects nobody; in the calm one leads.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sim/network.h"
#include "sim/scheduler.h"
#include "sim/story.h"

namespace berth::sim {

class Controllers {
 public:
  // Both must outlive this.
  Controllers(Network& network, Story& story) : link_(network), story_(story) {}

  // `clock_error`: what the wall clock of its machine shows more than the right one.
  void Start(Nanos clock_error);
  // Kills any controller, as kill -9 does, and starts another one on another machine.
  void ReplaceOne(Nanos clock_error);
  // Somebody sets the clock of any.
  void SetClock(Nanos error);
  // As the election sees to within seconds. Two that lead write over what the other reports, for as long as they have
  // not seen the same for the same time.
  void LeaveOne();
  [[nodiscard]] std::uint64_t requests() const { return link_.requests(); }
  [[nodiscard]] std::size_t count() const { return running_.size(); }
  // Number of controllers that were started so far.
  [[nodiscard]] std::uint64_t starts() const { return started_; }

 private:
  Link link_;
  Story& story_;
  struct Running {
    ProcessPointer process;
    std::shared_ptr<Nanos> clock_error;
  };
  std::vector<Running> running_;
  std::uint64_t started_ = 0;
};

}  // namespace berth::sim
