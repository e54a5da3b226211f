// SPDX-License-Identifier: Apache-2.0
// What berth-controller does from the moment that it leads.
#include "sim/controllers.h"

#include <memory>
#include <stop_token>

#include "k8sclient/clock.h"
#include "k8sclient/server_clock.h"
#include "reconciler/controller.h"
#include "reconciler/mailbox.h"
#include "reconciler/watch.h"

namespace berth::sim {

namespace {

// One program's; never destroyed: nobody cleans up after a killed process.
struct Leader {
  explicit Leader(k8sclient::Api& server)
      : api(server, clock),
        controller(api, clock, mailbox, metrics,
                   {.reclaim = reconciler::Reclaim::kOn, .keeps_allocations = true, .counts = true}),
        watches(api, clock, mailbox, metrics) {
    watches.AddHolders(/*since=*/"");
    watches.AddAllocations();
  }
  k8sclient::ServerClock clock{k8sclient::RealClock()};
  k8sclient::DatedApi api;
  reconciler::Mailbox mailbox;
  reconciler::Metrics metrics;
  reconciler::Controller controller;
  reconciler::Watches watches;
};

}  // namespace

void Controllers::Start(Nanos clock_error) {
  const auto process = std::make_shared<Process>("controller" + std::to_string(++started_));
  running_.push_back({.process = process, .clock_error = std::make_shared<Nanos>(clock_error)});
  process->clock_error = running_.back().clock_error;
  story_.Tell("starts " + process->name);
  Spawn(process, [this] {
    auto* const leader = new Leader(link_);  // NOLINT(cppcoreguidelines-owning-memory): see above
    leader->watches.Start();
    leader->controller.Run(std::stop_token());
  });
}

void Controllers::ReplaceOne(Nanos clock_error) {
  if (running_.empty()) return;
  const auto at = static_cast<std::ptrdiff_t>(Below(running_.size()));
  Process& process = *running_[static_cast<std::size_t>(at)].process;
  story_.Tell("kills " + process.name);
  Kill(process);
  running_.erase(running_.begin() + at);
  Start(clock_error);
}

void Controllers::SetClock(Nanos error) {
  if (!running_.empty()) *running_[Below(running_.size())].clock_error = error;
}

void Controllers::LeaveOne() {
  while (running_.size() > 1) {
    Kill(*running_.back().process);
    running_.pop_back();
  }
}

}  // namespace berth::sim
