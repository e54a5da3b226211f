// SPDX-License-Identifier: Apache-2.0
// Runs agents as processes of a node.
#include "sim/node.h"

#include <algorithm>
#include <array>
#include <fcntl.h>
#include <thread>
#include <unistd.h>
#include <utility>

#include <nlohmann/json.hpp>
#include <spdlog/fmt/fmt.h>

#include "k8sclient/clock.h"
#include "node/del_queue.h"
#include "node/folder.h"
#include "node/node_mode.h"
#include "sim/files.h"

namespace berth::sim {

using namespace std::chrono_literals;
using nlohmann::json;

// Time from the moment a machine goes down until its agent runs again. It is longer than a write may be late
// (network.cc), because after a reboot no program knows who wrote to a Shared block.
constexpr auto kBoot = 5s;

struct Node::Host {
  explicit Host(const std::string& name) : process(std::make_shared<Process>(name)) {}
  ProcessPointer process;
  std::unique_ptr<agent::Agent> agent;
  bool has_ended = false;  // ended by itself after a new agent took over
};

Node::Node(Options options, k8sclient::Api& api, Story& story)
    : options_(std::move(options)), api_(api), story_(story) {
  MakeMemoryDisk(options_.folder + "/run");
  MakeMemoryDisk(NetnsFolder());
  MakeFolders(StateFolder());
  if (!options_.is_direct) return;
  direct_ = std::make_unique<DirectCalls>(DirectCalls::Options{.node = options_.name,
                                                               .folder = options_.folder,
                                                               .slow_one_in = options_.slow_one_in,
                                                               .clock_error = clock_error_},
                                          api_,
                                          story_);
}

void Node::StartAgent() {
  if (!has_agents()) return;
  if (before_start_) before_start_(options_.folder);
  const auto host = std::make_shared<Host>(options_.called + ".agent" + std::to_string(hosts_.size() + 1));
  const bool is_slow = options_.slow_one_in > 0 && Below(options_.slow_one_in) == 0;
  if (is_slow) host->process->pauses_one_in = kPausesOneIn;
  host->process->clock_error = clock_error_;
  hosts_.push_back(host);
  newest_ = host.get();
  story_.Tell("starts " + host->process->name);
  Spawn(host->process, [this, host] {
    auto made = agent::Agent::Make(api_,
                                   k8sclient::RealClock(),
                                   {.node = options_.name,
                                    .state_dir = StateFolder(),
                                    .run_dir = options_.folder + "/run",
                                    .netns_dir = NetnsFolder(),
                                    .server = "https://model",
                                    .loaded_mark = options_.folder + "/run/loaded",
                                    .standby = options_.standby},
                                   [host] { host->has_ended = true; });
    if (!made) return story_.Break("starts", made.error().message);
    host->agent = *std::move(made);
    if (host.get() == newest_) serving_ = host.get();
    host->agent->Start();
  });
}

void Node::Kill(Host& host) {
  if (host.process->is_dead) return;
  story_.Tell("kills " + host.process->name);
  sim::Kill(*host.process);
}

void Node::KillQueueing() {
  for (const ProcessPointer& berth : std::exchange(queueing_, {})) sim::Kill(*berth);
}

void Node::KillAgent() {
  KillQueueing();
  if (direct_ != nullptr) direct_->Kill();
  if (newest_ != nullptr) Kill(*newest_);
}

void Node::KillAgents() {
  KillQueueing();
  if (direct_ != nullptr) direct_->Kill();
  for (const auto& host : hosts_) Kill(*host);
}

bool Node::IsServing() const {
  if (!has_agents()) return !is_off_;
  return newest_ != nullptr && serving_ == newest_ && !newest_->process->is_dead && newest_->agent->IsReady();
}

void Node::End() {
  is_off_ = true;
  KillAgents();
  MakeMemoryDisk(options_.folder + "/run");
  MakeMemoryDisk(NetnsFolder());
}

void Node::MakeNetns(const std::string& name) {
  close(open((NetnsFolder() + "/" + name).c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0444));
}

void Node::RemoveNetns(const std::string& name) { RemoveTree(NetnsFolder() + "/" + name); }

void Node::EmptyRun() {
  constexpr std::array kFolders = {"intents", "handed-out", "deleted", "running"};
  constexpr std::uint64_t kWays = 3;
  const std::string nodes = options_.folder + "/run/nodes";
  const std::uint64_t way = Below(kWays);
  if (way == 0) {
    RemoveTree(nodes);
  } else if (way == 1) {
    RemoveFilesLike(nodes, "/");
  } else {
    RemoveTree(nodes + "/" + options_.name + "/" + kFolders.at(Below(kFolders.size())));
  }
  story_.Tell("somebody removes files of " + options_.called + " in /run/berth");
}

void Node::PowerOff() {
  story_.Tell(options_.called + " goes down");
  End();
  SyncTree(StateFolder());
}

void Node::PowerOn() {
  is_off_ = false;
  StartAgent();
}

void Node::Reboot() {
  PowerOff();
  std::this_thread::sleep_for(kBoot);
  PowerOn();
}

void Node::LosePower() {
  story_.Tell(options_.called + " loses its power");
  End();
  CutPower(StateFolder());
  std::this_thread::sleep_for(kBoot);
  PowerOn();
}

void Node::SetClock(Nanos error) {
  story_.Tell(
      fmt::format("{}'s clock is {:.1f} s ahead", options_.called, std::chrono::duration<double>(error).count()));
  *clock_error_ = error;
}

void Node::Supervise() {
  if (is_off_) return;
  for (const auto& host : hosts_) {
    if (host->has_ended) Kill(*host);
  }
  if (newest_ == nullptr || newest_->process->is_dead) StartAgent();
}

bool Node::IsListening() const { return serving_ != nullptr && !serving_->process->is_dead && !serving_->has_ended; }

bool Node::QueueDel(const std::string& body, const CallMoments& moments) {
  const auto berth = std::make_shared<Process>(options_.called + ".berth");
  const bool is_slow = options_.slow_one_in > 0 && Below(options_.slow_one_in) == 0;
  if (is_slow) berth->pauses_one_in = kPausesOneIn;
  queueing_.push_back(berth);
  struct Result {
    bool has_ended = false;
    bool is_queued = false;
  };
  const auto result = std::make_shared<Result>();
  Spawn(berth, [this, result, body, moments] {
    const auto state = node::Folder::Open(StateFolder());
    const auto queue =
        state ? node::DelQueue::Lock(*state, node::BootTimeNow() + Nanos(1s).count()) : std::unexpected(state.error());
    if (queue && node::RequireMode(*state, node::NodeMode::kAgent) && !IsListening()) {
      if (moments.arrives) moments.arrives();
      result->is_queued = queue->Add(body).has_value();
    }
    result->has_ended = true;
  });
  while (!result->has_ended && !berth->is_dead) std::this_thread::sleep_for(1ms);
  std::erase(queueing_, berth);
  if (result->is_queued) story_.Tell(berth->name + " queues a DEL");
  return result->is_queued;
}

std::optional<CniAnswer> Node::Call(const std::string& body, std::chrono::microseconds patience,
                                    const CallMoments& moments) {
  if (on_call_) on_call_();
  if (!has_agents()) return CallDirectly(body, patience, moments);
  const bool may_queue = options_.queues_dels && json::parse(body)["command"] == "DEL";
  for (bool is_repeated = false;; is_repeated = true) {
    const bool has_time = !may_queue || Below(2) == 0;
    const Nanos dialling_until =
        Now() + (may_queue ? Nanos(std::chrono::milliseconds(has_time ? Below(200) : 0)) : 10s);
    while (!IsListening()) {
      if (Now() >= dialling_until) {
        const bool is_queued = may_queue && !is_off_ && QueueDel(body, moments);
        if (is_queued) return CniAnswer{.ok = true, .body = {}, .is_durable = true};
        if (may_queue && IsListening()) break;
        if (moments.arrives) moments.arrives();
        return std::nullopt;
      }
      std::this_thread::sleep_for(20ms);
    }
    const Host* const host = serving_;
    auto answer = CallAgent(body, patience, moments);
    // If the connection breaks, `berth` sends a DEL once more, or queues it.
    if (answer || is_repeated || !may_queue || !host->process->is_dead) return answer;
  }
}

std::optional<CniAnswer> Node::CallAgent(const std::string& body, std::chrono::microseconds patience,
                                         const CallMoments& moments) {
  Host* const host = serving_;
  struct Call {
    std::optional<CniAnswer> answer;
    bool is_delivered = false;
    bool is_abandoned = false;
    bool is_unnoticed = false;
  };
  const auto call = std::make_shared<Call>();
  // Some calls are slow to arrive, and some callers give up early, so a DEL may overtake its ADD.
  const std::chrono::microseconds travel(Below(8) == 0 ? Below(60'000) : Below(50));
  Spawn(host->process, [this, host, call, body, travel, moments] {
    std::this_thread::sleep_for(travel);
    if (moments.arrives) moments.arrives();
    if (before_call_) before_call_(options_.folder);
    const agent::Reply reply = host->agent->Handle(body);
    if (moments.is_answered) moments.is_answered();
    call->is_delivered = !call->is_abandoned;
    if (call->is_delivered) call->answer = {.ok = reply.ok, .body = reply.body};
    if (!call->is_delivered && !call->is_unnoticed && reply.take_back) reply.take_back();
  });
  const Nanos begin = Now();
  while (!call->is_delivered) {
    if (host->process->is_dead) return std::nullopt;
    if (Now() - begin > patience) {
      call->is_abandoned = true;
      // Some runtimes kill `berth`, which the agent notices. Others let it print an answer that nobody reads.
      call->is_unnoticed = Below(2) == 0;
      return std::nullopt;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(100 + Below(400)) + (Now() - begin) / 32);
  }
  return call->answer;
}

std::optional<CniAnswer> Node::CallDirectly(const std::string& body, std::chrono::microseconds patience,
                                            const CallMoments& moments) {
  if (is_off_) {
    std::this_thread::sleep_for(20ms);
    return std::nullopt;
  }
  if (before_call_) before_call_(options_.folder);
  return direct_->Call(body, patience, moments);
}

bool Node::IsAtRest() const {
  if (!has_agents()) return !is_off_ && direct_->IsIdle();
  const json debug = Debug();
  return !debug.is_null() && debug["journal"].empty() && debug["handedOut"].empty();
}

json Node::Debug() const {
  // Another agent may start while IsServing runs.
  const Host* const asked = newest_;
  if (!IsServing() || asked != newest_) return nullptr;
  return json::parse(asked->agent->DebugBlocks());
}

std::size_t Node::WaitingDels() const {
  const json debug = has_agents() ? Debug() : json();
  return debug.is_null() ? 0 : debug["journal"].size();
}

std::set<std::string> Node::KnownBlocks() const {
  std::set<std::string> names;
  const json debug = Debug();
  if (debug.is_null()) return names;
  for (const json& block : debug["blocks"]) names.insert(block["name"]);
  return names;
}

std::size_t Node::living() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(hosts_, [](const auto& host) { return !host->process->is_dead; }));
}

std::size_t Node::bytes() const { return newest_ == nullptr ? 0 : newest_->process->bytes; }

std::string Node::Unrest() const {
  if (!has_agents()) return options_.called + " is off, or calls of berth-direct run";
  if (newest_ == nullptr || newest_->process->is_dead) return options_.called + " has no agent";
  if (serving_ != newest_) return options_.called + " has an agent that does not serve";
  const std::string ready = newest_->agent->IsReady() ? "" : ", which is not ready";
  return newest_->process->name + ready + ": " + newest_->agent->DebugBlocks();
}

}  // namespace berth::sim
