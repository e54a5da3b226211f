// SPDX-License-Identifier: Apache-2.0
// ScriptAnswers: requests and watches that a script holds back, where a history leaves them to chance.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "sim/network.h"

namespace berth::sim {

class ScriptAnswers {
 public:
  // What is asked for, and by whom.
  struct Asked {
    std::string verb = {};      // "PATCH"; of watches empty
    std::string resource = {};  // "ipblocks"
    std::string who = {};       // a machine, or "controller"
    friend auto operator<=>(const Asked&, const Asked&) = default;
  };
  // `tell` is called with a sentence for each request when it is held back. This must outlive the network's processes.
  explicit ScriptAnswers(std::function<void(const std::string&)> tell) : tell_(std::move(tell)) {}

  // For Network::Steer.
  [[nodiscard]] Network::Steering Steering();

  // The next such request waits on its way to the API server until LetGo.
  void HoldNext(const Asked& asked) { to_hold_.push_back(asked); }
  void LetGo();
  // So many requests are held back now.
  [[nodiscard]] int held() const { return held_; }
  // From now on such a watch shows nothing until LetWatchGo; then it shows all that came meanwhile.
  void HoldWatch(const Asked& asked) { held_watches_.insert(asked); }
  // False: it is not held back.
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
