// SPDX-License-Identifier: Apache-2.0
// ScriptWorld: the simulated cluster in which a script (script.h) runs, and the commands of scripts.
//
// Agents, berth-direct, controllers and the models around them are the same as in World (world.h). Nothing is random: a
// request arrives at once unless the script holds it back, and only the script causes events.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/error.h"
#include "k8sclient/testing/model_api.h"
#include "sim/api_server.h"
#include "sim/cluster.h"
#include "sim/controllers.h"
#include "sim/counted.h"
#include "sim/kube_scheduler.h"
#include "sim/machine.h"
#include "sim/network.h"
#include "sim/script.h"
#include "sim/script_answers.h"
#include "sim/story.h"

namespace berth::sim {

// Runs the script in this process, which can run one simulation only. Returns the script with the output of each
// command. If the history breaks a rule, the last output line is "BROKEN rule: how". Simulated processes are never
// cleaned up. `name` is the file's name, for errors. `is_told`: the history is printed while it runs (Story).
//
// Errors: kInvalid, and the message begins with "name:line: ". A line is no command (the message lists all commands),
// or a command names something that does not exist.
[[nodiscard]] Expected<std::string> RunScript(const std::string& name, std::string_view text, bool is_told);

// The simulated world of one script. RunScript makes it.
class ScriptWorld {
 public:
  explicit ScriptWorld(bool is_told);

  // Runs the script. Called once, outside of fibers.
  [[nodiscard]] Expected<std::string> Run(Script script);

 private:
  // Errors: kInvalid, with text for a person: the command names something that does not exist or is not valid.
  using Done = Expected<void>;
  struct Command {
    std::string_view form;
    Done (ScriptWorld::*run)(const Words& words);
  };
  [[nodiscard]] static std::span<const Command> AllCommands();
  // The command, and its words; nullptr: no form matches.
  [[nodiscard]] static const Command* Find(const std::string& command, Words& words);

  [[nodiscard]] static Done Check(const Script& script);
  // Runs the commands and stores their output. Runs on a fiber, and ends the history.
  void Main(Script& script);

  // Adds an output line of the running command.
  void Tell(const std::string& line);
  void Stored(const std::string& collection, const nlohmann::json& before, const nlohmann::json& after);
  [[nodiscard]] Expected<Machine*> FindMachine(const std::string& name) const;
  // Sends a call. Returns when the call is answered, or when a request is held back.
  void Call(const std::string& verb, const std::string& pod, Machine& machine);
  Done AddMachine(const std::string& called, const std::string& node, bool is_direct);

  Done Pool(const Words& words);
  Done NodeWithAgent(const Words& words) { return AddMachine(words.at("NODE"), words.at("NODE"), /*is_direct=*/false); }
  Done NodeWithDirect(const Words& words) { return AddMachine(words.at("NODE"), words.at("NODE"), /*is_direct=*/true); }
  Done Twin(const Words& words) { return AddMachine(words.at("MACHINE"), words.at("NODE"), /*is_direct=*/false); }
  Done Controller(const Words& words);
  Done Elections(const Words& words);
  Done ReplaceController(const Words& words);
  Done StartScheduler(const Words& words);
  Done Add(const Words& words);
  Done Delete(const Words& words);
  Done EndWithoutDel(const Words& words);
  Done MakeBlock(const Words& words);
  Done DeleteBlock(const Words& words);
  Done Requests(const Words& words);
  Done Bind(const Words& words);
  Done Hold(const Words& words);
  Done LetGo(const Words& words);
  Done HoldWatch(const Words& words);
  Done LetWatchGo(const Words& words);
  Done Wait(const Words& words);
  Done WaitUntil(const Words& words);
  Done ShowNumbers(const Words& words);
  Done ShowBlocks(const Words& words);
  Done CountRequests(const Words& words);

  Story story_;
  k8sclient::testing::ModelApi store_;
  ApiServer server_{store_, "apiserver"};
  Network network_{story_};
  Cluster cluster_{store_, story_};
  Controllers controllers_{network_, story_};
  Counted counted_{store_, story_};
  KubeScheduler scheduler_{store_, counted_, story_};
  Kubelet::Checkers checkers_;
  ScriptAnswers answers_{[this](const std::string& line) { Tell(line); }};
  Machines machines_;
  std::vector<std::string> pools_;
  std::map<std::string, Pod> pods_;
  std::map<std::string, Machine*> runs_on_;  // machine of each pod
  int calls_ = 0;                            // calls that run
  std::vector<std::string> seen_;            // output since the command began
  ScriptStep* step_ = nullptr;               // the step whose command runs
  std::string wrong_;                        // "line: what is wrong"; empty: nothing
};

}  // namespace berth::sim
