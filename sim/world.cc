// SPDX-License-Identifier: Apache-2.0
// The course of a history: events until the kubelets have started all containers, then the checks at its end.
#include "sim/world.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <thread>
#include <utility>

#include <spdlog/fmt/fmt.h>

#include "crds/names.h"
#include "ipam/entry.h"
#include "ipam/prefix.h"
#include "reconciler/read_holders.h"
#include "reconciler/suspects.h"
#include "sim/files.h"
#include "sim/scheduler.h"

namespace berth::sim {

using namespace std::chrono_literals;
using nlohmann::json;
using std::chrono::milliseconds;

namespace {

// NOLINTNEXTLINE(bugprone-throwing-static-initialization): without memory there is no simulation
const std::string kBlocks(crds::kBlocksPath);
constexpr Nanos kHistoryMax = std::chrono::hours(40);
constexpr std::uint64_t kDayOneIn = 64;
// No random event happens after this time: a person may wait for minutes for a controller, and containers live for
// seconds, so the history might never end.
constexpr Nanos kTroubleMax = std::chrono::minutes(40);
// Containers of each node in CheckSteady.
constexpr int kSteadyContainers = 8;
// By how much the clock of an API server is wrong at most.
constexpr Nanos kErrorOfServersMax = 2s;
// For the plant `lists_without_end` (plants.h).
void ListForEver(Machine& machine) {
  while (true) {
    static_cast<void>(machine.link.Call({.method = k8sclient::Method::kGet, .path = kBlocks, .body = {}}, {}));
    std::this_thread::sleep_for(100ms);
  }
}

}  // namespace

World::World(std::uint64_t seed, Extent extent, const Plant* plant, bool is_told)
    : seed_(seed),
      extent_(std::move(extent)),
      plant_(plant),
      story_(is_told),
      network_(story_),
      cluster_(store_, story_),
      pools_(store_, story_),
      controllers_(network_, story_),
      counted_(store_, story_),
      scheduler_(store_, counted_, story_),
      workload_(cluster_),
      backups_(store_, cluster_, network_, story_, machines_) {
  Begin(seed);
  checkers_ = MakeCheckers(story_, May("server-clocks") ? kErrorOfServersMax : Nanos(0));
  if (plant_ != nullptr) {
    cluster_.RenewWhenCutOff(plant_->renews_when_cut_off);
    network_.Plant(plant_->lies);
    scheduler_.LagOfNodes(plant_->lag_of_scheduler);
    if (plant_->ignores_syncs) IgnoreSyncsOf(".agent");
  }
  store_.OnStore([this](const std::string& collection, const json& before, const json& after) {
    const auto change = std::make_shared<const ApiServer::Change>(collection, before, after);
    for (const auto& server : servers_) server->Learn(change);
    if (collection == crds::kPoolsPath) {
      pools_.Stored(before, after);
      for (const auto& checker : checkers_) checker->PoolStored(before, after);
    }
    controllers_.Stored(collection, after);
    if (has_scheduler_) {
      counted_.Stored(collection, before, after);
      scheduler_.Stored(collection, before, after);
      if (collection == reconciler::kPodsPath) DeliverIfBound(before, after);
    }
    if (collection == kBlocks) story_.TellBlock(before, after);
    if (collection == kBlocks && !is_unwatched_) TellCheckers(before, after);
  });
  store_.OnAdmission([this](const std::string& collection, const json& before, const json& after) {
    return Admit(collection, before, after);
  });
  store_.OnUnchanged([this](const k8sclient::Request& request) { counted_.Unchanged(request); });
  store_.OnRestore([this](const k8sclient::testing::ModelApi::Backup& now) {
    for (const auto& server : servers_) server->Reload(now);
    network_.CutAll();
    NoteTakenOut(now);
  });
}

World::~World() = default;

Outcome World::Run() {
  Spawn(outside_, [this] { Main(); });
  const Ended ended = sim::Run(kHistoryMax);
  if (ended == Ended::kStuck) story_.Break("goes-on", "all wait for one another");
  if (ended == Ended::kTimeOver) story_.Break("goes-on", "it does not end");
  if (ended == Ended::kLivelock) story_.Break("goes-on", "threads only wake one another");
  Outcome outcome{.broken = story_.broken(),
                  .hash = Hash(),
                  .calls = 0,
                  .requests = network_.requests(),
                  .faults = network_.faults() + kills_,
                  .switches = Switches(),
                  .seconds = std::chrono::duration<double>(Now()).count()};
  for (const auto& machine : machines_) outcome.calls += machine->kubelet.calls();
  for (const auto& machine : replaced_) outcome.calls += machine->kubelet.calls();
  return outcome;
}

void World::NoteTakenOut(const k8sclient::testing::ModelApi::Backup& now) {
  std::set<std::pair<ipam::Attachment, std::string>> recorded;
  if (const auto blocks = now.collections.find(kBlocks); blocks != now.collections.end()) {
    for (const auto& [name, block] : blocks->second) {
      const RecordedAddresses its = RecordedIn(block);
      recorded.insert(its.begin(), its.end());
    }
  }
  for (const auto& machine : machines_) {
    for (const auto& [attachment, holding] : machine->kubelet.holders()) {
      for (const std::string& address : holding.addresses) {
        if (recorded.contains({attachment, address})) continue;
        for (const auto& checker : checkers_) checker->TakenOut(attachment, address);
      }
    }
  }
}

std::vector<PodNetwork> World::AnyNetworks(bool tells_odd_uids) const {
  PodNetwork first{.name = kFirstNetwork, .interface = kFirstInterface, .pools = pools_.BigOnes()};
  PodNetwork second{.name = kSecondNetwork, .interface = kSecondInterface, .pools = pools_.SmallOnes()};
  // The swap is more likely if pools may be replaced: another node finds the empty block that a node left of a gone
  // pool only if both nodes use Shared blocks.
  if (May("shared") && Below(may_replace_pool_ ? 2 : 4) == 0) std::swap(first.pools, second.pools);
  // Only the kubelet knows which addresses pods with wrong UIDs have, and it reports the addresses of one network only.
  const bool may_have_second = !tells_odd_uids && (May("second") || has_spaces_);
  const bool has_second = may_have_second && Below(has_spaces_ ? 2 : 3) == 0;
  // The scheduler counts the addresses of the first network.
  if (has_spaces_ && !has_scheduler_ && Below(3) == 0) UseSecondSpace(first);
  if (has_spaces_ && Below(3) != 0) UseSecondSpace(second);
  if (has_dual_stack_) {
    for (PodNetwork* const network : {&first, &second}) AddIpv6(*network);
  }
  if (!has_second) return {first};
  return {first, second};
}

void World::AddServers() {
  const auto servers = 1 + Below(static_cast<std::uint64_t>(extent_.servers));
  for (std::uint64_t i = 1; i <= servers; ++i) {
    servers_.push_back(std::make_unique<ApiServer>(store_, "apiserver" + std::to_string(i)));
    if (May("server-clocks"))
      servers_.back()->ClockIsWrongBy(Nanos(Below(2 * kErrorOfServersMax.count())) - kErrorOfServersMax);
    network_.Add(*servers_.back());
  }
  if (May("compact") && Below(2) == 0) store_.SetPageMax(1 + Below(4));
}

void World::AddMachine(const std::string& name) {
  const bool is_direct = May("direct") && !has_backups_ && Below(2) == 0;
  machines_.push_back(MakeMachine(name, name, is_direct));
  if (controllers_.count() > 0) cluster_.AddNode(name);
  StartMachine(*machines_.back());
}

std::unique_ptr<Machine> World::MakeMachine(const std::string& name, const std::string& called, bool is_direct) {
  constexpr std::array<std::size_t, 3> kStandby{0, 3, 16};
  const bool tells_odd_uids = machines_.empty() && May("odd-uid") && Below(8) == 0;
  return std::make_unique<Machine>(Node::Options{.name = name,
                                                 .called = called,
                                                 .folder = std::string(kFiles) + called,
                                                 .is_direct = is_direct,
                                                 .standby = kStandby.at(Below(kStandby.size())),
                                                 .queues_dels = May("queue"),
                                                 .slow_one_in = May("pause") && Below(2) == 0 ? std::uint64_t{3} : 0,
                                                 .clock_error = AnyClockError()},
                                   network_,
                                   story_,
                                   checkers_,
                                   Kubelet::Options{.networks = AnyNetworks(tells_odd_uids),
                                                    .cluster = controllers_.count() == 0 ? nullptr : &cluster_,
                                                    .loses_dels = May("no-del"),
                                                    .renews_sandboxes = May("sandbox"),
                                                    .ends_slowly = May("slow-end") && !has_backups_,
                                                    .has_static_pods = !has_backups_ && !has_replacement_,
                                                    .tells_odd_uids = tells_odd_uids,
                                                    .checks = May("check"),
                                                    .counted = has_scheduler_ ? &counted_ : nullptr,
                                                    .any_request = AnyRequests()});
}

void World::StartMachine(Machine& machine) {
  machine.link.OnWrite([this, &machine](const k8sclient::Request& request) {
    // Creations are rare, and no fence protects them.
    return ReplaceMeanwhile(machine, request.method == k8sclient::Method::kPost ? 4 : 32) && Below(2) == 0;
  });
  machine.node.OnCall([this, &machine] { ReplaceMeanwhile(machine, 64); });
  machine.node.BeforeStart([this, &machine](const std::string& folder) {
    if (plant_ != nullptr && plant_->before_start) plant_->before_start(folder);
    TroubleStart(machine);
  });
  if (plant_ != nullptr) {
    machine.node.BeforeCall(plant_->before_call);
    machine.kubelet.Plant(plant_->call);
    if (plant_->lists_without_end) Spawn(std::make_shared<Process>("lister"), [&machine] { ListForEver(machine); });
  }
  machine.node.StartAgent();
  Spawn(machine.kubelet.process(), [&machine] { machine.kubelet.CheckNowAndThen(); });
  const auto callers = static_cast<int>(1 + Below(static_cast<std::uint64_t>(extent_.callers)));
  for (int caller = 0; caller < callers; ++caller) {
    const auto containers = static_cast<int>(1 + Below(static_cast<std::uint64_t>(extent_.containers)));
    Churn(machine, fmt::format("{}c{}", machine.node.called(), caller), containers);
  }
}

void World::Churn(Machine& machine, const std::string& called, int containers) {
  ++machine.churning;
  Spawn(machine.kubelet.process(), [&machine, containers, called] {
    machine.kubelet.Churn(called, containers);
    --machine.churning;
  });
}

void World::StartControllers(bool has_rivals) {
  const auto controllers_max = static_cast<std::uint64_t>(extent_.controllers);
  auto controllers = has_rivals ? controllers_max : Below(controllers_max + 1);
  if (plant_ != nullptr && plant_->counts) controllers = std::max<std::uint64_t>(controllers, 1);
  const bool elects = plant_ != nullptr && plant_->elects;
  if (!has_rivals && (elects || (May("election") && controllers > 0 && Below(2) == 0))) {
    controllers_.BeginElections();
    if (elects || Below(4) != 0) controllers = std::max<std::uint64_t>(controllers, 2);
  }
  for (auto left = controllers; left > 0; --left) controllers_.Start(AnyClockError());
}

void World::Main() {
  AddServers();
  const bool has_rivals = plant_ != nullptr && plant_->has_rivals;
  StartControllers(has_rivals);
  ChangeWeather(/*is_calm=*/false);
  has_backups_ = May("restore") && controllers_.count() > 0 && Below(2) == 0 && !controllers_.has_elections() &&
                 !(plant_ != nullptr && plant_->counts);
  const bool is_counting = plant_ != nullptr && plant_->counts;
  has_scheduler_ = May("scheduler") && controllers_.count() > 0 && !has_backups_ && (is_counting || Below(2) == 0);
  const bool has_twin = May("pools") && controllers_.count() > 0 && !has_backups_ && (has_rivals || Below(2) == 0);
  may_replace_pool_ = May("pool-replaced") && controllers_.count() > 0 && !has_backups_ && !has_twin && !has_scheduler_;
  has_dual_stack_ = May("dual-stack") && Below(4) != 0;
  has_spaces_ = May("spaces") && Below(2) == 0;
  if (MayLoseBlocks()) {
    for (const auto& checker : checkers_) checker->MayLoseBlocks(true);
  }
  if (May("finalizer")) cluster_.KeepFinalizers();
  has_requests_ = May("requests") && !has_scheduler_;
  pools_.Make({.has_controllers = controllers_.count() > 0,
               .has_twin = has_twin,
               .has_dual_stack = has_dual_stack_,
               .has_spaces = has_spaces_,
               .is_counted = has_scheduler_,
               .has_limits = May("block-limit") && !has_scheduler_ && !has_backups_,
               .allows_requests = has_requests_ || May("tenant"),
               .is_replaced = may_replace_pool_});
  if (controllers_.count() > 0) {
    Spawn(std::make_shared<Process>("collector"), [this] { cluster_.CollectGarbage(); });
  }
  has_replacement_ = May("replaced") && controllers_.count() > 0 && !has_backups_ && Below(2) == 0;
  if (May("odd-pods") && !has_backups_) cluster_.MakeOddPods(seed_);
  Spawn(outside_, [this] { bounds_.WatchForStorms(); });
  agents_left_ = static_cast<int>(Below(static_cast<std::uint64_t>(extent_.agents)));
  meanwhiles_left_ = May("meanwhile") ? static_cast<int>(Below(2 * static_cast<std::uint64_t>(extent_.agents))) : 0;
  const auto nodes = 1 + Below(static_cast<std::uint64_t>(extent_.nodes));
  for (std::uint64_t i = 1; i <= nodes; ++i) AddMachine("n" + std::to_string(i));
  StartThief();
  if (has_scheduler_) StartWorkload();
  while (IsChurning()) {
    if (Now() < kTroubleMax)
      OneMoment();
    else
      WaitCalmly();
  }
  // A plant is found sooner without such a day.
  if (plant_ == nullptr && May("day") && Below(kDayOneIn) == 0) LiveADay();
  EndThief();
  CheckEnd(is_counting);
  Stop();
}

void World::CheckEnd(bool is_counting) {
  ComeToRest();
  for (const auto& machine : machines_) machine->kubelet.EndChecks();
  for (const auto& machine : machines_) machine->kubelet.CheckAll();
  controllers_.CheckSuccession();
  controllers_.LeaveOne();
  AwaitGivenBack();
  bounds_.CheckQuiet(pools_.cooldown());
  scheduler_.Pause(false);
  if (has_scheduler_) AwaitPending();
  if (has_scheduler_ && (is_counting || Below(3) == 0)) CheckBurst();
  CheckSteady();
  workload_.EndWaiting();
  if (has_scheduler_) AwaitScheduled();
  for (const auto& machine : machines_) machine->kubelet.EndAll();
  if (has_scheduler_) AwaitNumbers();
  cluster_.RemoveEnded();
  ComeToRest();
  if (has_scheduler_) AwaitNumbers();
  AwaitDrained();
  // CheckGrowth takes twelve minutes of virtual time, so only some histories run it.
  if (Below(8) == 0 || was_refused_) bounds_.CheckGrowth();
}

void World::AwaitScheduled() {
  constexpr Nanos kBindingMax = 1s;
  std::this_thread::sleep_for(kBindingMax);
  while (IsChurning()) std::this_thread::sleep_for(100ms);
}

Machine* World::FindMachine(const std::string& node) const {
  const auto found = std::ranges::find_if(machines_, [&](const auto& one) { return one->node.name() == node; });
  return found == machines_.end() ? nullptr : found->get();
}

void World::StartWorkload() {
  scheduler_.Start();
  std::vector<std::string> nodes;
  for (const auto& machine : machines_) nodes.push_back(machine->node.name());
  const auto threads = static_cast<int>(1 + Below(2 * static_cast<std::uint64_t>(extent_.callers)));
  for (int thread = 0; thread < threads; ++thread) {
    const auto pods = static_cast<int>(1 + Below(static_cast<std::uint64_t>(extent_.containers)));
    ++working_;
    Spawn(outside_, [this, pods, nodes, name = fmt::format("w{}", thread)] {
      workload_.Churn(name, pods, nodes);
      --working_;
    });
  }
}

void World::DeliverIfBound(const json& before, const json& after) {
  if (after.is_null() || before.is_null() || !NodeOf(before).empty() || NodeOf(after).empty()) return;
  const Pod pod{.name = after["metadata"]["name"],
                .uid = after["metadata"]["uid"],
                .units = UnitsOf(after),
                .grace = std::chrono::seconds(after["spec"]["terminationGracePeriodSeconds"].get<std::int64_t>())};
  ++delivering_;
  Spawn(outside_, [this, pod, node = NodeOf(after)] {
    Deliver(pod, node);
    --delivering_;
  });
}

void World::Deliver(const Pod& pod, const std::string& node) {
  // Kubernetes deletes a pod after about this time if its node is gone.
  constexpr Nanos kCollected = 60s;
  std::this_thread::sleep_for(milliseconds(Below(10) == 0 ? Below(1'000) : Below(50)));
  const Nanos since = Now();
  while (cluster_.Knows(pod)) {
    Machine* const machine = FindMachine(node);
    if (cluster_.IsConnected(node) && !machine->node.is_off() && !machine->is_gone) {
      ++machine->churning;
      return Spawn(machine->kubelet.process(), [machine, pod] {
        machine->kubelet.RunScheduled(pod);
        --machine->churning;
      });
    }
    if (cluster_.IsGone(node) && Now() - since > kCollected) return cluster_.RemovePod(pod);
    std::this_thread::sleep_for(500ms);
  }
}

void World::RestartKubelet(Machine& machine) {
  if (cluster_.IsConnected(machine.node.name()) && !machine.node.is_off()) {
    counted_.RestartKubelet(machine.node.name());
  }
}

void World::LiveADay() {
  story_.Tell("a day passes");
  constexpr Nanos kEvery = 30min;
  constexpr int kMoments = 4;
  const Nanos end = Now() + 24h;
  while (Now() < end) {
    std::this_thread::sleep_for(kEvery);
    StartMore(*machines_[Below(machines_.size())], 0s);
    for (int i = 0; i < kMoments; ++i) OneMoment();
    while (IsChurning()) WaitCalmly();
  }
}

void World::CheckSteady() {
  for (const auto& checker : checkers_) {
    checker->Withheld(pools_.Withheld());
    checker->MayLoseBlocks(false);
  }
  Checker::BarredSubnets barred;
  for (const auto& machine : machines_) {
    const std::string& node = machine->node.name();
    for (const Subnet& subnet : pools_.BarredFor(cluster_.LabelsOfNode(node), cluster_.LabelsOfNamespace())) {
      barred.emplace(node, subnet);
    }
  }
  for (const auto& checker : checkers_) checker->Barred(barred);
  bounds_.BeginSteady();
  // A container that hangs would take ten minutes, and in this time idle nodes send LISTs as well.
  for (const auto& machine : machines_) {
    machine->kubelet.NeverHang();
    machine->kubelet.NeverRequest();
  }
  for (const auto& machine : machines_) Churn(*machine, machine->node.name() + "steady", kSteadyContainers);
  while (IsChurning()) std::this_thread::sleep_for(100ms);
  bounds_.EndSteady(kSteadyContainers);
}

}  // namespace berth::sim
