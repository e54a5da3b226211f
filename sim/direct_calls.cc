// SPDX-License-Identifier: Apache-2.0
// Runs calls of berth-direct, and handles answers that nobody reads.
#include "sim/direct_calls.h"

#include <functional>
#include <map>
#include <string_view>
#include <thread>
#include <utility>

#include <nlohmann/json.hpp>

#include "cni-plugin/direct_call.h"
#include "cni/config.h"
#include "cni/environment.h"
#include "cni/error.h"
#include "node/folder.h"
#include "node/node_mode.h"
#include "sim/network.h"

namespace berth::sim {

using nlohmann::json;

struct DirectCalls::Running {
  ProcessPointer process;
  std::optional<CniAnswer> answer;
  bool is_abandoned = false;
  bool is_unnoticed = false;
};

DirectCalls::DirectCalls(Options options, k8sclient::Api& api, Story& story)
    : options_(std::move(options)), api_(api), story_(story) {
  const auto state = node::Folder::Open(options_.folder + "/state");
  if (!state || !node::WriteMode(*state, node::NodeMode::kDirect)) story_.Break("starts", "the mode is not written");
}

void DirectCalls::Serve(Running& running, const std::string& body, const CallMoments& moments) {
  const json said = json::parse(body);
  const auto environment = cni::ParseEnvironment([&said](const char* name) -> const char* {
    static const std::map<std::string, std::string, std::less<>> kMembers{{"CNI_COMMAND", "command"},
                                                                          {"CNI_CONTAINERID", "containerID"},
                                                                          {"CNI_IFNAME", "ifname"},
                                                                          {"CNI_NETNS", "netns"},
                                                                          {"CNI_ARGS", "args"}};
    const auto member = kMembers.find(std::string_view(name));
    if (member != kMembers.end()) return said[member->second].get_ref<const std::string&>().c_str();
    return std::string_view(name) == "CNI_PATH" ? "/opt/cni/bin" : nullptr;
  });
  json config_json = said["config"];
  config_json["ipam"]["agentSocket"] = options_.folder + "/run/agent.sock";
  config_json["ipam"]["stateDir"] = options_.folder + "/state";
  const auto config = cni::ParseConfig(config_json.dump(), environment->verb);
  auto state = node::Folder::Open(options_.folder + "/state");
  auto directory = node::NodeDirectory::Open(options_.folder + "/run", options_.node, "https://model");
  if (!environment || !state || !directory) return story_.Break("starts", "a call of berth-direct");
  if (!config) {
    running.answer = {.ok = false, .body = cni::ErrorJson(config.error(), cni::kNewestVersion)};
    return;
  }
  // The API outlives every process.
  cni_plugin::DirectCall call(*environment,
                              *config,
                              said["startedBootNanos"],
                              {.node = options_.node,
                               .state = *std::move(state),
                               .directory = *std::move(directory),
                               .api = std::shared_ptr<k8sclient::Api>(std::shared_ptr<void>(), &api_)});
  const auto text = call.Serve();
  if (moments.is_answered) moments.is_answered();
  if (!text) {
    running.answer = {.ok = false, .body = cni::ErrorJson(text.error(), config->version)};
  } else if (running.is_abandoned && !running.is_unnoticed && !text->empty()) {
    static_cast<void>(call.TakeBackAdd());
  } else {
    running.answer = {.ok = true, .body = *text};
    if (!text->empty()) call.AnswerDelivered();
  }
}

std::optional<CniAnswer> DirectCalls::Call(const std::string& body, std::chrono::microseconds patience,
                                           const CallMoments& moments) {
  const auto running = std::make_shared<Running>();
  running->process = std::make_shared<Process>(options_.node + ".direct" + std::to_string(++started_));
  const bool is_slow = options_.slow_one_in > 0 && Below(options_.slow_one_in) == 0;
  if (is_slow) running->process->pauses_one_in = kPausesOneIn;
  running->process->clock_error = options_.clock_error;
  running_.push_back(running);
  Spawn(running->process, [this, running, body, moments] {
    std::this_thread::sleep_for(std::chrono::microseconds(Below(Below(8) == 0 ? 60'000 : 1'000)));
    if (moments.arrives) moments.arrives();
    Serve(*running, body, moments);
    std::erase(running_, running);
  });
  const Nanos begin = Now();
  while (!running->answer && !running->process->is_dead && Now() - begin <= patience) {
    std::this_thread::sleep_for(std::chrono::microseconds(100 + Below(400)) + (Now() - begin) / 32);
  }
  if (running->answer || running->process->is_dead) return running->answer;
  // Some runtimes kill a plugin for which they do not wait any more. Others let it print an answer that nobody reads.
  // In half of these cases the plugin notices that.
  running->is_abandoned = true;
  running->is_unnoticed = Below(2) == 0;
  if (Below(2) == 0) {
    sim::Kill(*running->process);
    std::erase(running_, running);
  }
  return std::nullopt;
}

void DirectCalls::Kill() {
  for (const auto& running : running_) {
    story_.Tell("kills " + running->process->name);
    sim::Kill(*running->process);
  }
  running_.clear();
}

}  // namespace berth::sim
