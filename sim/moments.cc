// SPDX-License-Identifier: Apache-2.0
// The random events of a history: network faults, restarts, cut connections, and edits by people.
#include <algorithm>
#include <array>
#include <set>
#include <span>
#include <thread>
#include <utility>

#include <spdlog/fmt/fmt.h>

#include "crds/names.h"
#include "ipam/entry.h"
#include "ipam/prefix.h"
#include "reconciler/read_holders.h"
#include "sim/scheduler.h"
#include "sim/world.h"

namespace berth::sim {

using namespace std::chrono_literals;
using nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

// When a Node has been gone for this time, the controller may free the addresses of its pods (docs/controller.md).
constexpr Nanos kNodeGone = std::chrono::minutes(5);
// Time for which an agent may try to write an answered DEL before it syncs its journal (kRequestMax of the agent).
constexpr Nanos kUnsynced = 11s;

// NOLINTNEXTLINE(bugprone-throwing-static-initialization): without memory there is no simulation
const std::string kAllBlocks(crds::kBlocksPath);

// The pause of a controller. It may be longer than the Lease is valid.
Nanos AnyLongPause() { return milliseconds(Below(Below(2) == 0 ? 12'000 : 60'000)); }

bool IsEmpty(const json& block) {
  return block.value("allocations", json::object()).empty() && block.value("standby", json::array()).empty();
}

}  // namespace

