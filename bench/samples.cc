// SPDX-License-Identifier: Apache-2.0
// Percentiles and medians.
#include "bench/samples.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "base/check.h"

namespace berth::bench {

double Percentile(std::vector<double> values, double share) {
  BERTH_CHECK(!values.empty());
  BERTH_CHECK(share > 0 && share <= 1);
  const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(values.size())));
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(rank - 1);
  std::ranges::nth_element(values, at);
  return *at;
}

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

void OpSamples::Add(OpSamples more) {
  took.insert(took.end(), more.took.begin(), more.took.end());
  wall += more.wall;
  requests += more.requests;
  etcd_bytes += more.etcd_bytes;
  node_cpu += more.node_cpu;
  server_cpu += more.server_cpu;
  failed += more.failed;
  if (first_error.empty()) first_error = std::move(more.first_error);
}

OpFigures Summarise(const OpSamples& samples) {
  OpFigures figures{.failed = samples.failed, .first_error = samples.first_error};
  if (samples.took.empty()) return figures;
  std::vector<double> milliseconds;
  std::ranges::transform(samples.took, std::back_inserter(milliseconds), [](Nanoseconds took) {
    return std::chrono::duration<double, std::milli>(took).count();
  });
  const auto count = static_cast<double>(samples.took.size());
  figures.p50_ms = Percentile(milliseconds, 0.50);
  figures.p90_ms = Percentile(milliseconds, 0.90);
  figures.p99_ms = Percentile(milliseconds, 0.99);
  figures.per_second = count / std::chrono::duration<double>(samples.wall).count();
  figures.requests = samples.requests / count;
  figures.etcd_bytes = samples.etcd_bytes / count;
  figures.node_cpu_ms = std::chrono::duration<double, std::milli>(samples.node_cpu).count() / count;
  figures.server_cpu_ms = std::chrono::duration<double, std::milli>(samples.server_cpu).count() / count;
  return figures;
}

OpFigures MedianOf(std::span<const OpFigures> rounds) {
  OpFigures result;
  for (const auto field : {&OpFigures::p50_ms,
                           &OpFigures::p90_ms,
                           &OpFigures::p99_ms,
                           &OpFigures::per_second,
                           &OpFigures::requests,
                           &OpFigures::etcd_bytes,
                           &OpFigures::node_cpu_ms,
                           &OpFigures::server_cpu_ms}) {
    std::vector<double> values;
    for (const OpFigures& round : rounds) values.push_back(round.*field);
    result.*field = Median(std::move(values));
  }
  for (const OpFigures& round : rounds) {
    result.failed += round.failed;
    if (result.first_error.empty()) result.first_error = round.first_error;
  }
  return result;
}

}  // namespace berth::bench
