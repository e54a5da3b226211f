// SPDX-License-Identifier: Apache-2.0
// ScriptAnswers: the requests and watches that a script holds back. In histories from seeds, this is random.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "sim/network.h"

namespace berth::sim {

class ScriptAnswers {
 public:
  // A kind of request, and the program that sends it.
  struct Asked {
    std::string verb = {};      // "PATCH"; empty: a watch
    std::string resource = {};  // "ipblocks"
    std::string who = {};       // a machine, or "controller"
    friend auto operator<=>(const Asked&, const Asked&) = default;
  };
  // `tell` is called with a sentence when a request is held back. This object must outlive the network's processes.
  explicit ScriptAnswers(std::function<void(const std::string&)> tell) : tell_(std::move(tell)) {}

  // The functions that Network::Steer takes.
  [[nodiscard]] Network::Steering Steering();

  // Holds back the next request of this kind on its way to the API server, until LetGo.
  void HoldNext(const Asked& asked) { to_hold_.push_back(asked); }
  void LetGo();
  // Number of requests that are held back now.
  [[nodiscard]] int held() const { return held_; }
  // Holds such watches back until LetWatchGo. Then they show everything that came meanwhile.
  void HoldWatch(const Asked& asked) { held_watches_.insert(asked); }
  // False: such a watch is not held back.
  bool LetWatchGo(const Asked& asked);

 private:
  Network::Fate OnRequest(const std::string& who, const k8sclient::Request& request);
  void OnLine(const std::string& who, const k8sclient::Request& request);

  std::function<void(const std::string&)> tell_;
  std::vector<Asked> to_hold_;
  int held_ = 0;
  std::set<Asked> held_watches_;
};

}  // namespace berth::sim
