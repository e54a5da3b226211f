// SPDX-License-Identifier: Apache-2.0
// World: the simulated cluster of one history: API servers, network, nodes, kubelets, controllers, people and faults.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "k8sclient/testing/model_api.h"
#include "sim/api_server.h"
#include "sim/backups.h"
#include "sim/bounds.h"
#include "sim/checkers.h"
#include "sim/cluster.h"
#include "sim/controllers.h"
#include "sim/counted.h"
#include "sim/kube_scheduler.h"
#include "sim/machine.h"
#include "sim/network.h"
#include "sim/plants.h"
#include "sim/pools.h"
#include "sim/story.h"
#include "sim/thief.h"
#include "sim/workload.h"

namespace berth::sim {

// Upper limits of what happens in a history. Lower limits make a shorter history.
struct Extent {
  int servers = 3;      // API servers
  int controllers = 2;  // run at the same time; without one the API server has no Nodes and no pods
  int nodes = 3;
  int agents = 4;       // restarts of agents by random events, on all nodes together
  int callers = 5;      // callers of a node, at the same time
  int containers = 20;  // containers of a caller, one after another
  // Names of the faults that may happen.
  std::set<std::string> faults = AllFaults();

  [[nodiscard]] static std::set<std::string> AllFaults();
  // AllFaults, and the faults that are drawn apart.
  [[nodiscard]] static std::set<std::string> KnownFaults();
  // Half of the seeds have all faults, the others two to eleven: few faults find defects that many faults hide.
  // The faults that AllFaults lacks are drawn apart: few seeds have them.
  [[nodiscard]] static std::set<std::string> DrawFaults(std::uint64_t seed);
};

struct Outcome {
  std::vector<Story::Broken> broken = {};
  std::uint64_t hash = 0;
  std::uint64_t calls = 0;
  std::uint64_t requests = 0;
  std::uint64_t faults = 0;
  std::uint64_t switches = 0;
  double seconds = 0;  // virtual time
};

class World {
 public:
  // `plant` may be null.
  World(std::uint64_t seed, Extent extent, const Plant* plant, bool is_told);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  [[nodiscard]] Outcome Run();

 private:
  // An event that happens at random, and the name of its fault. In the event without a fault (null) nothing happens.
  struct Moment;
  [[nodiscard]] static std::span<const Moment> AllMoments();

