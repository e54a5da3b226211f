// SPDX-License-Identifier: Apache-2.0
// The names of all faults, and the faults that a seed has.
#include <cstdint>
#include <iterator>
#include <random>
#include <set>
#include <string>

#include "sim/world.h"

namespace berth::sim {

namespace {

// A second space changes most of a history, so few histories have it.
constexpr const char* kSpaces = "spaces";
// Faults that were added later. Another seed decides about them, so that the other faults of a seed stay the same.
constexpr const char* kOddPods = "odd-pods";
constexpr std::uint64_t kOneInHasOddPods = 4;
constexpr const char* kRefusedForHours = "refused-for-hours";
constexpr std::uint64_t kOneInRefusesForHours = 16;
constexpr const char* kEmptied = "emptied";
constexpr std::uint64_t kOneInIsEmptied = 8;
constexpr const char* kQueue = "queue";
constexpr std::uint64_t kOneInQueues = 4;
constexpr std::uint64_t kOtherSeed = 0x6f64642d706f6473;

}  // namespace

std::set<std::string> Extent::AllFaults() {
  return {"away",           "refused",   "lost",       "late",        "lag",      "kill",          "overlap",
          "reboot",         "restart",   "give-back",  "gc",          "calendar", "shared",        "cut-off",
          "no-del",         "mirror",    "vanish",     "edit",        "delete",   "allocation",    "odd-uid",
          "sandbox",        "meanwhile", "pause",      "restore",     "compact",  "deaf",          "direct",
          "denied",         "mute",      "check",      "second",      "pools",    "power",         "replaced",
          "suspend",        "scheduler", "kubelet",    "number",      "clocks",   "pool-replaced", "slow-end",
          "out-of-service", "cascade",   "dual-stack", "block-limit", "requests", "selectors",     "refused-block",
          "ghost",          "day",       "starting",   "election",    "stolen",   "tenant",        "server-clocks",
          "finalizer"};
}

std::set<std::string> Extent::KnownFaults() {
  std::set<std::string> faults = AllFaults();
  faults.insert(kSpaces);
  faults.insert(kOddPods);
  faults.insert(kRefusedForHours);
  faults.insert(kEmptied);
  faults.insert(kQueue);
  return faults;
}

std::set<std::string> Extent::DrawFaults(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::set<std::string> faults = AllFaults();
  if (random() % 2 != 0) {
    constexpr std::uint64_t kFewest = 2;
    constexpr std::uint64_t kSpread = 10;
    const std::uint64_t wanted = kFewest + random() % kSpread;
    while (faults.size() > wanted) {
      faults.erase(std::next(faults.begin(), static_cast<std::ptrdiff_t>(random() % faults.size())));
    }
  }
  constexpr std::uint64_t kOneInHasSpaces = 8;
  if (random() % kOneInHasSpaces == 0) faults.insert(kSpaces);
  std::mt19937_64 other(seed ^ kOtherSeed);
  if (other() % kOneInHasOddPods == 0) faults.insert(kOddPods);
  if (other() % kOneInRefusesForHours == 0) faults.insert(kRefusedForHours);
  if (other() % kOneInIsEmptied == 0) faults.insert(kEmptied);
  if (other() % kOneInQueues == 0) faults.insert(kQueue);
  return faults;
}

}  // namespace berth::sim
