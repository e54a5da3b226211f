// SPDX-License-Identifier: Apache-2.0
// OddPods: pods with fields that the API server accepts and that few pods have (fault `odd-pods`).
//
// OddPods has random numbers of its own. So in a history with odd pods everything else happens as without them, until a
// program treats an odd pod in another way.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <string>

#include <nlohmann/json_fwd.hpp>

namespace berth::sim {

struct Pod;

class OddPods {
 public:
  // From now on one new pod of two is odd.
  void Begin(std::uint64_t seed) { random_.emplace(seed); }
  // Before the pod is stored: makes it odd, or leaves it as it is.
  void Create(Pod& pod, nlohmann::json& object);
  // Before a person's deletion of the pod is stored.
  void Delete(const Pod& pod, nlohmann::json& metadata);
  // Before a kubelet's report is stored: adds what makes the status odd. `has_new_addresses`: the report sets
  // status.podIPs.
  void Report(const nlohmann::json& metadata, nlohmann::json& status, bool has_new_addresses);
  // The API server shows a grace period of 68 years or more, or will show it when a person deletes the pod.
  [[nodiscard]] bool HasLongGrace(const std::string& uid) const;

 private:
  enum class Kind : std::uint8_t;
  [[nodiscard]] std::uint64_t Below(std::uint64_t bound) { return (*random_)() % bound; }  // NOLINT(bugprone-*)
  [[nodiscard]] const Kind* Find(const nlohmann::json& metadata) const;

  std::optional<std::mt19937_64> random_;  // nullopt: no pod is odd
  std::map<std::string, Kind> kinds_;      // by UID
  int long_texts_ = 0;
  int many_conditions_ = 0;
};

}  // namespace berth::sim
