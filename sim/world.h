// SPDX-License-Identifier: Apache-2.0
// World: one history from a seed: nodes with agents, kubelets, people, an API server, and everything that goes wrong.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
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

// What may happen. Less of it makes a shorter history.
struct Extent {
  int servers = 3;      // API servers, at most; as are the next five
  int controllers = 2;  // side by side; with them there are pods
  int nodes = 3;
  int agents = 4;       // of a node, one after another
  int callers = 5;      // of a node, side by side
  int containers = 20;  // of a caller, one after another
  // Faults by name; absent ones do not happen.
  std::set<std::string> faults = AllFaults();

  [[nodiscard]] static std::set<std::string> AllFaults();
  // All of them for half of the seeds, and some of them for the others: with few faults a history finds what many hide.
  [[nodiscard]] static std::set<std::string> DrawFaults(std::uint64_t seed);
};

struct Outcome {
  std::vector<Story::Broken> broken = {};
  std::uint64_t hash = 0;
  std::uint64_t calls = 0;
  std::uint64_t requests = 0;
  std::uint64_t faults = 0;
  std::uint64_t switches = 0;
  double seconds = 0;  // virtual
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
  // What happens by chance, with the fault that it is; null: nothing does.
  struct Moment;
  [[nodiscard]] static std::span<const Moment> AllMoments();

