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

bool IsEmpty(const json& block) {
  return block.value("allocations", json::object()).empty() && block.value("standby", json::array()).empty();
}

}  // namespace

struct World::Machine {
  Machine(Node::Options options, Network& network, Story& story, const Kubelet::Checkers& checkers,
          const std::vector<std::string>& pools)
      : folder(options.folder), node(std::move(options), network, story), kubelet(node, story, checkers, pools) {}
  std::string folder;
  Node node;
  Kubelet kubelet;
  int churning = 0;
};

std::set<std::string> Extent::AllFaults() {
  return {"away", "refused", "lost", "late", "kill", "overlap", "reboot", "give-back", "gc", "calendar", "shared"};
}

World::World(std::uint64_t seed, Extent extent, const Plant* plant, std::string folder, bool is_told)
    : extent_(std::move(extent)),
      plant_(plant),
      folder_(std::move(folder)),
      story_(is_told),
      network_(server_, story_) {
  std::filesystem::remove_all(folder_);
  std::filesystem::create_directories(folder_);
  Begin(seed);
  checkers_.push_back(MakeOneHolder(story_));
  checkers_.push_back(MakeNothingLiveFreed(story_));
  checkers_.push_back(MakeNothingLeft(story_));
  checkers_.push_back(MakeInTime(story_));
  if (plant_ != nullptr) {
    network_.Plant(plant_->lies);
    FreeLocksOf(plant_->free_lock);
  }
  server_.OnStore([this](const std::string& collection, const json& before, const json& after) {
    if (collection != kBlocks) return;
    for (const auto& checker : checkers_) checker->Stored(before, after);
  });
}

World::~World() { std::filesystem::remove_all(folder_); }

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
  return outcome;
}

void World::PutPool(const std::string& name, const std::string& subnet, bool is_shared) {
  server_.Put(std::string(crds::kPoolsPath),
              {{"metadata", {{"name", name}, {"uid", "uid-of-" + name}}},
               {"spec",
                {{"subnet", subnet},
                 {"affinity", is_shared ? "Shared" : "Node"},
                 {"warmAddresses", Below(2) * 8},
                 {"blockSize", 28}}},
               {"status", {{"conditions", {{{"type", "Ready"}, {"status", "True"}, {"reason", "Accepted"}}}}}}});
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
      pools));
  Machine& machine = *machines_.back();
  if (plant_ != nullptr && plant_->before_start) machine.node.BeforeStart(plant_->before_start);
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
  network_.Set(
      {.is_away = false, .refused = chance("refused", 60), .lost = chance("lost", 80), .late = chance("late", 80)});
}

void World::OneMoment() {
  ChangeWeather(Below(4) == 0);
  std::this_thread::sleep_for(milliseconds(20 + Below(600)));
  for (const auto& machine : machines_) {
    machine->node.Supervise();
    if (plant_ != nullptr && plant_->now_and_then) plant_->now_and_then(machine->folder);
  }
  Machine& machine = *machines_[Below(machines_.size())];
  switch (Below(12)) {
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
  for (const json& block : server_.Objects(kBlocks)) {
    if (block["metadata"]["name"] == name) return block;
  }
  return nullptr;
}

void World::GiveBackBlock() {
  const bool in_use_too = plant_ != nullptr && plant_->gives_back_in_use;
  const auto blocks = server_.Objects(kBlocks);
  if (blocks.empty()) return;
  const json& block = blocks[Below(blocks.size())];
  if (!IsEmpty(block) && !in_use_too) return;
  const std::string name = block["metadata"]["name"];
  const std::string path = kBlocks + "/" + name;
  const json options = {{"preconditions", {{"resourceVersion", block["metadata"]["resourceVersion"]}}}};
  story_.Tell("gives back " + name);
  static_cast<void>(server_.Call({.method = k8sclient::Method::kDelete, .path = path, .body = options.dump()}, {}));
  for (int look = 0; look < 20; ++look) {
    std::this_thread::sleep_for(milliseconds(Below(50)));
    const json now = FindBlock(name);
    if (now.is_null() || !now["metadata"].contains("deletionTimestamp")) return;
    if (!IsEmpty(now) && !in_use_too) continue;
    const json patch = {
        {"metadata", {{"finalizers", nullptr}, {"resourceVersion", now["metadata"]["resourceVersion"]}}}};
    static_cast<void>(server_.Call({.method = k8sclient::Method::kPatch, .path = path, .body = patch.dump()}, {}));
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
  for (const auto& checker : checkers_) checker->AtRest(server_.Objects(kBlocks));
}

void World::CheckQuiet() {
  // What settles first: watches come again, cooled entries are swept.
  std::this_thread::sleep_for(30s);
  const std::uint64_t before = network_.requests();
  std::this_thread::sleep_for(60s);
  const std::uint64_t sent = network_.requests() - before;
  if (sent > kQuietRequestsMax * machines_.size()) {
    story_.Break("quiet", fmt::format("{} idle nodes sent {} requests in a minute", machines_.size(), sent));
  }
}

}  // namespace berth::sim