  // Draws the networks of a node's pods: one or two.
  [[nodiscard]] std::vector<PodNetwork> AnyNetworks(bool tells_odd_uids) const;
  [[nodiscard]] std::function<Addresses(const PodNetwork&)> AnyRequests() const;
  // Adds an IPv6 pool to three of four networks, so that pods get an IPv6 address as well.
  void AddIpv6(PodNetwork& network) const;
  // From now on the network's pools are of the second space.
  void UseSecondSpace(PodNetwork& network) const;
  void AddServers();
  void AddMachine(const std::string& name);
  [[nodiscard]] std::unique_ptr<Machine> MakeMachine(const std::string& name, const std::string& called,
                                                     bool is_direct);
  // Starts the machine's agent, its callers, and the thread that sends CHECKs.
  void StartMachine(Machine& machine);
  // The course of the history, which runs in a simulated process of its own.
  void Main();
  // Starts a random number of controllers, or none. `has_rivals`: starts as many as allowed, and they elect no leader.
  void StartControllers(bool has_rivals);
  // Ends the history, and checks the rules that apply at the end.
  void CheckEnd(bool is_counting);
  // Lets one random event happen. Events with a larger weight are more likely.
  void OneMoment();
  // A machine is left alone, or, with the fault `slow-end`, nothing happens except that containers end.
  [[nodiscard]] bool AreSlow() const;
  // Lets a second pass without network faults.
  void WaitCalmly();
  void ChangeWeather(bool is_calm);
  [[nodiscard]] bool May(const std::string& fault) const { return extent_.faults.contains(fault); }
  [[nodiscard]] bool IsChurning() const;
  // Draws how far a wall clock is ahead of the right time: often 0, at most 20 years; a negative result is behind.
  [[nodiscard]] Nanos AnyClockError();
  // All API servers are unreachable for up to three seconds.
  void BeAway();
  void Compact();
  void ReplaceAgent(Machine& machine, bool overlaps);
  // Names of the node's blocks.
  [[nodiscard]] std::vector<std::string> BlocksOf(const std::string& node) const;
  // Called when an agent starts. Sometimes requests of one kind fail for a while, so that the agent loads its blocks
  // several times, and sometimes the agent is killed before it has loaded them.
  void TroubleStart(Machine& machine);
  // Called while the agent serves a call or sends a write. One call of `one_in` replaces the agent and returns true.
  bool ReplaceMeanwhile(Machine& machine, std::uint64_t one_in);
  void Reboot(Machine& machine);
  void LosePower(Machine& machine);
  void CutOff(Machine& machine);
  void CutOffController();
  // Cuts the machine's agents off from the API servers: their requests do not arrive (kCut), or the answers to their
  // requests do not (kUnheard).
  void Deafen(Machine& machine, Link::State state);
  void Deafen(Machine& machine, Link::State state, Nanos from, Nanos until);
  // The machine's Node is deleted and comes back later. Meanwhile the machine is off or reaches no API server.
  void Vanish(Machine& machine);
  // The machine goes down, and a person taints its Node as out of service. The machine comes up again, and the person
  // removes the taint a little later.
  void TakeOutOfService(Machine& machine);
  // A person binds a pod to a Node that is gone or never existed.
  void CreateGhost(const Machine& machine);
  // Deletes all pods of the machine, or of all machines, at once, but not the static pods.
  void Cascade(Machine& machine);
  // Another machine takes over the machine's name. The old machine goes off at once, or its agents run for up to two
  // more minutes.
  void Replace(Machine& machine);
  // A person removes an entry from a block. Returns when the agent has written the entry again.
  void EditByHand(Machine& machine);
  // Like EditByHand, while no agent runs: the controller writes the entry again.
  void EditWithoutAgent(Machine& machine);
  struct Place {
    std::string block;
    std::string offset;
    std::string text;
    std::string address;
  };
  // A random held entry in a block that the machine's agent knows, of a pod whose container stays; nullopt: there is
  // none. `is_told`: only entries whose address is in the pod's status.
  [[nodiscard]] std::optional<Place> AnyEntry(const Machine& machine, bool is_told) const;
  void TakeOut(const Place& place);
  // A person writes the entry again.
  void WriteAgain(const Place& place);
  [[nodiscard]] bool IsThere(const Place& place) const;
  // A person removes files below /run/berth of the machine, and the agent gives way.
  void EmptyRun(Machine& machine);
  void EditPool();
  // The faults of this history may keep a program from knowing or changing a block that the program created.
  [[nodiscard]] bool MayLoseBlocks() const;
  // Edits a selector of a pool, or a label of the machine's Node or of the namespace.
  void EditSelectors(const Machine& machine);
  // A person replaces a pool. Meanwhile some nodes' requests about pools fail or are late.
  void ReplacePool(const Machine& machine);
  void ReplacePoolNow(const std::string& name);
  // Waits until the pool has no held entry, at most 30 s.
  void AwaitUnused(const std::string& pool);
  void GiveBackBlocksOf(const std::string& pool);
  // The API server refuses each write of one block for up to an hour, or for up to five.
  void RefuseBlock();
  void RefuseBlockFor(const nlohmann::json& block, Nanos time);
  // Checks the rule `apart`. Requires: no other fault happens.
  void CheckApart(const nlohmann::json& refused);
  // All containers end, and the rules `quiet` and `growth` are checked while the block is refused. Requires: as
  // CheckApart.
  void CheckRestWhileRefused(const nlohmann::json& refused, bool is_in_doubt);
  void TroublePools(const std::vector<Machine*>& machines);
  // Starts a tenant's pod with an odd network configuration.
  void StartTenant(Machine& machine);
  // Starts and ends containers on the machine, in addition to those of its callers.
  void StartMore(Machine& machine, Nanos after);
  // After a while the node's network configurations name `pool` in place of `before`, and its requests about pools
  // succeed again.
  void ComeToUse(Machine& machine, const std::string& before, const std::string& pool);
  // Tells the checkers whose entries are missing in the restored backup.
  void NoteTakenOut(const k8sclient::testing::ModelApi::Backup& now);
  void BackUpOrRestore();
  void DeleteAllocation();
  void DeleteBlock();
  // A person deletes a random block, if it is empty, by the steps that the controller takes.
  void GiveBackBlock();
  void GiveBack(const nlohmann::json& block);
  [[nodiscard]] nlohmann::json FindBlock(const std::string& name) const;
  void ComeToRest();
  [[nodiscard]] std::string Unrest() const;
  // Waits until the controller has freed the addresses of containers that ended without a DEL, and the thief's. Rules
  // `dead-freed` and `stolen`. Returns the entries that IsInUseElsewhere lets the controller keep.
  std::set<std::string> AwaitLost();
  // Waits until deleted pools are gone. Rule `drained`.
  void AwaitDrained();
  // Waits until deleted blocks, and blocks of Nodes that are gone, are gone, except blocks that name a live pod. Rule
  // `gone`.
  void AwaitGivenBack();
  // A person frees what the controller does not free (docs/operations.md): addresses of static pods whose DEL a power
  // cut destroyed, addresses for which the controller would wait for years, and, while a pool says that the controller
  // frees nothing, all lost addresses.
  void ReleaseByHand();
  // The entry's container has ended, and the controller waits for a grace period of years (fault `odd-pods`).
  [[nodiscard]] bool IsLateByYears(const std::string& text) const;
  // Checks the rule `braked`: the controller stops freeing addresses only if very many held entries name pods that do
  // not exist. Requires: no fault happens.
  void CheckBrake();
  void FreeByHand(const std::string& block, const std::string& offset, const std::string& attachment);
  [[nodiscard]] bool HasLost(const ipam::Attachment& attachment) const;
  // Starts a thief who has a node's token.
  void StartThief();
  [[nodiscard]] bool NamesLivePod(const std::string& text) const;
  // The thief's entry has to be gone: it names no live pod and is not cooling. If the stolen node owns the block, no
  // other entry of the block names a live pod either.
  [[nodiscard]] bool IsLeftOfThief(const nlohmann::json& block, const std::string& text) const;
  // Stops the thief, and a person deletes the stolen Node.
  void EndThief();
  // One of two machines with one name wrote the entry again after its sandbox had ended. The pod lives, and the entry
  // stays until the pod is gone.
  [[nodiscard]] bool IsKept(const std::string& text) const;
  struct LostEntries {
    std::set<std::string> left;  // entries that the controller still has to free
    std::set<std::string> kept;  // entries that IsInUseElsewhere lets the controller keep
  };
  [[nodiscard]] LostEntries LostAndLeft() const;
  // Whether a live pod of the entry's node reports the entry's address, and has it from a block of another space. Then
  // the controller keeps the entry, because a pod's status names no space (docs/controller.md).
  [[nodiscard]] bool IsInUseElsewhere(const nlohmann::json& block, const std::string& offset) const;
  // A container that has not ended has the address.
  [[nodiscard]] bool IsHeldOnAnyNode(const nlohmann::json& block, const std::string& offset) const;
  // Whether blocks of two spaces that the machine's node may use contain the address. Then the controller does not
  // write a missing entry of the address (docs/controller.md).
  [[nodiscard]] bool IsInTwoSpaces(const Machine& machine, const Place& place) const;
  // No pod in the API server has the UID that the held entry names.
  [[nodiscard]] bool IsPodGone(const std::string& text) const;
  // The admission policy. Returns why it refuses the write; nullopt: the write is allowed.
  [[nodiscard]] std::optional<std::string> Admit(const std::string& collection, const nlohmann::json& before,
                                                 const nlohmann::json& after);
  // Shows the checkers a stored block without the entries that a thief wrote.
  void TellCheckers(const nlohmann::json& before, const nlohmann::json& after);
  // Lets a day pass, in which a few containers start and end each half hour.
  void LiveADay();
  // Starts and ends containers without faults, and checks the rules for a time without faults.
  void CheckSteady();
  void Churn(Machine& machine, const std::string& called, int containers);
  // Starts the scheduler, and threads that create pods which request addresses.
  void StartWorkload();
  // Starts a bound pod on its node as soon as the node's kubelet sees the pod.
  void Deliver(const Pod& pod, const std::string& node);
  void DeliverIfBound(const nlohmann::json& before, const nlohmann::json& after);
  [[nodiscard]] Machine* FindMachine(const std::string& node) const;
  void RestartKubelet(Machine& machine);
  // Waits until each agent knows the blocks that its Node's address count includes. Rule `known`. `before`: the result
  // of UnknownBlocks before the address counts rose; nodes in it are not checked.
  void AwaitKnown(const std::map<std::string, std::string>& before);
  void AwaitNewBlock(Nanos most);
  // By node, a sentence about a block that the Node's address count includes and the node's agent does not know.
  [[nodiscard]] std::map<std::string, std::string> UnknownBlocks() const;
  // Many pods that request addresses come at once, and nothing else takes addresses. Rules `known`, `pending` and
  // `room`.
  void CheckBurst();
  // Waits until every pod that the scheduler has placed runs or has ended.
  void AwaitScheduled();
  // Waits until each Node shows the right address count. Rule `counted`.
  void AwaitNumbers();
  // Waits until no pod is Pending that fits on a node. Rule `pending`.
  void AwaitPending();

