// SPDX-License-Identifier: Apache-2.0
// Finds the requests and watches that a script holds back, and lets them wait.
#include "sim/script_answers.h"

#include <algorithm>
#include <string_view>

#include <spdlog/fmt/fmt.h>

#include "k8sclient/testing/model_request.h"
#include "sim/scheduler.h"

namespace berth::sim {

namespace {

// Whether `who` names the process: n1 names "n1.agent2", controller names "controller1".
bool IsBy(const std::string& process, const std::string& who) {
  if (!process.starts_with(who)) return false;
  const std::string_view rest = std::string_view(process).substr(who.size());
  return rest.empty() || rest.front() == '.' || rest.find_first_not_of("0123456789") == std::string_view::npos;
}

}  // namespace

Network::Steering ScriptAnswers::Steering() {
  return {.request = [this](const std::string& who, const auto& request) { return OnRequest(who, request); },
          .line = [this](const std::string& who, const auto& request) { OnLine(who, request); }};
}

Network::Fate ScriptAnswers::OnRequest(const std::string& who, const k8sclient::Request& request) {
  const auto target = k8sclient::testing::ParseTarget(request.path);
  const auto found = std::ranges::find_if(to_hold_, [&](const Asked& asked) {
    return asked.verb == ToString(request.method) && asked.resource == target.plural && IsBy(who, asked.who);
  });
  if (found == to_hold_.end()) return Network::Fate::kAnswered;
  const std::string by = found->who;
  to_hold_.erase(found);
  ++held_;
  tell_(fmt::format("{} of {} {} by {} is held", ToString(request.method), target.plural, target.name, by));
  static_cast<void>(AwaitAt(&held_));
  return Network::Fate::kAnswered;
}

void ScriptAnswers::LetGo() {
  held_ = 0;
  WakeAllAt(&held_);
}

void ScriptAnswers::OnLine(const std::string& who, const k8sclient::Request& request) {
  const std::string resource = k8sclient::testing::ParseTarget(request.path).plural;
  const auto is_held = [&] {
    return std::ranges::any_of(held_watches_,
                               [&](const Asked& asked) { return asked.resource == resource && IsBy(who, asked.who); });
  };
  while (is_held()) static_cast<void>(AwaitAt(&held_watches_));
}

bool ScriptAnswers::LetWatchGo(const Asked& asked) {
  const bool was_held = held_watches_.erase(asked) > 0;
  WakeAllAt(&held_watches_);
  return was_held;
}

}  // namespace berth::sim
