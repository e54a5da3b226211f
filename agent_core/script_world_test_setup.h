// SPDX-License-Identifier: Apache-2.0
// For tests only: ScriptWorld has a core and the API server's copies of its blocks. Commands of scripts drive it
// (README.md has a table of the commands).
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "agent_core/core.h"
#include "agent_core/core_test_setup.h"
#include "base/error.h"

namespace berth::agent_core {

using ScriptWords = std::vector<std::string>;

class ScriptWorld {
 public:
  ScriptWorld();

  // Carries out a command. Returns the lines to show. The first line begins with "error: " if the command does not
  // exist or is not possible now; a line begins with "BROKEN: " if an invariant does not hold.
  std::vector<std::string> Run(const std::string& command);

 private:
  struct AskedFor {
    std::string name;  // "a1"
    std::string what;  // "take", "release", "mark", "hand-out", "nothing"
  };
  struct AtServer {
    ipam::Block stored;
    std::optional<Step> asked;  // the request or pause that the core asked for
    Now asked_at;
  };
  using Handler = void (ScriptWorld::*)(const ScriptWords& words);
  struct Command {
    std::string_view first_word;
    Handler handler;
  };
  static const std::vector<Command>& Commands();

  // Handlers of the commands. words[0] is the command's own first word.
  void StartAgent(const ScriptWords& words);
  void TakeOver(const ScriptWords& words);
  void Use(const ScriptWords& words);
  void Submit(const ScriptWords& words);
  void Withdraw(const ScriptWords& words);
  void HandOut(const ScriptWords& words);
  void Resume(const ScriptWords& words);
  void WriteWhatIsLeft(const ScriptWords& words);
  void Begin(const ScriptWords& words);
  void Written(const ScriptWords& words);
  void Lose(const ScriptWords& words);
  void FailRequest(const ScriptWords& words);
  void AnswerRead(const ScriptWords& words);
  void Others(const ScriptWords& words);
  void Seen(const ScriptWords& words);
  void Gone(const ScriptWords& words);
  void Stop(const ScriptWords& words);
  void Wait(const ScriptWords& words);
  void Prove(const ScriptWords& words);
  void LoseNetns(const ScriptWords& words);
  void Show(const ScriptWords& words);

  void Say(const std::string& line) { lines_.push_back(line); }
  void Complain(const std::string& why) { lines_.insert(lines_.begin(), "error: " + why); }
  void Tell(const News& news);
  void Tell(const Report& report);
  void Tell(const Outcome& outcome);
  // Asks the core for its next step, and shows the step.
  void Proceed();
  void Answer(const Expected<ipam::BlockView>& answer);
  template <typename Wanted>
  [[nodiscard]] const Wanted* AskedTo(std::string_view what);
  void ShowState(const BlockState& state);
  void ShowForeignAgent(const BlockState& state);
  [[nodiscard]] std::string ShownPending(const PendingChange& one) const;
  // Changes `block` as the words say: "version=9", "standby=1-2", "agent=m-x.1", "10.55.0.1=a1", ...
  void Edit(const ScriptWords& words, std::size_t first, ipam::Block& block);
  // Stores `block` at the API server, with the next version unless the block has a version of its own.
  void Store(ipam::Block block);
  [[nodiscard]] static std::string ErrorText(const Error& error);

  [[nodiscard]] AtServer& Here() { return server_.at(current_); }
  [[nodiscard]] Core::StatePointer State() const { return states_.at(current_); }

  ipam::PoolView pool_ = TestPoolView();
  std::set<std::string> ended_netns_;  // all others exist
  Core core_;
  Now now_{.steady = SteadyTime(std::chrono::hours(1)), .since_boot = std::chrono::hours(1)};
  std::map<std::string, AtServer> server_;            // by name of the block
  std::map<std::string, Core::StatePointer> states_;  // by name; includes blocks that the core has forgotten
  std::string current_;                               // the block that the commands are about
  std::map<ChangeId, AskedFor> asked_for_;
  std::uint64_t last_version_ = 0;
  std::vector<std::string> lines_;
};

}  // namespace berth::agent_core
