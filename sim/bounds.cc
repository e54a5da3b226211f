// SPDX-License-Identifier: Apache-2.0
// The limits, and the reasons for them.
#include "sim/bounds.h"

#include <chrono>
#include <thread>
#include <vector>

#include <spdlog/fmt/fmt.h>

#include "sim/files.h"

namespace berth::sim {

using namespace std::chrono_literals;

namespace {

// Requests per minute of a program that has nothing to do. The program looks at its pools and blocks, but sends no
// request whose number grows with them.
constexpr std::uint64_t kQuietRequestsMax = 30;
// A controller that elects renews the Lease every 2 s, or reads it.
constexpr std::uint64_t kQuietRenewalsMax = 31;
// For each address of a refused block, and for each DEL that waits in doubt: an agent sends a refused change again
// every 30 s, first together with others and then alone, or after a read.
constexpr std::uint64_t kQuietRefusedMax = 4;
// Requests per minute whatever faults happen, and more for each call: three times what the worst history sent.
constexpr std::uint64_t kStormRequests = 300;
constexpr std::uint64_t kStormRequestsOfCall = 4;
// For each watch that an API server ends: attempts to watch that find no server for some seconds or too old a version,
// and one LIST.
constexpr std::uint64_t kStormRequestsOfWatch = 5;
// Requests per minute of two controllers that both lead. If one of them hears nothing, each overwrites what the other
// wrote until that ends. An election prevents this.
constexpr std::uint64_t kRivalsRequests = 3'000;
// Some LISTs find what no watch shows, or other nodes' blocks when a node claims a block. If each call sent one, there
// would be two for each container.
constexpr std::int64_t kSteadyListsMax = 8;
// Agents forget marks of DELs after eleven minutes, at the next DEL. The limits are twice what histories had left then.
constexpr Nanos kUntilForgotten = 12min;
constexpr std::size_t kFilesMax = 28;
constexpr std::size_t kAgentBytesMax = std::size_t{600} << 10U;
// For each block that the agent knows: pods that request addresses make an agent claim many blocks.
constexpr std::size_t kBlockBytesMax = std::size_t{16} << 10U;

}  // namespace

std::uint64_t Bounds::calls() const {
  std::uint64_t sum = 0;
  for (const auto& machine : machines_) sum += machine->kubelet.calls();
  return sum;
}

std::size_t Bounds::starts() const {
  std::size_t sum = controllers_.starts();
  for (const auto& machine : machines_) sum += machine->node.starts();
  return sum;
}

void Bounds::WatchForStorms() {
  while (true) {
    const std::uint64_t requests_before = network_.requests();
    const std::uint64_t calls_before = calls();
    const std::uint64_t watches_before = network_.ended_watches();
    const std::size_t started_before = starts();
    const std::uint64_t of_controllers_before = controllers_.requests();
    const bool are_rivals = controllers_.count() > 1 && !controllers_.has_elections();
    const auto machines = [this] {
      std::vector<const void*> all;
      for (const auto& machine : machines_) all.push_back(machine.get());
      return all;
    };
    const auto machines_before = machines();
    std::this_thread::sleep_for(60s);
    const std::uint64_t of_controllers = controllers_.requests() - of_controllers_before;
    const std::uint64_t sent = network_.requests() - requests_before - (are_rivals ? of_controllers : 0);
    // If another machine has replaced a machine, its numbers begin at 0.
    if (machines() != machines_before) continue;
    const std::uint64_t called = calls() - calls_before;
    // Each program counts that lived at any time of the minute, also agents older than the newest.
    std::size_t all = programs() + starts() - started_before;
    for (const auto& machine : machines_) all += machine->node.living();
    const std::uint64_t ended = network_.ended_watches() - watches_before;
    const std::uint64_t most = kStormRequests * all + kStormRequestsOfCall * called + kStormRequestsOfWatch * ended;
    if (sent > most || of_controllers > kRivalsRequests)
      story_.Break("storm", fmt::format("{} programs sent {} requests in a minute of {} calls", all, sent, called));
  }
}

void Bounds::CheckQuiet(Nanos cooldown, std::size_t refused) {
  // Before the minute, watches begin again and cooled entries are removed.
  std::this_thread::sleep_for(30s + cooldown);
  const std::uint64_t before = network_.requests();
  std::this_thread::sleep_for(60s);
  const std::uint64_t sent = network_.requests() - before;
  const std::uint64_t renewals = controllers_.has_elections() ? kQuietRenewalsMax * controllers_.count() : 0;
  if (sent > kQuietRequestsMax * programs() + renewals + kQuietRefusedMax * refused)
    story_.Break("quiet", fmt::format("{} idle nodes sent {} requests in a minute", machines_.size(), sent));
}

std::int64_t Bounds::ListsOf(const Machine& machine) {
  return static_cast<std::int64_t>(machine.link.lists()) - static_cast<std::int64_t>(machine.kubelet.exhausted());
}

void Bounds::BeginSteady() {
  lists_.clear();
  for (const auto& machine : machines_) lists_.push_back(ListsOf(*machine));
}

void Bounds::EndSteady(int containers) {
  for (std::size_t i = 0; i < machines_.size(); ++i) {
    const Machine& machine = *machines_[i];
    const std::int64_t sent = ListsOf(machine) - lists_[i];
    // Without an agent, and in Shared blocks, each call begins with a LIST.
    if (!machine.node.has_agents() || !machine.kubelet.has_own_blocks() || sent <= kSteadyListsMax) continue;
    story_.Break("no-list", fmt::format("{} sent {} LISTs for {} containers", machine.node.name(), sent, containers));
  }
}

void Bounds::CheckGrowth(std::size_t refused) {
  std::this_thread::sleep_for(kUntilForgotten);
  for (const auto& machine : machines_) {
    machine->kubelet.DelUnknown();
    const std::vector<std::string> files = FilesIn(machine->folder);
    const std::size_t bytes = machine->node.bytes();
    const std::size_t blocks = machine->node.has_agents() ? machine->node.KnownBlocks().size() : 0;
    const std::size_t bytes_max = kAgentBytesMax + kBlockBytesMax * blocks;
    if (files.size() <= kFilesMax + refused && bytes <= bytes_max) continue;
    const std::string& name = machine->node.name();
    for (const std::string& file : files) story_.Tell("is left: " + file);
    story_.Break(
        "growth",
        fmt::format(
            "{}: {} files, {} bytes of its agent, and {} addresses are held", name, files.size(), bytes, refused));
  }
}

}  // namespace berth::sim
