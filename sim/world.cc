// SPDX-License-Identifier: Apache-2.0
// The course of a history: moments until the kubelets are through, then rest.
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
constexpr Nanos kHistoryMax = std::chrono::hours(3);
// A person may wait for what a controller does within minutes, and would wait for ever if each lived for seconds.
constexpr Nanos kTroubleMax = std::chrono::minutes(40);
// Of each node, once nothing goes wrong any more.
constexpr int kSteadyContainers = 8;
// A pod that a controller did not see go is waited for for ten minutes, and its node's Lease, and a node that was cut
// off before (docs/controller.md).
constexpr Nanos kFreedMax = std::chrono::minutes(14);

constexpr const char* kOfThief = "the thief's ";

// What is planted (plants.h).
void ListForEver(Machine& machine) {
  while (true) {
    static_cast<void>(machine.link.Call({.method = k8sclient::Method::kGet, .path = kBlocks, .body = {}}, {}));
    std::this_thread::sleep_for(100ms);
  }
}

}  // namespace

World::World(std::uint64_t seed, Extent extent, const Plant* plant, bool is_told)
    : extent_(std::move(extent)),
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
  checkers_ = MakeCheckers(story_);
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
    if (collection == kBlocks && before.is_null()) created_[after["metadata"]["uid"]] = Now();
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
  // An empty block that one node leaves of a pool that is gone is found by another node only if both use Shared blocks.
  if (May("shared") && Below(may_replace_pool_ ? 2 : 4) == 0) std::swap(first.pools, second.pools);
  // Of the addresses of such pods nobody but the kubelet tells that they are in use, and it tells those of one network.
  const bool has_second = !tells_odd_uids && May("second") && Below(3) == 0;
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
                                                 .slow_one_in = May("pause") && Below(2) == 0 ? std::uint64_t{3} : 0,
                                                 .clock_error = AnyClockError()},
                                   network_,
                                   story_,
                                   checkers_,
                                   Kubelet::Options{.networks = AnyNetworks(tells_odd_uids),
                                                    .cluster = controllers_.count() == 0 ? nullptr : &cluster_,
                                                    .loses_dels = May("no-del"),
                                                    .renews_sandboxes = May("sandbox"),
                                                    .ends_slowly = May("slow-end"),
                                                    .has_static_pods = !has_backups_ && !has_replacement_,
                                                    .tells_odd_uids = tells_odd_uids,
                                                    .checks = May("check"),
                                                    .counted = has_scheduler_ ? &counted_ : nullptr,
                                                    .any_request = AnyRequests()});
}