  std::uint64_t seed_;
  Extent extent_;
  const Plant* plant_;
  Story story_;
  k8sclient::testing::ModelApi store_;
  std::vector<std::unique_ptr<ApiServer>> servers_;
  Network network_;
  Cluster cluster_;
  Pools pools_;
  Controllers controllers_;
  Counted counted_;
  KubeScheduler scheduler_;
  Workload workload_;
  Kubelet::Checkers checkers_;
  Machines machines_;
  Machines replaced_;  // other machines have taken over their names
  Backups backups_;
  std::unique_ptr<Thief> thief_;  // null: there is none
  Bounds bounds_{story_, network_, machines_, controllers_};
  ProcessPointer outside_ = std::make_shared<Process>("world");
  int agents_left_ = 0;
  int meanwhiles_left_ = 0;  // replacements of agents during calls and writes
  int vanishes_left_ = 1;
  int outages_left_ = 1;  // machines that are taken out of service
  int troubled_starts_left_ = 6;
  int tenants_left_ = 12;
  bool is_unwatched_ = false;  // checkers do not see changes of blocks now
  // An entry is missing that an agent or the controller writes again, so no agent is stopped now.
  bool is_editing_ = false;
  // has ended stays held (docs/operations.md).
  bool has_backups_ = false;
  // Another machine takes over a machine's name once. Then there are no static pods: nobody would free the addresses of
  // those that ran on the old machine.
  bool has_replacement_ = false;
  // A person may replace pools, one at a time.
  bool may_replace_pool_ = false;
  int replacements_left_ = 3;
  int more_ = 0;            // number of StartMore's callers and of tenants, for their names
  int replacing_pool_ = 0;  // people who replace a pool, and nodes that do not use the new pool yet
  // Some pods request addresses from the scheduler. Never together with backups: a pod that a backup shows as unbound
  // may run by now.
  bool has_scheduler_ = false;
  // Some networks name an IPv4 and an IPv6 pool.
  bool has_dual_stack_ = false;
  // Some networks name pools of a second space.
  bool has_spaces_ = false;
  bool has_requests_ = false;  // some pods request certain addresses
  int working_ = 0;            // threads of the workload that create pods
  int delivering_ = 0;         // bound pods that their kubelets have not seen yet
  std::uint64_t kills_ = 0;
  std::string refused_block_;  // name of the block whose writes are refused now; empty: none
  bool was_refused_ = false;   // writes of a block are or were refused
};

}  // namespace berth::sim
