// SPDX-License-Identifier: Apache-2.0
// Matches pods with nodes.
#include "reconciler/placement.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/mutex.h"
#include "k8sclient/text_at.h"

namespace berth::reconciler {

namespace {

using k8sclient::TextAt;
using k8sclient::ValueAt;
using nlohmann::json;

constexpr const char* kCordonTaint = "node.kubernetes.io/unschedulable";

std::optional<std::int64_t> ParseInteger(const std::string& text) {
  std::int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || at != end) return std::nullopt;
  return number;
}

void ReadRequirements(const json& list, bool is_field, std::vector<NodeRequirement>& into) {
  if (!list.is_array()) return;
  for (const json& item : list) {
    NodeRequirement one{.key = TextAt(item, "key"), .op = TextAt(item, "operator"), .values = {}, .is_field = is_field};
    const json& values = ValueAt(item, "values");
    if (values.is_array()) {
      for (const json& value : values) {
        if (value.is_string()) one.values.push_back(value.get<std::string>());
      }
    }
    into.push_back(std::move(one));
  }
}

// The placements that are in use, each once.
class Shared {
 public:
  // nullptr: the limit of all placements is reached.
  std::shared_ptr<const Placement> Find(Placement placement) {
    const std::size_t bytes = placement.bytes();
    const Lock lock(mutex_);
    const auto found = all_.find(&placement);
    // If lock() fails, the last user is gone and Release waits for the mutex, so make a new Placement.
    if (auto used = found == all_.end() ? nullptr : found->second.lock()) return used;
    if (bytes_ + bytes > kPlacementsBytesMax) return nullptr;
    std::shared_ptr<const Placement> made(
        new Placement(std::move(placement)),  // NOLINT(cppcoreguidelines-owning-memory): Release deletes it
        [this, bytes](const Placement* unused) { Release(unused, bytes); });
    if (found != all_.end()) all_.erase(found);
    all_.emplace(made.get(), made);
    bytes_ += bytes;
    return made;
  }

 private:
  struct ByValue {
    bool operator()(const Placement* one, const Placement* other) const { return *one < *other; }
  };

  void Release(const Placement* unused, std::size_t bytes) {
    const Lock lock(mutex_);
    const auto found = all_.find(unused);
    if (found != all_.end() && found->first == unused) all_.erase(found);
    bytes_ -= bytes;
    delete unused;  // NOLINT(cppcoreguidelines-owning-memory)
  }

  Mutex mutex_;
  std::map<const Placement*, std::weak_ptr<const Placement>, ByValue> all_ BERTH_GUARDED_BY(mutex_);
  std::size_t bytes_ BERTH_GUARDED_BY(mutex_) = 0;
};

}  // namespace

bool Toleration::Tolerates(const Taint& taint) const {
  if (!effect.empty() && effect != taint.effect) return false;
  if (key.empty()) return exists;
  return key == taint.key && (exists || value == taint.value);
}

bool NodeRequirement::Matches(const std::string& node, const ipam::Labels& labels) const {
  std::optional<std::string> actual;
  if (is_field) {
    if (key != "metadata.name") return false;
    actual = node;
  } else if (const auto found = labels.find(key); found != labels.end()) {
    actual = found->second;
  }
  const bool is_listed = actual && std::ranges::find(values, *actual) != values.end();
  if (op == "In") return is_listed;
  if (op == "NotIn") return !is_listed;
  if (op == "Exists") return actual.has_value();
  if (op == "DoesNotExist") return !actual.has_value();
  if ((op != "Gt" && op != "Lt") || !actual || values.size() != 1) return false;
  const auto left = ParseInteger(*actual);
  const auto right = ParseInteger(values.front());
  if (!left || !right) return false;
  return op == "Gt" ? *left > *right : *left < *right;
}

bool Placement::Admits(const std::string& node, const ipam::Labels& labels, const std::vector<Taint>& taints) const {
  for (const auto& [key, value] : node_selector) {
    const auto found = labels.find(key);
    if (found == labels.end() || found->second != value) return false;
  }
  if (terms) {
    const auto matches = [&](const std::vector<NodeRequirement>& term) {
      // A term without requirements matches no node.
      return !term.empty() &&
             std::ranges::all_of(term, [&](const NodeRequirement& one) { return one.Matches(node, labels); });
    };
    if (std::ranges::none_of(*terms, matches)) return false;
  }
  return std::ranges::all_of(taints, [&](const Taint& taint) {
    return taint.effect == "PreferNoSchedule" ||
           std::ranges::any_of(tolerations, [&](const Toleration& one) { return one.Tolerates(taint); });
  });
}

std::size_t Placement::bytes() const {
  constexpr std::size_t kText = sizeof(std::string);
  std::size_t sum = 0;
  for (const auto& [key, value] : node_selector) sum += 2 * kText + key.size() + value.size();
  for (const Toleration& one : tolerations) sum += sizeof(one) + one.key.size() + one.value.size() + one.effect.size();
  if (!terms) return sum;
  for (const std::vector<NodeRequirement>& term : *terms) {
    sum += sizeof(std::vector<NodeRequirement>);
    for (const NodeRequirement& one : term) {
      sum += sizeof(one) + one.key.size() + one.op.size();
      for (const std::string& value : one.values) sum += kText + value.size();
    }
  }
  return sum;
}

std::shared_ptr<const Placement> SharedPlacement(Placement placement) {
  static Shared& shared = *new Shared;  // NOLINT(cppcoreguidelines-owning-memory): outlives every placement
  return placement.bytes() > kPlacementBytesMax ? nullptr : shared.Find(std::move(placement));
}

Placement ReadPlacement(const json& spec) {
  Placement placement;
  const json& selector = ValueAt(spec, "nodeSelector");
  if (selector.is_object()) {
    for (const auto& [key, value] : selector.items()) {
      if (value.is_string()) placement.node_selector.emplace(key, value.get<std::string>());
    }
  }
  const json& required =
      ValueAt(ValueAt(ValueAt(spec, "affinity"), "nodeAffinity"), "requiredDuringSchedulingIgnoredDuringExecution");
  const json& terms = ValueAt(required, "nodeSelectorTerms");
  if (terms.is_array()) {
    placement.terms.emplace();
    for (const json& item : terms) {
      std::vector<NodeRequirement> term;
      ReadRequirements(ValueAt(item, "matchExpressions"), /*is_field=*/false, term);
      ReadRequirements(ValueAt(item, "matchFields"), /*is_field=*/true, term);
      placement.terms->push_back(std::move(term));
    }
  }
  const json& tolerations = ValueAt(spec, "tolerations");
  if (tolerations.is_array()) {
    for (const json& item : tolerations) {
      placement.tolerations.push_back({.key = TextAt(item, "key"),
                                       .exists = TextAt(item, "operator") == "Exists",
                                       .value = TextAt(item, "value"),
                                       .effect = TextAt(item, "effect")});
    }
  }
  return placement;
}

std::vector<Taint> ReadTaints(const json& spec) {
  std::vector<Taint> taints;
  const json& list = ValueAt(spec, "taints");
  if (list.is_array()) {
    for (const json& item : list)
      taints.push_back({.key = TextAt(item, "key"), .value = TextAt(item, "value"), .effect = TextAt(item, "effect")});
  }
  const json& cordon = ValueAt(spec, "unschedulable");
  if (cordon.is_boolean() && cordon.get<bool>()) {
    const Taint taint{.key = kCordonTaint, .value = "", .effect = "NoSchedule"};
    if (std::ranges::find(taints, taint) == taints.end()) taints.push_back(taint);
  }
  return taints;
}

}  // namespace berth::reconciler
