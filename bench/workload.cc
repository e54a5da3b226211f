// SPDX-License-Identifier: Apache-2.0
// Waves of operations.
#include "bench/workload.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <spdlog/fmt/fmt.h>

#include "bench/callers.h"
#include "bench/process_figures.h"

namespace berth::bench {

std::string ContainerIds::Next() {
  std::string id;
  for (int part = 0; part < 4; ++part) {
    // SplitMix64: D. Lea, G. L. Steele, C. H. Flood, "Fast Splittable Pseudorandom Number Generators", 2014.
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27U)) * 0x94d049bb133111eb;
    id += fmt::format("{:016x}", z ^ (z >> 31U));
  }
  return id;
}

Expected<WorkloadSamples> RunWorkload(Contender& contender, const Workload& workload, const Meters& meters,
                                      ContainerIds& ids) {
  WorkloadSamples samples;
  Callers callers;
  const int wave_max = workload.callers == 1 ? kSmallWave : workload.operations;
  for (int done = 0; done < workload.operations; done += wave_max) {
    std::vector<std::string> wave(static_cast<std::size_t>(std::min(wave_max, workload.operations - done)));
    std::ranges::generate(wave, [&ids] { return ids.Next(); });
    const std::vector<Share> shares = {{.contender = &contender, .container_ids = std::move(wave)}};
    const auto node_cpu = [&contender] { return ChildrenCpu() + contender.NodeCpu(); };
    const auto run = [&](Operation operation) {
      return Metered(meters, contender.user_agent(), node_cpu, [&] {
        auto samples_of_wave = callers.Run(operation, shares, workload.callers);
        // Later writes are part of the cost, although no caller waits for them.
        contender.AwaitWritten();
        return samples_of_wave;
      });
    };
    auto added = run(Operation::kAdd);
    if (!added) return std::unexpected(added.error());
    auto deleted = run(Operation::kDel);
    if (!deleted) return std::unexpected(deleted.error());
    samples.add.Add(*std::move(added));
    samples.del.Add(*std::move(deleted));
  }
  return samples;
}

}  // namespace berth::bench
