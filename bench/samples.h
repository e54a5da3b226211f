// SPDX-License-Identifier: Apache-2.0
// Samples: from times of single operations to the few numbers that are printed.
//
// A round of one contender gives one OpFigures. The report prints the median of each field over the rounds, so that a
// disturbance of a shared machine spoils one round and not the result.
#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace berth::bench {

using Nanoseconds = std::chrono::nanoseconds;

// The smallest of the values that at least `share` of the values do not exceed (nearest rank). Requires: not empty, 0 <
// share <= 1.
[[nodiscard]] double Percentile(std::vector<double> values, double share);

// The middle value, or the mean of the two in the middle. 0 if there are none.
[[nodiscard]] double Median(std::vector<double> values);

// All operations of one kind that one contender did in one round.
struct OpSamples {
  std::vector<Nanoseconds> took = {};  // of the operations that succeeded
  Nanoseconds wall{0};                 // from the start of the first operation to the end of the last, without pauses
  double requests = 0;                 // to the API server, by its audit log; 0 without one
  double etcd_bytes = 0;               // bytes that etcd wrote to its log
  Nanoseconds node_cpu{0};             // of everything that runs on the node for the contender
  Nanoseconds server_cpu{0};           // of the API server
  std::size_t failed = 0;
  std::string first_error = {};

  void Add(OpSamples more);
};

struct OpFigures {
  double p50_ms = 0;
  double p90_ms = 0;
  double p99_ms = 0;
  double per_second = 0;
  double requests = 0;       // per operation
  double etcd_bytes = 0;     // per operation
  double node_cpu_ms = 0;    // per operation
  double server_cpu_ms = 0;  // per operation
  std::size_t failed = 0;
  std::string first_error = {};
};

// If no operation succeeded, only `failed` and `first_error` are set.
[[nodiscard]] OpFigures Summarise(const OpSamples& samples);

// The median of each figure; the sum of `failed`; the first error of all rounds.
[[nodiscard]] OpFigures MedianOf(std::span<const OpFigures> rounds);

}  // namespace berth::bench
