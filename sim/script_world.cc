// SPDX-License-Identifier: Apache-2.0
// Builds the simulated cluster, records what happens in it, and runs the commands.
#include "sim/script_world.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <utility>

#include <nlohmann/json.hpp>
#include <spdlog/fmt/fmt.h>

#include "crds/names.h"
#include "reconciler/read_holders.h"
#include "sim/checkers.h"
#include "sim/scheduler.h"

namespace berth::sim {

using nlohmann::json;

namespace {

constexpr Nanos kScriptMax = std::chrono::hours(3);

std::unexpected<Error> Wrong(const std::string& why) { return Fail(ErrorCode::kInvalid, why); }

bool IsUnschedulable(const json& pod) {
  const json conditions = pod.value("/status/conditions"_json_pointer, json::array());
  return std::ranges::any_of(conditions, [](const json& one) { return one.value("reason", "") == "Unschedulable"; });
}

}  // namespace

ScriptWorld::ScriptWorld(bool is_told) : story_(is_told) {
  checkers_ = MakeCheckers(story_);
  network_.Add(server_);
  network_.Steer(answers_.Steering());
  store_.OnStore([this](const std::string& collection, const json& before, const json& after) {
    server_.Learn(std::make_shared<const ApiServer::Change>(collection, before, after));
    controllers_.Stored(collection, after);
    counted_.Stored(collection, before, after);
    scheduler_.Stored(collection, before, after);
    if (collection == crds::kPoolsPath) {
      for (const auto& checker : checkers_) checker->PoolStored(before, after);
    }
    if (collection == crds::kBlocksPath) {
      story_.TellBlock(before, after);
      for (const auto& checker : checkers_) checker->Stored(before, after);
    }
    Stored(collection, before, after);
  });
  store_.OnUnchanged([this](const k8sclient::Request& request) { counted_.Unchanged(request); });
}

void ScriptWorld::Tell(const std::string& line) {
  story_.Tell("SEEN " + line);
  seen_.push_back(line);
  WakeAllAt(&seen_);
}

void ScriptWorld::Stored(const std::string& collection, const json& before, const json& after) {
  const json& object = after.is_null() ? before : after;
  const std::string name = object["metadata"]["name"];
  if (collection == reconciler::kNodesPath && !after.is_null()) {
    const auto number = NumberOf(after);
    if (number == (before.is_null() ? std::nullopt : NumberOf(before))) return;
    Tell(name + (number ? fmt::format(" shows {}", *number) : " shows no number"));
  } else if (collection == crds::kBlocksPath && (before.is_null() || after.is_null())) {
    Tell(fmt::format(
        "block {} of {} is {}", name, object["spec"].value("node", "all"), after.is_null() ? "gone" : "there"));
  } else if (collection == reconciler::kPodsPath && !before.is_null() && !after.is_null()) {
    if (NodeOf(before).empty() && !NodeOf(after).empty()) Tell(name + " is bound to " + NodeOf(after));
    if (!IsUnschedulable(before) && IsUnschedulable(after)) Tell(name + " is unschedulable");
  }
}

std::span<const ScriptWorld::Command> ScriptWorld::AllCommands() {
  static constexpr std::array kCommands{
      Command{"pool POOL SUBNET with blocks of COUNT addresses", &ScriptWorld::Pool},
      Command{"node NODE with an agent", &ScriptWorld::NodeWithAgent},
      Command{"node NODE with berth-direct", &ScriptWorld::NodeWithDirect},
      Command{"machine MACHINE with an agent is also called NODE", &ScriptWorld::Twin},
      Command{"controller", &ScriptWorld::Controller},
      Command{"controllers elect a leader", &ScriptWorld::Elections},
      Command{"kill the controller and start another", &ScriptWorld::ReplaceController},
      Command{"scheduler", &ScriptWorld::StartScheduler},
      Command{"block CIDR of POOL for NODE", &ScriptWorld::MakeBlock},
      Command{"delete block BLOCK", &ScriptWorld::DeleteBlock},
      Command{"add POD on MACHINE", &ScriptWorld::Add},
      Command{"delete POD", &ScriptWorld::Delete},
      Command{"end POD without a DEL", &ScriptWorld::EndWithoutDel},
      Command{"pod POD requests COUNT on NODE", &ScriptWorld::Requests},
      Command{"bind POD to NODE", &ScriptWorld::Bind},
      Command{"hold the next VERB of RESOURCE by WHO", &ScriptWorld::Hold},
      Command{"let it go", &ScriptWorld::LetGo},
      Command{"hold the watch of RESOURCE by WHO", &ScriptWorld::HoldWatch},
      Command{"let the watch of RESOURCE by WHO go", &ScriptWorld::LetWatchGo},
      Command{"wait COUNT seconds", &ScriptWorld::Wait},
      Command{"wait until EVENT", &ScriptWorld::WaitUntil},
      Command{"show numbers", &ScriptWorld::ShowNumbers},
      Command{"show blocks", &ScriptWorld::ShowBlocks},
      Command{"count the requests of MACHINE for a minute", &ScriptWorld::CountRequests},
  };
  return kCommands;
}

const ScriptWorld::Command* ScriptWorld::Find(const std::string& command, Words& words) {
  for (const Command& one : AllCommands()) {
    auto found = Match(one.form, command);
    if (!found) continue;
    words = *std::move(found);
    return &one;
  }
  return nullptr;
}

ScriptWorld::Done ScriptWorld::Check(const Script& script) {
  for (const ScriptStep& step : script.steps) {
    Words words;
    if (Find(step.command, words) != nullptr) continue;
    std::string forms;
    for (const Command& one : AllCommands()) forms += "\n    " + std::string(one.form);
    return Wrong(fmt::format("{}: \"{}\" is no command. Commands are:{}", step.line, step.command, forms));
  }
  return {};
}

void ScriptWorld::Main(Script& script) {
  for (ScriptStep& step : script.steps) {
    step_ = &step;
    Words words;
    const Command& command = *Find(step.command, words);
    const Done done = (this->*command.run)(words);
    step.seen = std::exchange(seen_, {});
    if (done) continue;
    wrong_ = fmt::format("{}: {}: {}", step.line, step.command, done.error().message);
    break;
  }
  Stop();
}

Expected<std::string> ScriptWorld::Run(Script script) {
  if (auto checked = Check(script); !checked) return std::unexpected(checked.error());
  for (ScriptStep& step : script.steps) step.seen.clear();
  Spawn(std::make_shared<Process>("script"), [this, &script] { Main(script); });
  const Ended ended = sim::Run(kScriptMax);
  if (!wrong_.empty()) return Wrong(wrong_);
  if (ended != Ended::kStopped) story_.Break("goes-on", "the command does not end");
  for (const auto& broken : story_.broken()) seen_.push_back(fmt::format("BROKEN {}: {}", broken.rule, broken.how));
  if (!story_.broken().empty()) step_->seen = std::move(seen_);
  return ToText(script);
}

Expected<std::string> RunScript(const std::string& name, std::string_view text, bool is_told) {
  const auto named = [&](const Error& error) { return Wrong(name + ":" + error.message); };
  auto script = ParseScript(text);
  if (!script) return named(script.error());
  BeginWithoutChance();
  // The world is never destroyed: nobody cleans up after its processes.
  auto* const world = new ScriptWorld(is_told);  // NOLINT(cppcoreguidelines-owning-memory)
  auto shown = world->Run(*std::move(script));
  return shown ? shown : named(shown.error());
}

}  // namespace berth::sim