void World::ChangeWeather(bool is_calm) {
  const auto chance = [this, is_calm](const char* fault, std::uint64_t most) {
    return is_calm || !May(fault) ? 0 : Below(most);
  };
  // The lag is mostly some milliseconds, sometimes some seconds.
  const Nanos lag = milliseconds(1 + chance("lag", Below(4) == 0 ? 4'000 : 50));
  network_.Set({.is_away = false,
                .refused = chance("refused", 60),
                .lost = chance("lost", 80),
                .late = chance("late", 80),
                .denied = chance("denied", 60),
                .lag = lag});
  // A binding takes at most 0.9 s, so the scheduler places each pod by what was true less than 3 s before.
  scheduler_.Lag(milliseconds(1 + chance("lag", Below(4) == 0 ? 1'900 : 50)));
}

struct World::Moment {
  const char* fault;
  std::uint64_t weight;
  void (*happens)(World& world, Machine& machine);
  bool needs_pods = false;
  bool needs_scheduler = false;
};

std::span<const World::Moment> World::AllMoments() {
  static constexpr std::array kMoments{
      Moment{"away", 12, [](World& world, Machine&) { world.BeAway(); }},
      Moment{"overlap", 12, [](World& world, Machine& machine) { world.ReplaceAgent(machine, /*overlaps=*/true); }},
      Moment{"kill", 24, [](World& world, Machine& machine) { world.ReplaceAgent(machine, /*overlaps=*/false); }},
      Moment{"reboot", 4, [](World& world, Machine& machine) { world.Reboot(machine); }},
      Moment{"power", 4, [](World& world, Machine& machine) { world.LosePower(machine); }, true},
      Moment{"give-back", 36, [](World& world, Machine&) { world.GiveBackBlock(); }},
      Moment{"gc", 12, [](World&, Machine& machine) { machine.kubelet.CollectGarbage(); }},
      Moment{"calendar", 12, [](World&, Machine& machine) { machine.node.StepClock(milliseconds(Below(4'000)) - 2s); }},
      Moment{"clocks", 6, [](World& world, Machine& machine) { machine.node.SetClock(world.AnyClockError()); }},
      Moment{"clocks", 6, [](World& world, Machine&) { world.controllers_.SetClock(world.AnyClockError()); }, true},
      Moment{"suspend", 6, [](World&, Machine&) { Suspend(milliseconds(Below(30'000))); }},
      Moment{"restart", 12, [](World& world, Machine&) { world.network_.RestartOne(milliseconds(Below(500))); }},
      Moment{"compact", 12, [](World& world, Machine&) { world.Compact(); }},
      Moment{"delete", 3, [](World& world, Machine&) { world.DeleteBlock(); }},
      Moment{"edit", 12, [](World& world, Machine& machine) { world.EditByHand(machine); }},
      Moment{"emptied", 12, [](World& world, Machine& machine) { world.EmptyRun(machine); }, true},
      Moment{"edit", 3, [](World& world, Machine& machine) { world.EditWithoutAgent(machine); }, true},
      Moment{"kill", 12, [](World& world, Machine&) { world.controllers_.ReplaceOne(world.AnyClockError()); }, true},
      Moment{"election", 4, [](World& world, Machine&) { world.controllers_.EndOne(world.AnyClockError()); }, true},
      Moment{"election", 4, [](World& world, Machine&) { world.controllers_.FreezeOne(AnyLongPause()); }, true},
      Moment{"election", 4, [](World& world, Machine&) { world.CutOffController(); }, true},
      Moment{"tenant", 12, [](World& world, Machine& machine) { world.StartTenant(machine); }},
      Moment{"cut-off", 12, [](World& world, Machine& machine) { world.CutOff(machine); }, true},
      Moment{"deaf", 12, [](World& world, Machine& machine) { world.Deafen(machine, Link::State::kCut); }},
      Moment{"mute", 12, [](World& world, Machine& machine) { world.Deafen(machine, Link::State::kUnheard); }},
      Moment{"vanish", 3, [](World& world, Machine& machine) { world.Vanish(machine); }, true},
      Moment{"cascade", 3, [](World& world, Machine& machine) { world.Cascade(machine); }, true},
      Moment{"out-of-service", 6, [](World& world, Machine& machine) { world.TakeOutOfService(machine); }, true},
      Moment{"ghost", 6, [](World& world, Machine& machine) { world.CreateGhost(machine); }, true},
      Moment{"replaced", 24, [](World& world, Machine& machine) { world.Replace(machine); }, true},
      Moment{"mirror", 12, [](World& world, Machine&) { world.cluster_.LoseMirror(seconds(Below(180))); }, true},
      Moment{"allocation", 12, [](World& world, Machine&) { world.DeleteAllocation(); }, true},
      Moment{"pools", 12, [](World& world, Machine&) { world.EditPool(); }, true},
      Moment{"selectors", 12, [](World& world, Machine& machine) { world.EditSelectors(machine); }, true},
      Moment{"refused-block", 6, [](World& world, Machine&) { world.RefuseBlock(); }},
      Moment{"pool-replaced", 6, [](World& world, Machine& machine) { world.ReplacePool(machine); }, true},
      Moment{"restore", 12, [](World& world, Machine&) { world.BackUpOrRestore(); }, true},
      Moment{"scheduler", 24, [](World&, Machine& machine) { machine.kubelet.EndOne(); }, true, true},
      Moment{"kubelet", 12, [](World& world, Machine& machine) { world.RestartKubelet(machine); }, true, true},
      Moment{"number",
             3,
             [](World& world, Machine& machine) { world.cluster_.RemoveNumber(machine.node.name()); },
             true,
             true},
      Moment{nullptr, 35, [](World&, Machine&) {}},
  };
  return kMoments;
}

bool World::IsChurning() const {
  return !pools_.AreOn() || !refused_block_.empty() || !cluster_.AreAllInService() || !controllers_.AreWell() ||
         replacing_pool_ > 0 || working_ > 0 || delivering_ > 0 ||
         std::ranges::any_of(machines_, [](const auto& machine) {
           return machine->churning > 0 || machine->is_left_alone() || machine->has_double || machine->is_starting ||
                  machine->kubelet.IsEnding();
         });
}

bool World::AreSlow() const {
  const auto is_left_alone = [](const auto& machine) { return machine->is_left_alone(); };
  const auto is_churning = [](const auto& machine) { return machine->churning > 0; };
  const bool only_end = May("slow-end") && working_ == 0 && std::ranges::none_of(machines_, is_churning);
  return only_end || std::ranges::any_of(machines_, is_left_alone);
}

void World::OneMoment() {
  ChangeWeather(Below(4) == 0);
  // Events are rarer while somebody waits for minutes. Otherwise very many events would happen in this time.
  const bool is_slow = !refused_block_.empty() || AreSlow();
  std::this_thread::sleep_for(milliseconds(20 + Below(is_slow ? 10'000 : 600)));
  for (const auto& machine : machines_) machine->node.Supervise();
  Machine& machine = *machines_[Below(machines_.size())];
  if (machine.is_left_alone()) return;
  const auto weight_of = [this](const Moment& moment) {
    const bool may_be = moment.fault == nullptr || May(moment.fault);
    const bool has_actors =
        (controllers_.count() > 0 || !moment.needs_pods) && (has_scheduler_ || !moment.needs_scheduler);
    return may_be && has_actors ? moment.weight : 0;
  };
  std::uint64_t all = 0;
  for (const Moment& moment : AllMoments()) all += weight_of(moment);
  std::uint64_t left = Below(all);
  for (const Moment& moment : AllMoments()) {
    if (left < weight_of(moment)) return moment.happens(*this, machine);
    left -= weight_of(moment);
  }
}

void World::WaitCalmly() {
  ChangeWeather(/*is_calm=*/true);
  std::this_thread::sleep_for(std::chrono::seconds(1));
  for (const auto& machine : machines_) machine->node.Supervise();
}

Nanos World::AnyClockError() {
  constexpr std::array kMost = {Nanos(3s), Nanos(3min), Nanos(3h), Nanos(72h), Nanos(20 * 365 * 24h)};
  if (!May("clocks") || Below(2) == 0) return 0s;
  const Nanos error(Below(static_cast<std::uint64_t>(kMost.at(Below(kMost.size())).count())));
  return Below(2) == 0 ? error : -error;
}

void World::BeAway() {
  story_.Tell("the API server is away");
  network_.Set({.is_away = true});
  std::this_thread::sleep_for(milliseconds(Below(3'000)));
  network_.Set({});
}

void World::Compact() {
  story_.Tell("compaction");
  store_.Compact();
  for (const auto& server : servers_) server->Compact();
}

void World::CutOffController() {
  const bool is_mute = May("mute") && Below(2) == 0;
  controllers_.CutOff(is_mute ? Link::State::kUnheard : Link::State::kCut, AnyLongPause());
}

void World::CutOff(Machine& machine) {
  const Nanos time = milliseconds(Below(3) == 0 ? Below(20'000) : 20'000 + Below(120'000));
  if (!cluster_.CutOff(machine.node.name(), time) || Below(2) != 0) return;
  // A little later the machine's agents are cut off as well.
  const bool is_mute = May("mute") && Below(2) == 0;
  const auto state = is_mute ? Link::State::kUnheard : Link::State::kCut;
  Deafen(machine, state, std::min<Nanos>(time, milliseconds(Below(3'000))), time);
}

void World::Deafen(Machine& machine, Link::State state) { Deafen(machine, state, 0s, milliseconds(Below(140'000))); }

void World::Deafen(Machine& machine, Link::State state, Nanos from, Nanos until) {
  machine.is_cut_off = true;
  Spawn(outside_, [this, &machine, state, from, until] {
    constexpr int kRenewals = 3;
    for (int i = 0; i < kRenewals; ++i) {
      machine.kubelet.RenewSandbox();
      std::this_thread::sleep_for(from / kRenewals);
    }
    story_.Tell(
        fmt::format("{} {}", machine.node.name(), state == Link::State::kCut ? "reaches nobody" : "hears nobody"));
    machine.link.Set(state);
    machine.kubelet.RenewSandbox();
    std::this_thread::sleep_for(until - from);
    // The DELs that were answered meanwhile are in the journal only.
    if (May("power") && controllers_.count() > 0 && Below(4) == 0) LosePower(machine);
    machine.link.Set(Link::State::kOpen);
    story_.Tell(machine.node.name() + " hears again");
    machine.is_cut_off = false;
  });
}

void World::Vanish(Machine& machine) {
  const std::string name = machine.node.name();
  if (vanishes_left_ == 0 || machine.kubelet.tells_odd_uids() || !cluster_.RemoveNode(name)) return;
  --vanishes_left_;
  machine.is_gone = true;
  machine.link.Set(Link::State::kCut);
  const bool is_off = Below(2) == 0;
  const Nanos time = Below(2) == 0 ? kNodeGone + milliseconds(Below(300'000)) : milliseconds(Below(300'000));
  Spawn(outside_, [this, &machine, name, is_off, time] {
    if (is_off) {
      machine.kubelet.CountAsGone();
      machine.node.PowerOff();
    }
    std::this_thread::sleep_for(std::min(time, kNodeGone));
    if (!is_off && time >= kNodeGone) {
      machine.kubelet.CountAsGone();
      std::this_thread::sleep_for(time - kNodeGone);
      // The kubelet does not know that its Node is gone, and starts static pods. Without an agent the ADD cannot
      // succeed before the machine is connected again.
      if (machine.node.has_agents()) machine.kubelet.StartStatic(name + "late");
    } else {
      std::this_thread::sleep_for(time - std::min(time, kNodeGone));
    }
    machine.link.Set(Link::State::kOpen);
    cluster_.ReturnNode(name);
    if (is_off) machine.node.PowerOn();
    machine.kubelet.Return();
    machine.is_gone = false;
  });
}

void World::Replace(Machine& machine) {
  const std::string name = machine.node.name();
  if (!has_replacement_ || !replaced_.empty() || machine.kubelet.tells_odd_uids()) return;
  // The Node is deleted and created anew, or it stays.
  const bool is_removed = Below(2) == 0;
  if (!(is_removed ? cluster_.RemoveNode(name) : cluster_.RemovePods(name))) return;
  machine.kubelet.Retire();
  // The scheduler may have bound a pod meanwhile.
  cluster_.RemoveLatePods(name);
  // If the node has a second network, the old machine must not run on: the controller frees no address of a second
  // network while the pod lives (docs/controller.md).
  const bool runs_on = machine.node.has_agents() && !machine.kubelet.has_second_network() && Below(2) == 0;
  if (!runs_on) machine.node.PowerOff();
  if (is_removed) {
    std::this_thread::sleep_for(milliseconds(Below(5'000)));
    cluster_.ReturnNode(name);
  }
  story_.Tell("another machine is " + name);
  const auto slot = std::ranges::find(machines_, &machine, &std::unique_ptr<Machine>::get);
  replaced_.push_back(std::exchange(*slot, MakeMachine(name, name + "b", !machine.node.has_agents())));
  Machine& other = **slot;
  StartMachine(other);
  if (!runs_on) return;
  other.has_double = true;
  // Send no CHECK: if the old machine keeps the new agent from writing an entry, the controller may write the entry
  // with another attachment, and a CHECK would fail.
  other.kubelet.NeverCheck();
  Spawn(outside_, [&machine, &other] {
    constexpr Nanos kUnderWay = 5s;
    std::this_thread::sleep_for(milliseconds(Below(120'000)));
    machine.node.PowerOff();
    std::this_thread::sleep_for(kUnderWay);
    // An entry that one of the two agents frees may be written again by the other, and stays until the controller frees
    // it (docs/failures.md).
    other.kubelet.MayComeBack();
    other.has_double = false;
  });
}

std::optional<World::Place> World::AnyEntry(const Machine& machine, bool is_told) const {
  if (!machine.node.has_agents() || !machine.node.IsServing() || machine.has_double) return std::nullopt;
  // The agent does not write entries again in blocks that it has quarantined.
  const std::set<std::string> known = machine.node.KnownBlocks();
  const auto settled = machine.kubelet.settled();
  const auto pods = store_.Objects(std::string(reconciler::kPodsPath));
  const auto has_told = [&](const Pod& pod, const std::string& address) {
    return std::ranges::any_of(pods, [&](const json& object) {
      const json addresses = object.value("/status/podIPs"_json_pointer, json::array());
      return object["metadata"]["name"] == pod.name && !pod.is_static &&
             std::ranges::any_of(addresses, [&](const json& one) { return one["ip"] == address; });
    });
  };
  std::vector<Place> places;
  for (const json& block : store_.Objects(kAllBlocks)) {
    const bool is_own = block["spec"].value("node", "") == machine.node.name();
    const bool is_known = is_own && known.contains(block["metadata"]["name"]);
    const bool is_refused = block["metadata"]["name"] == refused_block_;
    if (!is_known || is_refused || block["metadata"].contains("deletionTimestamp")) continue;
    const auto cidr = ipam::Prefix::Parse(block["spec"]["cidr"].get<std::string>());
    for (const auto& [offset, text] : block["allocations"].items()) {
      const auto found = settled.find(std::string(ipam::AttachmentOf(text.get_ref<const std::string&>())));
      if (found == settled.end()) continue;
      const std::string address = cidr->At(static_cast<std::uint32_t>(std::stoul(offset))).ToString();
      Place place{.block = block["metadata"]["name"], .offset = offset, .text = text, .address = address};
      if (is_told && (!has_told(found->second.pod, address) || IsInTwoSpaces(machine, place))) continue;
      places.push_back(std::move(place));
    }
  }
  if (places.empty()) return std::nullopt;
  return places[Below(places.size())];
}

void World::TakeOut(const Place& place) {
  story_.Tell("takes " + place.address + " out of " + place.block);
  is_editing_ = true;
  const ipam::Attachment attachment(ipam::AttachmentOf(place.text));
  const std::string address = InSpace(place.address, SpaceOf(FindBlock(place.block)));
  for (const auto& checker : checkers_) checker->TakenOut(attachment, address);
  is_unwatched_ = true;
  store_.Change(kAllBlocks, place.block, [&](json& block) {
    block["allocations"].erase(place.offset);
    block["used"] = block["allocations"].size();
  });
  is_unwatched_ = false;
}

void World::WriteAgain(const Place& place) {
  story_.Tell("writes " + place.address + " again");
  store_.Change(kAllBlocks, place.block, [&](json& block) {
    block["allocations"][place.offset] = place.text;
    block["used"] = block["allocations"].size();
  });
}

bool World::IsInTwoSpaces(const Machine& machine, const Place& place) const {
  const auto address = ipam::Address::Parse(place.address);
  std::set<std::string> spaces;
  for (const json& block : store_.Objects(kAllBlocks)) {
    const std::string node = block["spec"].value("node", "");
    const bool is_usable = node.empty() || node == machine.node.name();
    const auto cidr = ipam::Prefix::Parse(block["spec"]["cidr"].get<std::string>());
    if (is_usable && cidr->Contains(*address)) spaces.insert(SpaceOf(block));
  }
  return spaces.size() > 1;
}

bool World::IsThere(const Place& place) const {
  // The entry of a reservation may stand in its place for a while.
  const json block = FindBlock(place.block);
  if (block.is_null() || !block["allocations"].contains(place.offset)) return false;
  return !block["allocations"][place.offset].get_ref<const std::string&>().starts_with("! ");
}

void World::EditByHand(Machine& machine) {
  const auto place = AnyEntry(machine, /*is_told=*/false);
  if (!place) return;
  ChangeWeather(true);
  TakeOut(*place);
  const Nanos end = Now() + 100s;
  while (!IsThere(*place)) {
    if (Now() > end) return story_.Break("put-back", "nobody wrote " + place->address + " again");
    std::this_thread::sleep_for(50ms);
  }
  is_editing_ = false;
}

void World::EditWithoutAgent(Machine& machine) {
  const auto place = AnyEntry(machine, /*is_told=*/true);
  if (!place || agents_left_ == 0) return;
  --agents_left_;
  ChangeWeather(true);
  machine.node.KillAgents();
  TakeOut(*place);
  const Nanos end = Now() + 5min;
  while (!IsThere(*place)) {
    // A node has created a Shared block meanwhile.
    if (IsInTwoSpaces(machine, *place)) WriteAgain(*place);
    if (Now() > end) return story_.Break("put-back", "nobody put " + place->address + " back");
    std::this_thread::sleep_for(1s);
  }
  is_editing_ = false;
  machine.node.StartAgent();
}

void World::EditPool() {
  // A restored backup would undo the edit.
  if (!has_backups_) pools_.EditOne();
}

void World::BackUpOrRestore() {
  if (!has_backups_) return;
  if (!backups_.MayRestore()) return backups_.Take();
  is_editing_ = true;
  backups_.Restore();
  is_editing_ = false;
}

void World::DeleteAllocation() {
  const std::string path(crds::kAllocationsPath);
  const auto objects = store_.Objects(path);
  if (objects.empty()) return;
  const json& metadata = objects[Below(objects.size())]["metadata"];
  const std::string name = metadata["name"];
  story_.Tell("deletes IPAllocation " + name);
  store_.Remove(path, name);
  if (plant_ == nullptr || !plant_->frees_without_allocation) return;
  for (const json& block : store_.Objects(kAllBlocks)) {
    for (const auto& [offset, text] : block["allocations"].items()) {
      const std::string attachment(ipam::AttachmentOf(text.get_ref<const std::string&>()));
      if (attachment.empty() || !name.ends_with(attachment)) continue;
      FreeByHand(block["metadata"]["name"], offset, attachment);
    }
  }
}

void World::FreeByHand(const std::string& block, const std::string& offset, const std::string& attachment) {
  store_.Change(
      kAllBlocks, block, [&](json& changed) { changed["allocations"][offset] = "~ t=1767225600000 f=" + attachment; });
}

void World::DeleteBlock() {
  const auto blocks = store_.Objects(kAllBlocks);
  if (blocks.empty()) return;
  const json& block = blocks[Below(blocks.size())];
  const std::string name = block["metadata"]["name"];
  story_.Tell("deletes " + name);
  static_cast<void>(
      store_.Call({.method = k8sclient::Method::kDelete, .path = kAllBlocks + "/" + name, .body = {}}, {}));
}

void World::Reboot(Machine& machine) {
  ++kills_;
  machine.kubelet.Reboot([&machine] { machine.node.Reboot(); });
}

void World::LosePower(Machine& machine) {
  ++kills_;
  // berth-direct writes a DEL before it answers.
  machine.kubelet.LosePower(machine.node.has_agents() ? kUnsynced : 0s, [&machine] { machine.node.LosePower(); });
}

json World::FindBlock(const std::string& name) const {
  for (const json& block : store_.Objects(kAllBlocks)) {
    if (block["metadata"]["name"] == name) return block;
  }
  return nullptr;
}

void World::GiveBackBlock() {
  const auto blocks = store_.Objects(kAllBlocks);
  if (!blocks.empty()) GiveBack(blocks[Below(blocks.size())]);
}

void World::GiveBack(const json& block) {
  const bool in_use_too = plant_ != nullptr && plant_->gives_back_in_use;
  const bool is_blind = plant_ != nullptr && plant_->gives_back_blindly;
  if (!IsEmpty(block) && !in_use_too) return;
  const std::string name = block["metadata"]["name"];
  const std::string path = kAllBlocks + "/" + name;
  json options = {{"preconditions", {{"resourceVersion", block["metadata"]["resourceVersion"]}}}};
  if (is_blind) {
    options = json::object();
    std::this_thread::sleep_for(milliseconds(Below(50)));
  }
  story_.Tell("gives back " + name);
  static_cast<void>(store_.Call({.method = k8sclient::Method::kDelete, .path = path, .body = options.dump()}, {}));
  for (int look = 0; look < 20; ++look) {
    std::this_thread::sleep_for(milliseconds(Below(50)));
    const json now = FindBlock(name);
    if (now.is_null() || !now["metadata"].contains("deletionTimestamp")) return;
    if (!IsEmpty(now) && !in_use_too && !is_blind) continue;
    json patch = {{"metadata", {{"finalizers", nullptr}, {"resourceVersion", now["metadata"]["resourceVersion"]}}}};
    if (is_blind) patch["metadata"].erase("resourceVersion");
    static_cast<void>(store_.Call({.method = k8sclient::Method::kPatch, .path = path, .body = patch.dump()}, {}));
  }
}

}  // namespace berth::sim
