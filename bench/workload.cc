// SPDX-License-Identifier: Apache-2.0
// Waves of operations by threads that start together.
#include "bench/workload.h"

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <mutex>
#include <sys/resource.h>
#include <thread>

#include <spdlog/fmt/fmt.h>

namespace berth::bench {

using ipam::Expected;
using std::chrono::steady_clock;

namespace {

enum class Operation : std::uint8_t { kAdd, kDel };

Expected<void> Do(Contender& contender, Operation operation, const std::string& id) {
  return operation == Operation::kAdd ? contender.Add(id) : contender.Del(id);
}

// Each operation is done by whichever caller is free next.
OpSamples RunOperations(Contender& contender, Operation operation, const std::vector<std::string>& ids, int callers) {
  OpSamples all;
  std::mutex mutex;  // guards all
  std::atomic<std::size_t> next = 0;
  steady_clock::time_point begin;
  std::barrier start(callers, [&begin]() noexcept { begin = steady_clock::now(); });
  const auto call = [&] {
    OpSamples own;
    start.arrive_and_wait();
    for (std::size_t at = next++; at < ids.size(); at = next++) {
      const auto before = steady_clock::now();
      const auto done = Do(contender, operation, ids[at]);
      const auto took = steady_clock::now() - before;
      if (done) {
        own.took.push_back(took);
      } else {
        ++own.failed;
        if (own.first_error.empty()) own.first_error = done.error().message;
      }
    }
    const std::lock_guard lock(mutex);
    all.Add(std::move(own));
  };
  std::vector<std::jthread> others;
  for (int index = 1; index < callers; ++index) others.emplace_back(call);
  call();
  others.clear();
  all.wall = steady_clock::now() - begin;
  return all;
}

// CPU time of all processes that were started here and have ended.
Nanoseconds ChildrenCpu() {
  rusage usage{};
  getrusage(RUSAGE_CHILDREN, &usage);
  const auto sum = [](const timeval& a, const timeval& b) {
    return std::chrono::seconds(a.tv_sec + b.tv_sec) + std::chrono::microseconds(a.tv_usec + b.tv_usec);
  };
  return sum(usage.ru_utime, usage.ru_stime);
}

Expected<OpSamples> Metered(Contender& contender, const Meters& meters, const auto& run) {
  const auto log_end = meters.audit.End();
  if (!log_end) return std::unexpected(log_end.error());
  const auto bytes_before = meters.etcd.LogBytes();
  if (!bytes_before) return std::unexpected(bytes_before.error());
  const Nanoseconds cpu_before = ChildrenCpu();
  OpSamples samples = run();
  samples.cpu = ChildrenCpu() - cpu_before;
  const auto bytes_after = meters.etcd.LogBytes();
  if (!bytes_after) return std::unexpected(bytes_after.error());
  samples.etcd_bytes = *bytes_after - *bytes_before;
  if (contender.user_agent().empty()) return samples;
  const auto requests = meters.audit.CountSince(*log_end, contender.user_agent());
  if (!requests) return std::unexpected(requests.error());
  samples.requests = static_cast<double>(*requests);
  return samples;
}

}  // namespace

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
  const int wave_max = workload.callers == 1 ? kSmallWave : workload.operations;
  for (int done = 0; done < workload.operations; done += wave_max) {
    std::vector<std::string> wave(static_cast<std::size_t>(std::min(wave_max, workload.operations - done)));
    std::ranges::generate(wave, [&ids] { return ids.Next(); });
    const auto run = [&](Operation operation) {
      return Metered(contender, meters, [&] { return RunOperations(contender, operation, wave, workload.callers); });
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
