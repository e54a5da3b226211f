// SPDX-License-Identifier: Apache-2.0
// Node: the files of a machine, and the agents that run on it, one after another or at the same time, or berth-direct.
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
    std::string called;             // name in the trace; two machines with one `name` differ in it
    std::string folder;             // folder of the machine's files; the constructor makes it
    bool is_direct = false;         // berth-direct serves the calls, and no agent runs
    std::size_t standby = 64;       // AgentOptions::standby
    bool queues_dels = false;       // `berth` has little time for DELs, and queues them while no agent listens
    std::uint64_t slow_one_in = 0;  // one of this many processes is paused now and then; 0: none
    Nanos clock_error{0};           // how far the wall clock is ahead of the right time
  };
  // api and story must outlive this.
  Node(Options options, k8sclient::Api& api, Story& story);

  [[nodiscard]] bool has_agents() const { return !options_.is_direct; }
  // Starts a new agent, which takes over from an agent that serves. Does nothing on a node with berth-direct.
  void StartAgent();
  // Kills the newest agent, as kill -9 does. With berth-direct: kills the calls that run.
  void KillAgent();
  // Kills all agents, or all calls of berth-direct.
  void KillAgents();
  // The newest agent serves and has loaded its blocks. With berth-direct: the machine is on.
  [[nodiscard]] bool IsServing() const;
  // The machine goes down in order: all agents end at once, /run is emptied, and all other files are synced.
  void PowerOff();
  // The machine is on again, and a new agent starts.
  void PowerOn();
  // Number of agents that live.
  [[nodiscard]] std::size_t living() const;
  // Number of agents that were started.
  [[nodiscard]] std::size_t starts() const { return hosts_.size(); }
  [[nodiscard]] bool is_off() const { return is_off_; }
  void Reboot();
  // Like Reboot, by a power cut, which destroys a part of the file changes that were not synced.
  void LosePower();
  // Sets the wall clock to `error` ahead of the right time.
  void SetClock(Nanos error);
  // Moves the wall clock by `by`.
  void StepClock(Nanos by) { SetClock(*clock_error_ + by); }
  // Starts an agent if the newest one is dead or has ended, as a kubelet does. Does nothing while the machine is off.
  void Supervise();
  // A container's network namespace exists until the container has ended or the machine goes down.
  void MakeNetns(const std::string& name);
  void RemoveNetns(const std::string& name);
  // Removes files below /run/berth: all, all but the folders, or one folder.
  void EmptyRun();

  // Called before an agent starts.
  using Sabotage = std::function<void(const std::string& folder)>;
  void BeforeStart(Sabotage sabotage) { before_start_ = std::move(sabotage); }
  // Called before an agent or berth-direct gets a call.
  void BeforeCall(Sabotage sabotage) { before_call_ = std::move(sabotage); }
  // Called when a call begins.
  void OnCall(std::function<void()> on_call) { on_call_ = std::move(on_call); }

  // Sends a call as the plugin `berth` does: finds the agent that serves, passes the call on, and waits for the answer.
  // nullopt: no agent listened in time, the agent or `berth` died, or the caller's patience was over.
  [[nodiscard]] std::optional<CniAnswer> Call(const std::string& body, std::chrono::microseconds patience,
                                              const CallMoments& moments = {});

  // No write is pending: the newest agent is ready, its journal is empty, and each address that it has given is
  // written.
  [[nodiscard]] bool IsAtRest() const;
  // Why the node is not at rest, for a person.
  [[nodiscard]] std::string Unrest() const;

  // Number of answered DELs that the newest agent has not written; 0 if no agent serves.
  [[nodiscard]] std::size_t WaitingDels() const;
  // Names of the blocks that the newest agent knows; none if it does not serve.
  [[nodiscard]] std::set<std::string> KnownBlocks() const;
  // Memory that the newest agent has allocated.
  [[nodiscard]] std::size_t bytes() const;
  [[nodiscard]] const std::string& name() const { return options_.name; }
  [[nodiscard]] const std::string& called() const { return options_.called; }

 private:
  struct Host;
  // The newest agent's report about its blocks; null: it does not serve.
  [[nodiscard]] nlohmann::json Debug() const;
  void Kill(Host& host);
  // Kills the processes of `berth` that queue DELs.
  void KillQueueing();
  [[nodiscard]] bool IsListening() const;
  // Does what `berth` does with a DEL if no agent listens. Returns whether the DEL is queued.
  [[nodiscard]] bool QueueDel(const std::string& body, const CallMoments& moments);
  // Sends the call to the agent that listens.
  [[nodiscard]] std::optional<CniAnswer> CallAgent(const std::string& body, std::chrono::microseconds patience,
                                                   const CallMoments& moments);
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
  std::vector<ProcessPointer> queueing_;  // processes of `berth` that queue DELs
  Sabotage before_start_;
  Sabotage before_call_;
  std::function<void()> on_call_;
  std::vector<std::shared_ptr<Host>> hosts_;  // never destroyed: nobody cleans up after a killed process
  Host* newest_ = nullptr;
  Host* serving_ = nullptr;  // the agent that bound the socket last; an agent binds it before it reads queued DELs
};

}  // namespace berth::sim
