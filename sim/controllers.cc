// SPDX-License-Identifier: Apache-2.0
// Runs berth-controller from the moment when it leads or waits to lead, and causes its faults.
#include "sim/controllers.h"

#include <algorithm>
#include <thread>
#include <utility>

#include <nlohmann/json.hpp>
#include <spdlog/fmt/fmt.h>

#include "reconciler/lead.h"
#include "reconciler/read_holders.h"

namespace berth::sim {

using namespace std::chrono_literals;
using nlohmann::json;

namespace {

constexpr const char* kLeaseNamespace = "berth-system";
constexpr const char* kLeaseName = "berth-controller";
constexpr const char* kAllLeases = "/apis/coordination.k8s.io/v1/leases";
constexpr const char* kLeasesOfBerth = "/apis/coordination.k8s.io/v1/namespaces/berth-system/leases";

// A leader stops at most 10 s after its last renewal, and another controller takes the Lease after 15 s at the
// earliest. So two controllers write at the same time only if one of them was frozen: it goes on where it stood, and
// stops at its next renewal, whose deadline has passed. This takes at most kOverlapMax.
constexpr Nanos kOverlapMax = 1s;
// The Lease's 15 s count from the moment when the candidate saw the last renewal. The candidate looks every 2 to 2.4 s,
// and each of two requests and their answers may take 2 s.
constexpr Nanos kSuccessionMax = 22s;
// A leader that lost the Lease ends when its last requests have ended, and is started again a second later. Until then
// there may be no candidate.
constexpr Nanos kStopMax = 12s;
// A leader that is told to end gives the Lease back.
constexpr Nanos kHandOverMax = 7s;
constexpr Nanos kLook = 100ms;
// If no fault happens, a leader renews the Lease within this time.
constexpr Nanos kRenewed = 5s;

}  // namespace

struct Controllers::Controller {
  Controller(Network& network, Nanos error, const std::string& name)
      : link(network, "controller"),
        process(std::make_shared<Process>(name)),
        clock_error(std::make_shared<Nanos>(error)) {
    process->clock_error = clock_error;
  }
  Link link;
  ProcessPointer process;
  std::shared_ptr<Nanos> clock_error;
  std::stop_source stop = {};
  bool is_leading = false;
  bool has_ended = false;
  bool is_troubled = false;
  Nanos thawed{0};
};

void Controllers::BeginElections() {
  has_elections_ = true;
  Spawn(std::make_shared<Process>("kubelet of controllers"), [this] {
    while (true) {
      std::this_thread::sleep_for(1s);
      Supervise();
    }
  });
}

void Controllers::Supervise() {
  for (Controller* const one : std::vector<Controller*>(running_)) {
    if (!one->has_ended) continue;
    const Nanos clock_error = *one->clock_error;
    Kill(*one);
    Start(clock_error);
  }
}

void Controllers::Run(Controller& one) {
  auto* const objects = new reconciler::ProcessObjects;  // NOLINT(cppcoreguidelines-owning-memory): see all_
  const auto lead = [&one, objects](const std::stop_token& stop) {
    one.is_leading = true;
    reconciler::Lead(
        one.link, *objects, {.reclaim = reconciler::Reclaim::kOn, .keeps_allocations = true, .counts = true}, stop);
    one.is_leading = false;
  };
  if (!has_elections_) return lead(std::stop_token());
  const auto elected =
      reconciler::Elect({.lease_namespace = kLeaseNamespace, .lease_name = kLeaseName, .identity = one.process->name},
                        one.link,
                        objects->hand_over,
                        one.stop.get_token(),
                        lead);
  story_.Tell(elected ? "ends" : "lost the lease: " + elected.error().message);
  one.has_ended = true;
}

void Controllers::Start(Nanos clock_error) {
  all_.push_back(std::make_shared<Controller>(network_, clock_error, "controller" + std::to_string(all_.size() + 1)));
  Controller& one = *all_.back();
  running_.push_back(&one);
  if (has_elections_) {
    one.link.OnWrite([this, &one](const k8sclient::Request& request) {
      if (!request.path.starts_with(kLeasesOfBerth)) CheckLeads(one);
      return false;
    });
  }
  story_.Tell("starts " + one.process->name);
  Spawn(one.process, [this, &one] { Run(one); });
}

Controllers::Controller* Controllers::Any() const {
  return running_.empty() ? nullptr : running_[Below(running_.size())];
}

void Controllers::Kill(Controller& one) {
  story_.Tell("kills " + one.process->name);
  sim::Kill(*one.process);
  one.is_leading = false;
  std::erase(running_, &one);
}

void Controllers::ReplaceOne(Nanos clock_error) {
  Controller* const one = Any();
  if (one == nullptr) return;
  Kill(*one);
  Start(clock_error);
}

void Controllers::HoldPodWatches(bool are_held) {
  if (are_held) story_.Tell("the watches of pods hang");
  for (Controller* const one : running_) {
    one->link.Set(are_held ? Link::Trouble{.path = std::string(reconciler::kPodsPath), .is_held = true}
                           : Link::Trouble());
  }
}

void Controllers::EndOne(Nanos clock_error) {
  Controller* const one = Any();
  if (one == nullptr || !has_elections_ || one->is_troubled) return;
  story_.Tell("tells " + one->process->name + " to end");
  std::erase(running_, one);
  // When this controller has ended, nothing starts it again: Start makes another controller.
  one->stop.request_stop();
  Start(clock_error);
}

void Controllers::FreezeOne(Nanos time) {
  Controller* const one = Any();
  if (one == nullptr || !has_elections_ || one->is_troubled) return;
  story_.Tell(fmt::format("freezes {} for {:.1f} s", one->process->name, std::chrono::duration<double>(time).count()));
  one->is_troubled = true;
  ++troubled_;
  Freeze(*one->process);
  Spawn(std::make_shared<Process>("thaws"), [this, one, time] {
    std::this_thread::sleep_for(time);
    one->thawed = Now();
    Thaw(*one->process);
    one->is_troubled = false;
    --troubled_;
  });
}

void Controllers::CutOff(Link::State state, Nanos time) {
  Controller* const one = Any();
  if (one == nullptr || !has_elections_ || one->is_troubled) return;
  story_.Tell(fmt::format("{} {}", one->process->name, state == Link::State::kCut ? "reaches nobody" : "hears nobody"));
  one->is_troubled = true;
  ++troubled_;
  one->link.Set(state);
  Spawn(std::make_shared<Process>("connects"), [this, one, time] {
    std::this_thread::sleep_for(time);
    story_.Tell(one->process->name + " hears again");
    one->link.Set(Link::State::kOpen);
    one->is_troubled = false;
    --troubled_;
  });
}

void Controllers::Stored(const std::string& collection, const json& after) {
  if (collection != kAllLeases || after.is_null() || after["metadata"]["name"] != kLeaseName) return;
  const std::string holder = after.value("/spec/holderIdentity"_json_pointer, "");
  renewed_ = Now();
  if (holder == holder_) return;
  holder_ = holder;
  held_since_ = Now();
  story_.Tell("the Lease is " + (holder.empty() ? "nobody's" : holder + "'s"));
}

void Controllers::CheckLeads(const Controller& one) {
  const Nanos since = std::max(held_since_, one.thawed);
  if (one.process->name == holder_ || Now() - since <= kOverlapMax) return;
  story_.Break("one-leader",
               fmt::format("{} writes {:.1f} s after the Lease was {}",
                           one.process->name,
                           std::chrono::duration<double>(Now() - held_since_).count(),
                           holder_.empty() ? "given back" : "taken by " + holder_));
}

Controllers::Controller* Controllers::Leader() const {
  const auto found =
      std::ranges::find_if(running_, [](const Controller* one) { return one->is_leading && !one->has_ended; });
  return found == running_.end() ? nullptr : *found;
}

void Controllers::AwaitLeader(Nanos most, const std::string& why) {
  const Nanos since = Now();
  const auto has_renewed = [&] {
    const Controller* const leader = Leader();
    return leader != nullptr && leader->process->name == holder_ && renewed_ > since;
  };
  while (!has_renewed()) {
    if (Now() - since > most) return story_.Break("leads", "no controller leads " + why);
    std::this_thread::sleep_for(kLook);
  }
}

void Controllers::CheckSuccession() {
  if (!has_elections_ || running_.empty()) return;
  AwaitLeader(kStopMax + kSuccessionMax, "although nothing goes wrong");
  // A leader whose last renewal got no answer can't give the Lease back.
  std::this_thread::sleep_for(kRenewed);
  Controller* const leader = Leader();
  if (leader == nullptr) return;
  const bool is_orderly = Below(2) == 0;
  const Nanos clock_error = *leader->clock_error;
  if (is_orderly) {
    story_.Tell("tells " + leader->process->name + " to end");
    std::erase(running_, leader);
    leader->stop.request_stop();
  } else {
    Kill(*leader);
  }
  Start(clock_error);
  AwaitLeader(is_orderly ? kHandOverMax : kSuccessionMax,
              is_orderly ? "after the leader ended" : "after the leader was killed");
}

void Controllers::SetClock(Nanos error) {
  if (const Controller* const one = Any()) *one->clock_error = error;
}

void Controllers::LeaveOne() {
  while (!has_elections_ && running_.size() > 1) {
    sim::Kill(*running_.back()->process);
    running_.pop_back();
  }
}

std::uint64_t Controllers::requests() const {
  std::uint64_t sum = 0;
  for (const auto& one : all_) sum += one->link.requests();
  return sum;
}

}  // namespace berth::sim
