// SPDX-License-Identifier: Apache-2.0
// ScriptWorld: the simulated cluster in which a script (script.h) happens, and its commands.
//
// Agents, berth-direct, controllers and the models around them are those of World (world.h). Nothing is left to chance:
// a request arrives at once unless the script holds it back, and nobody does anything that the script does not say.
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

// Returns the script with what is seen under each command. If the history breaks a rule, that is what is seen last, as
// "BROKEN rule: how". In this process, which can run one simulation only; nobody cleans up after its processes. `name`
// is the file's, for errors. With `is_told` the history is printed as it happens (Story).
//
// Errors: kInvalid, with "name:line: " before it: a line is no command (the message lists all), or a command names what
// is not there.
[[nodiscard]] Expected<std::string> RunScript(const std::string& name, std::string_view text, bool is_told);

// The simulated world of one script, which RunScript builds.
class ScriptWorld {
 public:
  explicit ScriptWorld(bool is_told);

  // Outside of fibers; once.
  [[nodiscard]] Expected<std::string> Run(Script script);

 private:
  // Errors: kInvalid, for a person: what the command names is not there, or is none.
  using Done = Expected<void>;
  struct Command {
    std::string_view form;
    Done (ScriptWorld::*run)(const Words& words);
  };
  [[nodiscard]] static std::span<const Command> AllCommands();
  // Nullptr: the command is none.
  [[nodiscard]] static const Command* Find(const std::string& command, Words& words);

  [[nodiscard]] static Done Check(const Script& script);
  // Fills in what is seen. On a fiber; ends the history.
  void Main(Script& script);

  // A line to be seen under the command that runs.
  void Tell(const std::string& line);
  void Stored(const std::string& collection, const nlohmann::json& before, const nlohmann::json& after);
  [[nodiscard]] Expected<Machine*> FindMachine(const std::string& name) const;
  // Returns when the call is answered, or when a request is held back.
  void Call(const std::string& verb, const std::string& pod, Machine& machine);
  Done AddMachine(const std::string& called, const std::string& node, bool is_direct);

  Done Pool(const Words& words);
  Done NodeWithAgent(const Words& words) { return AddMachine(words.at("NODE"), words.at("NODE"), /*is_direct=*/false); }
  Done NodeWithDirect(const Words& words) { return AddMachine(words.at("NODE"), words.at("NODE"), /*is_direct=*/true); }
  Done Twin(const Words& words) { return AddMachine(words.at("MACHINE"), words.at("NODE"), /*is_direct=*/false); }
  Done Controller(const Words& words);
  Done StartScheduler(const Words& words);
  Done Add(const Words& words);
  Done Delete(const Words& words);
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
  std::map<std::string, Machine*> runs_on_;  // by pod
  int calls_ = 0;                            // that run
  std::vector<std::string> seen_;            // since the command began
  ScriptStep* step_ = nullptr;               // whose command runs
  std::string wrong_;                        // "line: what"; empty: nothing is
};

}  // namespace berth::sim
