// SPDX-License-Identifier: Apache-2.0
// Metrics: what the agent counts, in Prometheus' text format (docs/metrics.md explains each metric).
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
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

  // What MetricsText finds at the moment of its call.
  struct Found {
    struct Pool {
      std::size_t blocks = 0;
      std::size_t used = 0;
      std::size_t free = 0;
    };
    std::map<std::string, Pool> pools = {};  // by name
    std::size_t journal = 0;                 // pending DELs
    std::size_t handed_out = 0;
    // This machine's clock minus the API server's clock; nullopt: not known yet.
    std::optional<std::chrono::milliseconds> clock_difference = {};
  };
  [[nodiscard]] std::string Text(const Found& found) const;

 private:
  struct Families;
  std::unique_ptr<Families> families_;
};

}  // namespace berth::agent
