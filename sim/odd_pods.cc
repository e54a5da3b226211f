// SPDX-License-Identifier: Apache-2.0
// The kinds of odd pods.
#include "sim/odd_pods.h"

#include <array>
#include <limits>

#include <nlohmann/json.hpp>
#include <spdlog/fmt/fmt.h>

#include "sim/cluster.h"

namespace berth::sim {

using nlohmann::json;

enum class OddPods::Kind : std::uint8_t {
  kLongGrace,       // terminationGracePeriodSeconds of 68 years and more
  kLongDeletion,    // deletionGracePeriodSeconds of 68 years and more: whoever deletes the pod chooses it
  kNegativeGrace,   // a negative grace period, which the kubelet treats as 1 s
  kAddresses,       // status.podIPs also has texts that are no addresses
  kText,            // texts of 70 KB
  kMetadata,        // odd annotations and owners
  kManyConditions,  // more conditions than any program sets
};

namespace {

constexpr std::size_t kTextSize = 70'000;
constexpr int kConditions = 5'000;
// Pods with texts of 70 KB, and with very many conditions. More such pods would make a history slow.
constexpr int kLongTextsMax = 4;
constexpr int kManyConditionsMax = 1;

// Grace periods. The first does not fit into a signed number of 32 bits, nor the nanoseconds of the others into one of
// 64 bits.
constexpr std::array kLongTimes{std::int64_t{1} << 31,
                                (std::int64_t{1} << 32) + 5,
                                std::int64_t{10'000'000'000},
                                std::numeric_limits<std::int64_t>::max()};

// Texts that a CNI plugin may report as an address of a pod, and that berth does not read as one.
constexpr std::array kNoAddresses{"", "010.56.0.1", "10.56.0.1/24", "::ffff:10.56.0.1", "fe80::1%eth0", "none"};

json Condition(const std::string& type, const std::string& reason) {
  return {{"type", type}, {"status", "False"}, {"reason", reason}};
}

}  // namespace

const OddPods::Kind* OddPods::Find(const json& metadata) const {
  const auto found = kinds_.find(metadata["uid"].get<std::string>());
  return found == kinds_.end() ? nullptr : &found->second;
}

void OddPods::Create(Pod& pod, json& object) {
  constexpr std::array kKinds{Kind::kLongGrace,
                              Kind::kLongGrace,
                              Kind::kLongDeletion,
                              Kind::kNegativeGrace,
                              Kind::kAddresses,
                              Kind::kText,
                              Kind::kMetadata,
                              Kind::kManyConditions};
  if (!random_ || Below(2) == 0) return;
  const Kind kind = kKinds.at(Below(kKinds.size()));
  if (kind == Kind::kManyConditions && ++many_conditions_ > kManyConditionsMax) return;
  if ((kind == Kind::kText || kind == Kind::kMetadata) && ++long_texts_ > kLongTextsMax) return;
  kinds_.emplace(pod.uid, kind);
  json& grace = object["spec"]["terminationGracePeriodSeconds"];
  json& annotations = object["metadata"]["annotations"];
  switch (kind) {
    case Kind::kLongGrace:
      grace = kLongTimes.at(Below(kLongTimes.size()));
      pod.has_long_grace = true;
      break;
    case Kind::kNegativeGrace:
      grace = -1;
      pod.grace = std::chrono::seconds(1);
      break;
    case Kind::kText:
      annotations["example.com/text"] = std::string(kTextSize, 'x');
      break;
    case Kind::kMetadata:
      annotations["ipam.berth.dev/resources"] = ", ,-,ipv4,,ipv4";
      object["metadata"]["ownerReferences"] = json::array(
          {{{"uid", std::string(kTextSize, 'u')}, {"controller", true}}, {{"uid", ""}, {"controller", true}}});
      break;
    default:
      break;
  }
  if (annotations.is_null()) object["metadata"].erase("annotations");
}

bool OddPods::HasLongGrace(const std::string& uid) const {
  const auto found = kinds_.find(uid);
  return found != kinds_.end() && (found->second == Kind::kLongGrace || found->second == Kind::kLongDeletion);
}

void OddPods::Delete(const Pod& pod, json& metadata) {
  const Kind* const kind = Find(metadata);
  if (kind == nullptr) return;
  if (*kind == Kind::kLongDeletion) metadata["deletionGracePeriodSeconds"] = kLongTimes.at(Below(kLongTimes.size()));
  if (*kind == Kind::kNegativeGrace) metadata["deletionGracePeriodSeconds"] = pod.grace.count();
}

void OddPods::Report(const json& metadata, json& status, bool has_new_addresses) {
  const Kind* const kind = Find(metadata);
  if (kind == nullptr) return;
  if (*kind == Kind::kAddresses && has_new_addresses) {
    json& addresses = status["podIPs"];
    const auto any = [this] { return json{{"ip", kNoAddresses.at(Below(kNoAddresses.size()))}}; };
    addresses.insert(addresses.begin(), any());
    addresses.push_back(any());
  }
  json& conditions = status["conditions"];
  if (*kind == Kind::kText) conditions.push_back(Condition("PodScheduled", std::string(kTextSize, 'r')));
  if (*kind != Kind::kManyConditions) return;
  for (int i = 0; i < kConditions; ++i) conditions.push_back(Condition(fmt::format("example.com/c{}", i), ""));
}

}  // namespace berth::sim