  // All that a node's pods are in: one, or two.
  [[nodiscard]] std::vector<PodNetwork> AnyNetworks(bool tells_odd_uids) const;
  [[nodiscard]] std::function<Addresses(const PodNetwork&)> AnyRequests() const;
  // By chance, pods get an IPv6 address in the network as well.
  void AddIpv6(PodNetwork& network) const;
  void AddServers();
  void AddMachine(const std::string& name);
  [[nodiscard]] std::unique_ptr<Machine> MakeMachine(const std::string& name, const std::string& called,
                                                     bool is_direct);
  // Its agent and its callers.
  void StartMachine(Machine& machine);
  // The history, in a process of its own.
  void Main();
  // Starts some controllers or none. `has_rivals`: starts all that may be, and they do not elect.
  void StartControllers(bool has_rivals);
  // The rules of a history that comes to rest.
  void CheckEnd(bool is_counting);
  // One that may be, by its weight.
  void OneMoment();
  // Somebody is left alone, or nothing happens but that containers end.
  [[nodiscard]] bool AreSlow() const;
  // Lets a calm second pass.
  void WaitCalmly();
  void ChangeWeather(bool is_calm);
  [[nodiscard]] bool May(const std::string& fault) const { return extent_.faults.contains(fault); }
  [[nodiscard]] bool IsChurning() const;
  // Draws by how much a machine's wall clock is ahead of the right one: often by nothing, and up to decades.
  [[nodiscard]] Nanos AnyClockError();
  // The API server, for some seconds.
  void BeAway();
  void Compact();
  void ReplaceAgent(Machine& machine, bool overlaps);
  // The names of its own blocks.
  [[nodiscard]] std::vector<std::string> BlocksOf(const std::string& node) const;
  // An agent starts. Maybe requests of one kind fail for a while, so it loads its blocks several times, and maybe it is
  // killed before it has loaded them.
  void TroubleStart(Machine& machine);
  // While something is under way there, once in so many times, the agent is replaced. True: so it is.
  bool ReplaceMeanwhile(Machine& machine, std::uint64_t one_in);
  void Reboot(Machine& machine);
  void LosePower(Machine& machine);
  void CutOff(Machine& machine);
  void CutOffController();
  // Its agents hear nobody; what they hand out meanwhile nobody hears of from them, or nobody tells them that it did.
  void Deafen(Machine& machine, Link::State state);
  void Deafen(Machine& machine, Link::State state, Nanos from, Nanos until);
  // Its Node is deleted, and comes again. Meanwhile the machine is off, or hears of nobody.
  void Vanish(Machine& machine);
  // The machine goes down, and a person says so by a taint of its Node. It comes up again, and the person takes the
  // taint off a little later.
  void TakeOutOfService(Machine& machine);
  // Somebody binds a pod to a Node that is gone, or that never was.
  void CreateGhost(const Machine& machine);
  // All pods of the machine, or of all machines, are deleted at once.
  void Cascade(Machine& machine);
  // Another machine takes its name. It goes off at once, or its agents run on for a while.
  void Replace(Machine& machine);
  // Somebody takes an entry out of a block. Returns when it is there again.
  void EditByHand(Machine& machine);
  // The same while no agent runs: the controller puts it there again.
  void EditWithoutAgent(Machine& machine);
  struct Place {
    std::string block;
    std::string offset;
    std::string text;
    std::string address;
  };
  // A held entry in an own block of the machine, of which an agent serves, of a pod whose container stays; with
  // `is_told` one of which the API server knows that it has the address.
  [[nodiscard]] std::optional<Place> AnyEntry(const Machine& machine, bool is_told) const;
  void TakeOut(const Place& place);
  [[nodiscard]] bool IsThere(const Place& place) const;
  void EditPool();
  // Answers to creations may get lost, or their blocks be refused, or their programs die.
  [[nodiscard]] bool MayLoseBlocks() const;
  // Selectors of pools, and labels that they select.
  void EditSelectors(const Machine& machine);
  // A person replaces a pool, while requests of some nodes about pools fail, or are late.
  void ReplacePool(const Machine& machine);
  void ReplacePoolNow(const std::string& name);
  // Returns when nothing is held in the pool, or after half a minute.
  void AwaitUnused(const std::string& pool);
  void GiveBackBlocksOf(const std::string& pool);
  // For up to an hour the API server refuses each write of one block.
  void RefuseBlock();
  void RefuseBlockFor(const nlohmann::json& block, Nanos time);
  // Rule `apart`. Requires: nothing else goes wrong.
  void CheckApart(const nlohmann::json& refused);
  void TroublePools(const std::vector<Machine*>& machines);
  // A pod of a tenant comes, with an odd network configuration.
  void StartTenant(Machine& machine);
  // Containers come and go on the machine, besides those of its callers.
  void StartMore(Machine& machine, Nanos after);
  // The node's configuration is changed after a while, and its requests about pools succeed again.
  void ComeToUse(Machine& machine, const std::string& before, const std::string& pool);
  // Whoever has an address, and is not in what a restored backup holds.
  void NoteTakenOut(const k8sclient::testing::ModelApi::Backup& now);
  void BackUpOrRestore();
  void DeleteAllocation();
  void DeleteBlock();
  // As the controller gives back an empty block.
  void GiveBackBlock();
  void GiveBack(const nlohmann::json& block);
  [[nodiscard]] nlohmann::json FindBlock(const std::string& name) const;
  void ComeToRest();
  [[nodiscard]] std::string Unrest() const;
  // The controller has freed the addresses of those whose DEL never came.
  void AwaitLost();
  // A pool that was deleted is gone once nothing is held in it.
  void AwaitDrained();
  // Rule `gone`: deleted blocks, and blocks of Nodes that are gone, go within ten minutes unless they name a pod that
  // lives.
  void AwaitGivenBack();
  // A person gives back what the controller does not (docs/operations.md): what static pods had, and, where it does not
  // believe that so many pods are gone, what the others had.
  void ReleaseByHand();
  // Rule `braked`: the controller believes that pods are gone, unless very many are. Requires: nothing goes wrong.
  void CheckBrake();
  void FreeByHand(const std::string& block, const std::string& offset, const std::string& attachment);
  [[nodiscard]] bool HasLost(const ipam::Attachment& attachment) const;
  // The node's token is stolen.
  void StartThief();
  [[nodiscard]] bool NamesLivePod(const std::string& text) const;
  // An entry that the thief wrote ought to be gone: no pod that lives is named, and the address does not rest.
  [[nodiscard]] bool IsLeftOfThief(const nlohmann::json& block, const std::string& text) const;
  // A person deletes the Node whose token was stolen.
  void EndThief();
  // What one of two machines of a name wrote again, of a sandbox that has ended of a pod that lives: it goes with that.
  [[nodiscard]] bool IsKept(const std::string& text) const;
  // One of them; empty: none is left.
  [[nodiscard]] std::string LostAndLeft() const;
  // Of an entry that was put back.
  [[nodiscard]] bool IsPodGone(const std::string& text) const;
  // The admission policy, in the API servers.
  [[nodiscard]] std::optional<std::string> Admit(const std::string& collection, const nlohmann::json& before,
                                                 const nlohmann::json& after);
  // Checkers see a block as it is stored, but what a thief wrote.
  void TellCheckers(const nlohmann::json& before, const nlohmann::json& after);
  // Lets a day pass in which little happens: a few containers come and go each half an hour.
  void LiveADay();
  // Containers come and go while nothing goes wrong.
  void CheckSteady();
  void Churn(Machine& machine, const std::string& called, int containers);
  // Pods that request addresses, and the scheduler that binds them.
  void StartWorkload();
  // The kubelet of the node hears of a pod that the scheduler has bound to it.
  void Deliver(const Pod& pod, const std::string& node);
  void DeliverIfBound(const nlohmann::json& before, const nlohmann::json& after);
  [[nodiscard]] Machine* FindMachine(const std::string& node) const;
  void RestartKubelet(Machine& machine);
  // Where a Node shows more than the blocks that its agent knows could have, the agent gets to know the others. Rule
  // `known`. before: where that was so before the number rose.
  void AwaitKnown(const std::map<std::string, std::string>& before);
  void AwaitNewBlock(Nanos most);
  // By node, for a person.
  [[nodiscard]] std::map<std::string, std::string> UnknownBlocks() const;
  // Many pods that request addresses come at once, and nothing else takes any.
  void CheckBurst();
  // Every pod that the scheduler has placed runs, or has ended.
  void AwaitScheduled();
  // Nodes show what they should. Rule `counted`.
  void AwaitNumbers();
  // Pods that fit somewhere run. Rule `pending`.
  void AwaitPending();

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
  Machines replaced_;  // by others of the same names
  Backups backups_;
  std::unique_ptr<Thief> thief_;  // null: there is none
  Bounds bounds_{story_, network_, machines_, controllers_};
  ProcessPointer outside_ = std::make_shared<Process>("world");
  int agents_left_ = 0;
  int meanwhiles_left_ = 0;  // in which an agent is replaced
  int vanishes_left_ = 1;
  int outages_left_ = 1;  // of a machine that is taken out of service
  int troubled_starts_left_ = 6;
  int tenants_left_ = 12;
  bool is_unwatched_ = false;  // by checkers
  bool is_editing_ = false;    // somebody edits by hand, and only the agent that runs knows what was there
  // Static pods are not there then: whose entry is held again stays held (docs/operations.md).
  bool has_backups_ = false;
  // A machine's name is taken by another, once. Nor are there static pods then: who would free what one of them had?
  bool has_replacement_ = false;
  // A pool is replaced, once at a time.
  bool may_replace_pool_ = false;
  int replacements_left_ = 3;
  int more_ = 0;            // callers that StartMore has named, and tenants
  int replacing_pool_ = 0;  // persons who do it, and nodes that do not use it yet
  // Some pods request addresses. Not beside backups: pods that are unbound in one may run by now.
  bool has_scheduler_ = false;
  // Some networks name an IPv4 and an IPv6 pool.
  bool has_dual_stack_ = false;
  bool has_requests_ = false;             // some pods request certain addresses
  int working_ = 0;                       // threads of the workload
  int delivering_ = 0;                    // pods that a kubelet has still to hear of
  std::map<std::string, Nanos> created_;  // when which block was, by uid
  std::uint64_t kills_ = 0;
  std::string refused_block_;  // no write of it is accepted now
  bool was_refused_ = false;   // some block
};

}  // namespace berth::sim
