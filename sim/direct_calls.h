// SPDX-License-Identifier: Apache-2.0
// DirectCalls: berth-direct on a machine that has no agent, one process for each call.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "k8sclient/api.h"
#include "sim/scheduler.h"
#include "sim/story.h"

namespace berth::sim {

// The text that a CNI plugin prints.
struct CniAnswer {
  bool ok = false;
  std::string body;
  bool is_durable = false;  // no power cut can undo what the answer says
};

// Functions that are called, if they are set, at certain moments of a call.
struct CallMoments {
  std::function<void()> arrives = {};      // an agent, berth-direct or a queue on disk has the call
  std::function<void()> is_answered = {};  // an agent or berth-direct has finished the call; its caller may not know
};

class DirectCalls {
 public:
  struct Options {
    std::string node;
    std::string folder;                                  // has the folders run/ and state/
    std::uint64_t slow_one_in = 0;                       // one of this many processes is paused now and then; 0: none
    std::shared_ptr<const Nanos> clock_error = nullptr;  // the machine's (Process::clock_error)
  };
  // `api` and `story` must outlive this. Sets the machine's mode to direct.
  DirectCalls(Options options, k8sclient::Api& api, Story& story);

  // nullopt: the process was killed, or the caller lost patience.
  [[nodiscard]] std::optional<CniAnswer> Call(const std::string& body, std::chrono::microseconds patience,
                                              const CallMoments& moments = {});
  // Kills all calls that run.
  void Kill();
  [[nodiscard]] bool IsIdle() const { return running_.empty(); }

 private:
  struct Running;
  void Serve(Running& running, const std::string& body, const CallMoments& moments);

  const Options options_;
  k8sclient::Api& api_;
  Story& story_;
  std::vector<std::shared_ptr<Running>> running_;
  int started_ = 0;
};

}  // namespace berth::sim
