// SPDX-License-Identifier: Apache-2.0
// Workload: how many callers call how often, and what is measured around it.
//
// ADDs and DELs come in waves: first all ADDs of a wave, then all DELs, so that both can be measured apart. One caller
// makes small waves on blocks that stay about half full; several callers make one large wave, as when many pods start.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/contender.h"
#include "bench/meters.h"
#include "bench/samples.h"

namespace berth::bench {

struct Workload {
  int callers = 1;
  int operations = 200;  // ADDs, and as many DELs
};

// Addresses that pods hold all the time. In the middle of a wave of kSmallWave, 28 + 4 of 64 addresses are held.
inline constexpr int kPrefill = 28;
inline constexpr int kSmallWave = 8;

struct WorkloadSamples {
  OpSamples add;
  OpSamples del;
};

// IDs of containers that no other process uses.
class ContainerIds {
 public:
  explicit ContainerIds(std::uint64_t seed) : state_(seed) {}
  // 64 hexadecimal digits, like those of containerd.
  [[nodiscard]] std::string Next();

 private:
  std::uint64_t state_;
};

// Blocks until all is done. Counts operations that fail. Errors: those of the meters.
[[nodiscard]] Expected<WorkloadSamples> RunWorkload(Contender& contender, const Workload& workload,
                                                    const Meters& meters, ContainerIds& ids);

}  // namespace berth::bench
