// SPDX-License-Identifier: Apache-2.0
// Node: a machine with its files, and the agents that run on it, one after another or side by side, or berth-direct.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "agent/agent.h"
#include "k8sclient/api.h"
#include "sim/direct_calls.h"
#include "sim/scheduler.h"
#include "sim/story.h"

namespace berth::sim {

class Node {
 public:
  struct Options {
    std::string name;
    std::string called;             // in a story: one of two machines with that name
    std::string folder;             // is made
    bool is_direct = false;         // has no agents: calls are berth-direct's
    std::size_t standby = 64;       // AgentOptions::standby
    std::uint64_t slow_one_in = 0;  // of its processes one in so many is stopped now and then; 0: none
    Nanos clock_error{0};           // what its wall clock shows more than the right one
  };
  // api and story must outlive this.
  Node(Options options, k8sclient::Api& api, Story& story);

  [[nodiscard]] bool has_agents() const { return !options_.is_direct; }
  // Starts another agent, whether one serves or not: that one is replaced. Nothing, where there are none.
  void StartAgent();
  // As kill -9; the newest, or the one that serves. Without agents: the calls that run.
  void KillAgent();
  // All of them.
  void KillAgents();
  // The newest, and has loaded its blocks.
  [[nodiscard]] bool IsServing() const;
  // All agents at once, then /run is empty.
  void PowerOff();
  // A new agent starts.
  void PowerOn();
  // Of its agents so many live.
  [[nodiscard]] std::size_t living() const;
  // So many agents were started.
  [[nodiscard]] std::size_t starts() const { return hosts_.size(); }
  [[nodiscard]] bool is_off() const { return is_off_; }
  void Reboot();
  // The same, by a power cut.
  void LosePower();
  // Somebody sets its wall clock, which shows so much more than the right one then.
  void SetClock(Nanos error);
  // The same, to what it shows and so much more.
  void StepClock(Nanos by) { SetClock(*clock_error_ + by); }
  // A process that has ended by itself is started again, as a kubelet does, if the machine is on.
  void Supervise();
  // A container's network namespace: it is there until the container has ended or the machine goes down.
  void MakeNetns(const std::string& name);
  void RemoveNetns(const std::string& name);

  // Before an agent starts: what is planted (world.h).
  using Sabotage = std::function<void(const std::string& folder)>;
  void BeforeStart(Sabotage sabotage) { before_start_ = std::move(sabotage); }
  // The same, before it is handed a call.
  void BeforeCall(Sabotage sabotage) { before_call_ = std::move(sabotage); }
  // Called when a call begins.
  void OnCall(std::function<void()> on_call) { on_call_ = std::move(on_call); }

  // As `berth` does: finds the agent that serves, hands the call over, waits. nullopt: nobody served within ten
  // seconds, the agent died meanwhile, or the caller lost patience.
  [[nodiscard]] std::optional<CniAnswer> Call(const std::string& body, std::chrono::microseconds patience,
                                              const CallMoments& moments = {});

  // Nothing is left to be written: the newest agent is ready, its journal and what it handed out are empty.
  [[nodiscard]] bool IsAtRest() const;
  // Why not, for a person.
  [[nodiscard]] std::string Unrest() const;

  // To the newest agent; none if it does not serve.
  [[nodiscard]] std::set<std::string> KnownBlocks() const;
  // What the newest agent has allocated.
  [[nodiscard]] std::size_t bytes() const;
  [[nodiscard]] const std::string& name() const { return options_.name; }
  [[nodiscard]] const std::string& called() const { return options_.called; }

 private:
  struct Host;
  // What the newest agent tells of itself; null: it does not serve.
  [[nodiscard]] nlohmann::json Debug() const;
  void Kill(Host& host);
  void End();
  [[nodiscard]] std::string StateFolder() const { return options_.folder + "/state"; }
  [[nodiscard]] std::string NetnsFolder() const { return options_.folder + "/netns"; }
  [[nodiscard]] std::optional<CniAnswer> CallDirectly(const std::string& body, std::chrono::microseconds patience,
                                                      const CallMoments& moments);

  Options options_;
  std::shared_ptr<Nanos> clock_error_ = std::make_shared<Nanos>(options_.clock_error);
  k8sclient::Api& api_;
  Story& story_;
  std::unique_ptr<DirectCalls> direct_;  // null: there are agents
  bool is_off_ = false;
  Sabotage before_start_;
  Sabotage before_call_;
  std::function<void()> on_call_;
  std::vector<std::shared_ptr<Host>> hosts_;  // never destroyed: nobody cleans up after a killed process
  Host* newest_ = nullptr;
  Host* serving_ = nullptr;  // has bound the socket last
};

}  // namespace berth::sim
