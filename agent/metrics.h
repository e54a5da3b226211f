// SPDX-License-Identifier: Apache-2.0
// Metrics: what the agent counts, in Prometheus' text format (docs/metrics.md explains each metric).
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

namespace berth::agent {

// Thread-safe.
class Metrics {
 public:
  Metrics();
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  // Counts an answered CNI call. `code` is the CNI error code; 0: success.
  void Call(const std::string& verb, std::uint32_t code, std::chrono::nanoseconds took);
  void Conflict();
  void Batch(std::size_t changes);
  void InDoubt();
  void Reasserted();
  void StillInUse();
  void NetnsUnseen();
  void ClaimedAhead(const std::string& pool);

  void SetCallsWaiting(std::size_t count);
  void SetJournal(std::size_t pending);
  void SetHandedOut(std::size_t pending);
  // This machine's clock minus the API server's clock. Text shows no difference before the first call.
  void SetClockDifference(std::chrono::milliseconds difference);
  // Replaces the numbers of all pools: call BeginPools, and then Pool for each pool.
  void BeginPools();
  void Pool(const std::string& pool, std::size_t blocks, std::size_t used, std::size_t free);

  [[nodiscard]] std::string Text() const;

 private:
  struct Families;
  std::unique_ptr<Families> families_;
};

}  // namespace berth::agent