void World::StartMachine(Machine& machine) {
  machine.link.OnWrite([this, &machine](const k8sclient::Request& request) {
    // Creations are rare, and nothing fences them.
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

void World::Main() {
  AddServers();
  const auto controllers_max = static_cast<std::uint64_t>(extent_.controllers);
  const bool has_rivals = plant_ != nullptr && plant_->has_rivals;
  auto controllers = has_rivals ? controllers_max : Below(controllers_max + 1);
  if (plant_ != nullptr && plant_->counts) controllers = std::max<std::uint64_t>(controllers, 1);
  const bool elects = plant_ != nullptr && plant_->elects;
  if (!has_rivals && (elects || (May("election") && controllers > 0 && Below(2) == 0))) {
    controllers_.BeginElections();
    if (elects || Below(4) != 0) controllers = std::max<std::uint64_t>(controllers, 2);
  }
  for (auto left = controllers; left > 0; --left) controllers_.Start(AnyClockError());
  ChangeWeather(/*is_calm=*/false);
  has_backups_ = May("restore") && controllers_.count() > 0 && Below(2) == 0 && !controllers_.has_elections() &&
                 !(plant_ != nullptr && plant_->counts);
  const bool is_counting = plant_ != nullptr && plant_->counts;
  has_scheduler_ = May("scheduler") && controllers_.count() > 0 && !has_backups_ && (is_counting || Below(2) == 0);
  const bool has_twin = May("pools") && controllers_.count() > 0 && !has_backups_ && (has_rivals || Below(2) == 0);
  may_replace_pool_ = May("pool-replaced") && controllers_.count() > 0 && !has_backups_ && !has_twin && !has_scheduler_;
  has_dual_stack_ = May("dual-stack") && Below(4) != 0;
  if (MayLoseBlocks()) {
    for (const auto& checker : checkers_) checker->MayLoseBlocks(true);
  }
  has_requests_ = May("requests") && !has_scheduler_;
  pools_.Make({.has_controllers = controllers_.count() > 0,
               .has_twin = has_twin,
               .has_dual_stack = has_dual_stack_,
               .is_counted = has_scheduler_,
               .has_limits = May("block-limit") && !has_scheduler_ && !has_backups_,
               .allows_requests = has_requests_ || May("tenant"),
               .is_replaced = may_replace_pool_});
  if (controllers_.count() > 0) {
    Spawn(std::make_shared<Process>("collector"), [this] { cluster_.CollectGarbage(); });
  }
  has_replacement_ = May("replaced") && controllers_.count() > 0 && !has_backups_ && Below(2) == 0;
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
  EndThief();
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
  // Long, so not in all of them.
  if (Below(8) == 0 || was_refused_) bounds_.CheckGrowth();
  Stop();
}

std::string World::Unrest() const {
  const auto restless = std::ranges::find_if(machines_, [](const auto& machine) { return !machine->node.IsAtRest(); });
  return restless == machines_.end() ? "" : (*restless)->node.Unrest();
}

void World::ComeToRest() {
  story_.Tell("calm");
  meanwhiles_left_ = 0;
  troubled_starts_left_ = 0;
  ChangeWeather(true);
  // A pod that gets its address while the rules are checked would break them.
  scheduler_.Pause(true);
  if (has_scheduler_) AwaitScheduled();
  const Nanos end = Now() + 90s;
  const auto is_at_rest = [this] {
    return cluster_.HaveToldAgain() &&
           std::ranges::all_of(machines_, [](const auto& machine) { return machine->node.IsAtRest(); });
  };
  while (!is_at_rest()) {
    for (const auto& machine : machines_) machine->node.Supervise();
    if (Now() > end) return story_.Break("rest", Unrest());
    std::this_thread::sleep_for(50ms);
  }
  AwaitLost();
  auto blocks = store_.Objects(kBlocks);
  for (json& block : blocks) {
    if (thief_ != nullptr) block = Thief::WithoutIts(block);
    if (block.is_null()) continue;
    const json entries = block["allocations"];
    for (const auto& [offset, text] : entries.items()) {
      if (IsKept(text.get_ref<const std::string&>())) block["allocations"].erase(offset);
    }
  }
  std::erase_if(blocks, [](const json& block) { return block.is_null(); });
  for (const auto& checker : checkers_) checker->AtRest(blocks);
}

void World::AwaitScheduled() {
  constexpr Nanos kBindingMax = 1s;
  std::this_thread::sleep_for(kBindingMax);
  while (IsChurning()) std::this_thread::sleep_for(100ms);
}

std::string World::LostAndLeft() const {
  for (const json& block : store_.Objects(kBlocks)) {
    for (const json& entry : block["allocations"]) {
      const std::string& text = entry.get_ref<const std::string&>();
      const std::string attachment(ipam::AttachmentOf(text));
      if (thief_ != nullptr && Thief::IsIts(block, text)) {
        if (IsLeftOfThief(block, text)) return kOfThief + text;
        continue;
      }
      const bool was_put_back = attachment.starts_with(reconciler::kNoNetwork);
      if (attachment.empty()) continue;
      const auto may_hold = [&](const auto& machine) { return machine->kubelet.MayHold(attachment); };
      // It was given back after the backup was taken.
      if (backups_.was_restored() && !was_put_back && IsPodGone(text) && std::ranges::none_of(machines_, may_hold))
        return text;
      if (was_put_back ? IsPodGone(text) : HasLost(attachment) && !IsKept(text)) return text;
    }
  }
  return {};
}

bool World::IsKept(const std::string& text) const {
  const ipam::Attachment attachment(ipam::AttachmentOf(text));
  return !replaced_.empty() && !attachment.empty() && !attachment.starts_with(reconciler::kNoNetwork) &&
         HasLost(attachment) && !IsPodGone(text);
}

bool World::HasLost(const ipam::Attachment& attachment) const {
  const auto has_lost = [&](const auto& machine) { return machine->kubelet.lost().contains(attachment); };
  return std::ranges::any_of(machines_, has_lost) || std::ranges::any_of(replaced_, has_lost);
}

bool World::IsPodGone(const std::string& text) const {
  const auto entry = ipam::ParseEntry(text);
  const auto pods = store_.Objects(std::string(reconciler::kPodsPath));
  const std::string& uid = std::get<ipam::HeldEntry>(entry).uid;
  return std::ranges::none_of(pods, [&](const json& pod) { return pod["metadata"]["uid"] == uid; });
}

void World::ReleaseByHand() {
  const bool is_braked = pools_.IsBraked();
  for (const json& block : store_.Objects(kBlocks)) {
    for (const auto& [offset, text] : block["allocations"].items()) {
      const ipam::Attachment attachment(ipam::AttachmentOf(text.get_ref<const std::string&>()));
      const auto is_static = [&](const auto& machine) { return machine->kubelet.lost_static().contains(attachment); };
      const bool is_thiefs = thief_ != nullptr && Thief::IsIts(block, text.get_ref<const std::string&>());
      const bool is_false = is_braked && (is_thiefs || HasLost(attachment));
      if (attachment.empty() || !(std::ranges::any_of(machines_, is_static) || is_false)) continue;
      story_.Tell("gives back what " + attachment + " had");
      FreeByHand(block["metadata"]["name"], offset, attachment);
    }
  }
}

void World::AwaitLost() {
  CheckBrake();
  const Nanos end = Now() + kFreedMax;
  std::string left;
  ReleaseByHand();
  while (!(left = LostAndLeft()).empty()) {
    if (Now() > end) {
      const char* const rule = left.starts_with(kOfThief) ? "stolen" : "dead-freed";
      return story_.Break(rule, "the address of a pod that is gone is still held: " + left);
    }
    std::this_thread::sleep_for(5s);
    ReleaseByHand();
  }
}

void World::AwaitDrained() {
  const Nanos end = Now() + 3min;
  while (pools_.IsDraining()) {
    if (Now() > end) return story_.Break("drained", "a deleted pool is still there, and nothing is held in it");
    std::this_thread::sleep_for(1s);
  }
}

void World::AwaitGivenBack() {
  if (controllers_.count() == 0) return;
  const Nanos end = Now() + 5min;
  const auto is_going = [this](const json& block) {
    const std::string node = block["spec"].value("node", "");
    return block["metadata"].contains("deletionTimestamp") || cluster_.IsGone(node);
  };
  while (pools_.IsDraining() || std::ranges::any_of(store_.Objects(kBlocks), is_going)) {
    if (Now() > end) return;
    std::this_thread::sleep_for(1s);
  }
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
  const Pod pod{.name = after["metadata"]["name"], .uid = after["metadata"]["uid"], .units = UnitsOf(after)};
  ++delivering_;
  Spawn(outside_, [this, pod, node = NodeOf(after)] {
    Deliver(pod, node);
    --delivering_;
  });
}

void World::Deliver(const Pod& pod, const std::string& node) {
  // Kubernetes deletes a pod of a node that is gone after about this time.
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

void World::CheckSteady() {
  for (const auto& checker : checkers_) {
    checker->Withheld(pools_.Withheld());
    checker->MayLoseBlocks(false);
  }
  Checker::BarredSubnets barred;
  for (const auto& machine : machines_) {
    const std::string& node = machine->node.name();
    for (const std::string& subnet : pools_.BarredFor(cluster_.LabelsOfNode(node), cluster_.LabelsOfNamespace())) {
      barred.emplace(node, subnet);
    }
  }
  for (const auto& checker : checkers_) checker->Barred(barred);
  bounds_.BeginSteady();
  // A container that hangs would take ten minutes, in which idle nodes list as well.
  for (const auto& machine : machines_) {
    machine->kubelet.NeverHang();
    machine->kubelet.NeverRequest();
  }
  for (const auto& machine : machines_) Churn(*machine, machine->node.name() + "steady", kSteadyContainers);
  while (IsChurning()) std::this_thread::sleep_for(100ms);
  bounds_.EndSteady(kSteadyContainers);
}

}  // namespace berth::sim
