// SPDX-License-Identifier: Apache-2.0
// The course of a history: moments until the kubelets are through, then rest.
#include "sim/world.h"

#include <algorithm>
#include <filesystem>
#include <thread>
#include <utility>

#include <spdlog/fmt/fmt.h>

#include "crds/names.h"
#include "sim/libc.h"
#include "sim/scheduler.h"

namespace berth::sim {

using namespace std::chrono_literals;
using nlohmann::json;
using std::chrono::milliseconds;

namespace {

// NOLINTNEXTLINE(bugprone-throwing-static-initialization): without memory there is no simulation
const std::string kBlocks(crds::kBlocksPath);
constexpr Nanos kHistoryMax = std::chrono::hours(3);
// Of one node that has nothing to do, a minute: looks at its pools and blocks, and nothing that grows with them.
constexpr std::uint64_t kQuietRequestsMax = 30;
// A pod that a controller did not see go is waited for for ten minutes, and its node's Lease, and a node that was cut
// off before (docs/controller.md).
constexpr Nanos kFreedMax = std::chrono::minutes(14);

bool IsEmpty(const json& block) {
  return block.value("allocations", json::object()).empty() && block.value("standby", json::array()).empty();
}

}  // namespace

struct World::Machine {
  Machine(Node::Options options, Network& network, Story& story, const Kubelet::Checkers& checkers,
          Kubelet::Options of_kubelet)
      : folder(options.folder),
        node(std::move(options), network, story),
        kubelet(node, story, checkers, std::move(of_kubelet)) {}
  std::string folder;
  Node node;
  Kubelet kubelet;
  int churning = 0;
};

std::set<std::string> Extent::AllFaults() {
  return {"away",
          "refused",
          "lost",
          "late",
          "lag",
          "kill",
          "overlap",
          "reboot",
          "restart",
          "give-back",
          "gc",
          "calendar",
          "shared",
          "cut-off",
          "no-del"};
}

World::World(std::uint64_t seed, Extent extent, const Plant* plant, std::string folder, bool is_told)
    : extent_(std::move(extent)),
      plant_(plant),
      folder_(std::move(folder)),
      story_(is_told),
      network_(story_),
      cluster_(store_, story_),
      controllers_(network_, story_) {
  std::filesystem::remove_all(folder_);
  std::filesystem::create_directories(folder_);
  Begin(seed);
  checkers_.push_back(MakeOneHolder(story_));
  checkers_.push_back(MakeNothingLiveFreed(story_));
  checkers_.push_back(MakeNothingLeft(story_));
  checkers_.push_back(MakeInTime(story_));
  if (plant_ != nullptr) {
    cluster_.RenewWhenCutOff(plant_->renews_when_cut_off);
    network_.Plant(plant_->lies);
    FreeLocksOf(plant_->free_lock);
  }
  store_.OnStore([this](const std::string& collection, const json& before, const json& after) {
    const auto change = std::make_shared<const ApiServer::Change>(collection, before, after);
    for (const auto& server : servers_) server->Learn(change);
    if (collection != kBlocks) return;
    for (const auto& checker : checkers_) checker->Stored(before, after);
  });
}

World::~World() = default;

Outcome World::Run() {
  Spawn(outside_, [this] { Main(); });
  const Ended ended = sim::Run(kHistoryMax);
  std::filesystem::remove_all(folder_);
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
  return outcome;
}

void World::PutPool(const std::string& name, const std::string& subnet, bool is_shared) {
  json pool = {{"metadata", {{"name", name}, {"uid", "uid-of-" + name}, {"generation", 1}}},
               {"spec",
                {{"subnet", subnet},
                 {"affinity", is_shared ? "Shared" : "Node"},
                 {"warmAddresses", Below(2) * 8},
                 {"blockSize", 28}}}};
  if (controllers_.count() == 0) {
    pool["status"]["conditions"] = {{{"type", "Ready"}, {"status", "True"}, {"reason", "Accepted"}}};
  }
  store_.Put(std::string(crds::kPoolsPath), pool);
}

void World::AddServers() {
  const auto servers = 1 + Below(static_cast<std::uint64_t>(extent_.servers));
  for (std::uint64_t i = 1; i <= servers; ++i) {
    servers_.push_back(std::make_unique<ApiServer>(store_, "apiserver" + std::to_string(i)));
    network_.Add(*servers_.back());
  }
}

void World::AddMachine(const std::string& name) {
  constexpr std::array<std::size_t, 3> kStandby{0, 3, 16};
  std::vector<std::string> pools{"big"};
  if (May("shared") && Below(4) == 0) pools = {"small"};
  machines_.push_back(std::make_unique<Machine>(
      Node::Options{.name = name, .folder = folder_ + "/" + name, .standby = kStandby.at(Below(kStandby.size()))},
      network_,
      story_,
      checkers_,
      Kubelet::Options{
          .pools = pools, .cluster = controllers_.count() == 0 ? nullptr : &cluster_, .loses_dels = May("no-del")}));
  if (controllers_.count() > 0) cluster_.AddNode(name);
  Machine& machine = *machines_.back();
  if (plant_ != nullptr) {
    machine.node.BeforeStart(plant_->before_start);
    machine.kubelet.Plant(plant_->call);
  }
  machine.node.StartAgent();
  const auto callers = static_cast<int>(1 + Below(static_cast<std::uint64_t>(extent_.callers)));
  for (int caller = 0; caller < callers; ++caller) {
    ++machine.churning;
    const auto containers = static_cast<int>(1 + Below(static_cast<std::uint64_t>(extent_.containers)));
    Spawn(std::make_shared<Process>(name + ".kubelet"),
          [&machine, containers, called = fmt::format("{}c{}", name, caller)] {
            machine.kubelet.Churn(called, containers);
            --machine.churning;
          });
  }
}

bool World::IsChurning() const {
  return std::ranges::any_of(machines_, [](const auto& machine) { return machine->churning > 0; });
}

void World::Main() {
  AddServers();
  for (auto left = Below(static_cast<std::uint64_t>(extent_.controllers) + 1); left > 0; --left) controllers_.Start();
  PutPool("big", Below(2) == 0 ? "10.56.0.0/23" : "10.56.0.0/26", false);
  PutPool("small", "10.66.0.0/27", true);
  agents_left_ = static_cast<int>(Below(static_cast<std::uint64_t>(extent_.agents)));
  const auto nodes = 1 + Below(static_cast<std::uint64_t>(extent_.nodes));
  for (std::uint64_t i = 1; i <= nodes; ++i) AddMachine("n" + std::to_string(i));
  while (IsChurning()) OneMoment();
  ComeToRest();
  CheckQuiet();
  for (const auto& machine : machines_) machine->kubelet.EndAll();
  ComeToRest();
  Stop();
}

void World::ChangeWeather(bool is_calm) {
  const auto chance = [this, is_calm](const char* fault, std::uint64_t most) {
    return is_calm || !May(fault) ? 0 : Below(most);
  };
  // Mostly some milliseconds, now and then some seconds.
  const Nanos lag = milliseconds(1 + chance("lag", Below(4) == 0 ? 4'000 : 50));
  network_.Set({.is_away = false,
                .refused = chance("refused", 60),
                .lost = chance("lost", 80),
                .late = chance("late", 80),
                .lag = lag});
}

void World::OneMoment() {
  ChangeWeather(Below(4) == 0);
  std::this_thread::sleep_for(milliseconds(20 + Below(600)));
  for (const auto& machine : machines_) {
    machine->node.Supervise();
    if (plant_ != nullptr && plant_->now_and_then) plant_->now_and_then(machine->folder);
  }
  Machine& machine = *machines_[Below(machines_.size())];
  switch (Below(14)) {
    case 0:
      if (!May("away")) break;
      story_.Tell("the API server is away");
      network_.Set({.is_away = true});
      std::this_thread::sleep_for(milliseconds(Below(3'000)));
      network_.Set({});
      break;
    case 1:
    case 2:
    case 3:
      ReplaceAgent(machine);
      break;
    case 4:
      if (May("reboot") && Below(3) == 0) Reboot(machine);
      break;
    case 5:
    case 6:
    case 7:
      if (May("give-back")) GiveBackBlock();
      break;
    case 8:
      if (May("gc")) machine.kubelet.CollectGarbage();
      break;
    case 9:
      // Not far: the calendar orders entries by age.
      if (May("calendar")) JumpCalendar(milliseconds(Below(4'000)) - 2s);
      break;
    case 10:
      if (May("restart")) network_.RestartOne(milliseconds(Below(500)));
      break;
    case 11:
      if (May("kill")) controllers_.ReplaceOne();
      break;
    case 12:
      if (May("cut-off") && controllers_.count() > 0)
        cluster_.CutOff(machine.node.name(), milliseconds(Below(120'000)));
      break;
    default:
      break;
  }
}

void World::ReplaceAgent(Machine& machine) {
  if (agents_left_ == 0) return;
  const bool overlaps = May("overlap") && Below(3) == 0;
  if (!overlaps && !May("kill")) return;
  --agents_left_;
  ++kills_;
  if (overlaps) return machine.node.StartAgent();
  machine.node.KillAgent();
  std::this_thread::sleep_for(milliseconds(Below(2) == 0 ? 0 : Below(500)));
  machine.node.StartAgent();
}

void World::Reboot(Machine& machine) {
  ++kills_;
  machine.kubelet.Reboot([&machine] { machine.node.Reboot(); });
}

json World::FindBlock(const std::string& name) const {
  for (const json& block : store_.Objects(kBlocks)) {
    if (block["metadata"]["name"] == name) return block;
  }
  return nullptr;
}

void World::GiveBackBlock() {
  const bool in_use_too = plant_ != nullptr && plant_->gives_back_in_use;
  const bool is_blind = plant_ != nullptr && plant_->gives_back_blindly;
  const auto blocks = store_.Objects(kBlocks);
  if (blocks.empty()) return;
  const json& block = blocks[Below(blocks.size())];
  if (!IsEmpty(block) && !in_use_too) return;
  const std::string name = block["metadata"]["name"];
  const std::string path = kBlocks + "/" + name;
  const json options = {{"preconditions", {{"resourceVersion", block["metadata"]["resourceVersion"]}}}};
  story_.Tell("gives back " + name);
  static_cast<void>(store_.Call({.method = k8sclient::Method::kDelete, .path = path, .body = options.dump()}, {}));
  for (int look = 0; look < 20; ++look) {
    std::this_thread::sleep_for(milliseconds(Below(50)));
    const json now = FindBlock(name);
    if (now.is_null() || !now["metadata"].contains("deletionTimestamp")) return;
    if (!IsEmpty(now) && !in_use_too) continue;
    json patch = {{"metadata", {{"finalizers", nullptr}, {"resourceVersion", now["metadata"]["resourceVersion"]}}}};
    if (is_blind) {
      patch["metadata"].erase("resourceVersion");
      std::this_thread::sleep_for(milliseconds(Below(50)));
    }
    static_cast<void>(store_.Call({.method = k8sclient::Method::kPatch, .path = path, .body = patch.dump()}, {}));
  }
}

std::string World::Unrest() const {
  const auto restless = std::ranges::find_if(machines_, [](const auto& machine) { return !machine->node.IsAtRest(); });
  return restless == machines_.end() ? "" : (*restless)->node.Unrest();
}

void World::ComeToRest() {
  story_.Tell("calm");
  ChangeWeather(true);
  const Nanos end = Now() + 90s;
  const auto is_at_rest = [this] {
    return std::ranges::all_of(machines_, [](const auto& machine) { return machine->node.IsAtRest(); });
  };
  while (!is_at_rest()) {
    for (const auto& machine : machines_) machine->node.Supervise();
    if (Now() > end) return story_.Break("rest", Unrest());
    std::this_thread::sleep_for(50ms);
  }
  AwaitLost();
  for (const auto& checker : checkers_) checker->AtRest(store_.Objects(kBlocks));
}

bool World::IsLostLeft() const {
  const auto blocks = store_.Objects(kBlocks);
  return std::ranges::any_of(blocks, [this](const json& block) {
    return std::ranges::any_of(Recorded(block), [this](const auto& entry) {
      return std::ranges::any_of(machines_,
                                 [&](const auto& machine) { return machine->kubelet.lost().contains(entry.first); });
    });
  });
}

void World::AwaitLost() {
  const Nanos end = Now() + kFreedMax;
  while (IsLostLeft()) {
    if (Now() > end) return story_.Break("dead-freed", "the address of a pod that is gone is still held");
    std::this_thread::sleep_for(5s);
  }
}

void World::CheckQuiet() {
  // What settles first: watches come again, cooled entries are swept.
  std::this_thread::sleep_for(30s);
  const std::uint64_t before = network_.requests();
  std::this_thread::sleep_for(60s);
  const std::uint64_t sent = network_.requests() - before;
  if (sent > kQuietRequestsMax * (machines_.size() + controllers_.count())) {
    story_.Break("quiet", fmt::format("{} idle nodes sent {} requests in a minute", machines_.size(), sent));
  }
}

}  // namespace berth::sim
