// SPDX-License-Identifier: Apache-2.0
// Counted: computes the right address counts from stored objects, and compares them with the counts that Nodes show.
#include "sim/counted.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <string_view>
#include <utility>
#include <variant>

#include <nlohmann/json.hpp>
#include <spdlog/fmt/fmt.h>

#include "crds/names.h"
#include "ipam/entry.h"
#include "ipam/interval_set.h"
#include "ipam/pool.h"
#include "k8sclient/clock.h"
#include "reconciler/read_holders.h"
#include "reconciler/read_objects.h"
#include "sim/checkers.h"

namespace berth::sim {

using nlohmann::json;

namespace {

constexpr const char* kCountedName = "ipv4";
constexpr const char* kMirror = "kubernetes.io/config.mirror";
// A kubelet's informer lags by less than kKubeletLag, and one time in twenty by less than kKubeletLagMax.
constexpr Nanos kKubeletLag = std::chrono::milliseconds(50);
constexpr Nanos kKubeletLagMax = std::chrono::seconds(2);
constexpr std::int64_t kLeftMin = 8;
constexpr Nanos kOvertakenFor = std::chrono::seconds(3);

std::int64_t ToNumber(const json& text) { return text.is_string() ? std::stoll(text.get<std::string>()) : 0; }

std::int64_t UnixMs() {
  const auto now = k8sclient::RealClock().WallNow().time_since_epoch();
  return std::chrono::floor<std::chrono::milliseconds>(now).count();
}

// Returns the pools that count, by UID: Ready, not disabled, not being deleted, of affinity Node and of the resource
// ipv4.
std::map<std::string, ipam::Pool> CountedPools(const k8sclient::testing::ModelApi& store) {
  std::map<std::string, ipam::Pool> pools;
  for (const json& object : store.Objects(std::string(crds::kPoolsPath))) {
    const auto seen = reconciler::ReadPool(object);
    if (!seen || !seen->pool || !seen->IsReady()) continue;
    const ipam::Pool& pool = *seen->pool;
    const bool is_counted = pool.affinity == ipam::Affinity::kNode && pool.resource == kCountedName && !pool.disabled &&
                            !seen->meta.deleting();
    if (is_counted) pools.emplace(seen->meta.uid, pool);
  }
  return pools;
}

std::set<std::string> ResourcePoolUids(const k8sclient::testing::ModelApi& store) {
  std::set<std::string> uids;
  for (const json& object : store.Objects(std::string(crds::kPoolsPath))) {
    const auto& subnet = object["spec"]["subnet"].get_ref<const std::string&>();
    const char* const by_family = subnet.find(':') == std::string::npos ? kCountedName : "ipv6";
    if (object["spec"].value("resource", by_family) == kCountedName) uids.insert(object["metadata"]["uid"]);
  }
  return uids;
}

ipam::Prefix CidrOf(const json& block) { return *ipam::Prefix::Parse(block["spec"]["cidr"].get<std::string>()); }

// Counts the assignable addresses of the block without entry, or with a cooling entry whose time is over.
std::int64_t FreeIn(const json& block, const ipam::Pool& pool, std::int64_t now_ms) {
  const ipam::Prefix cidr = CidrOf(block);
  const ipam::IntervalSet assignable = ipam::AssignableIn(pool, cidr);
  auto free = static_cast<std::int64_t>(assignable.Count());
  for (const auto& [offset, text] : block["allocations"].items()) {
    const auto until = ipam::CoolingUntil(text.get_ref<const std::string&>(), now_ms);
    if (until && *until <= now_ms) continue;
    if (assignable.Contains(cidr.At(static_cast<std::uint32_t>(std::stoul(offset))))) --free;
  }
  return free;
}

bool IsGoing(const json& object) { return object["metadata"].contains("deletionTimestamp"); }

bool HasNoEntries(const json& block, std::int64_t now_ms) {
  if (!block.value("standby", json::array()).empty()) return false;
  return std::ranges::all_of(block["allocations"], [&](const json& text) {
    const auto& entry = text.get_ref<const std::string&>();
    const auto until = ipam::CoolingUntil(entry, now_ms);
    return until ? *until <= now_ms : std::holds_alternative<ipam::ReservedEntry>(ipam::ParseEntry(entry));
  });
}

// True: the entry is the pod's. It has the pod's UID or its mirror hash, or the pod's name and an address that the pod
// shows.
bool IsOf(const ipam::HeldEntry& entry, const json& pod, const std::string& address) {
  const json& metadata = pod["metadata"];
  const std::string hash = metadata.value("annotations", json::object()).value(kMirror, std::string());
  if (!entry.uid.empty() && (entry.uid == metadata["uid"].get<std::string>() || entry.uid == hash)) return true;
  const auto addresses = pod.value("/status/podIPs"_json_pointer, json::array());
  return entry.pod == metadata["name"].get<std::string>() && entry.pod_namespace == metadata.value("namespace", "") &&
         std::ranges::any_of(addresses, [&](const json& one) { return one["ip"] == address; });
}

}  // namespace

std::int64_t UnitsOf(const json& pod) {
  std::int64_t units = 0;
  const auto spec = pod.find("spec");
  if (spec == pod.end() || !spec->contains("containers")) return 0;
  for (const json& container : (*spec)["containers"]) {
    const json requests = container.value("/resources/requests"_json_pointer, json::object());
    if (requests.contains(kCountedResource)) units += ToNumber(requests[kCountedResource]);
  }
  return units;
}

std::string NodeOf(const json& pod) { return pod.value("/spec/nodeName"_json_pointer, std::string()); }

bool HasEnded(const json& pod) {
  const std::string phase = pod.value("/status/phase"_json_pointer, std::string());
  return phase == "Succeeded" || phase == "Failed";
}

std::optional<std::int64_t> NumberOf(const json& node) {
  const json allocatable = node.value("/status/allocatable"_json_pointer, json::object());
  if (!allocatable.contains(kCountedResource)) return std::nullopt;
  return ToNumber(allocatable[kCountedResource]);
}

bool IsReadyNode(const json& node) {
  const json conditions = node.value("/status/conditions"_json_pointer, json::array());
  return std::ranges::any_of(conditions,
                             [](const json& one) { return one["type"] == "Ready" && one["status"] == "True"; });
}

void Counted::Stored(const std::string& collection, const json& before, const json& after) {
  if (collection == reconciler::kNodesPath) NodeStored(before, after);
  if (collection == reconciler::kPodsPath) PodStored(before, after);
}

void Counted::NodeStored(const json& before, const json& after) {
  const std::string name = (after.is_null() ? before : after)["metadata"]["name"];
  const auto number = after.is_null() ? std::nullopt : NumberOf(after);
  auto& shown = shown_[name];
  const bool was_shown = !shown.empty() && shown.back().number.has_value();
  const std::string version = (after.is_null() ? before : after)["metadata"]["resourceVersion"];
  if (number != (shown.empty() ? std::nullopt : shown.back().number)) {
    story_.Tell(number ? fmt::format("{} shows {}", name, *number)
                       : fmt::format("{} shows no number{}", name, was_shown ? " any more" : ""));
  }
  const bool is_lower = was_shown && number && *number < shown.back().number.value_or(0);
  const bool is_same = was_shown && number == shown.back().number;
  std::optional<Placement> lowered;
  if (is_same) lowered = shown.back().lowered;
  if (is_lower && LeftEight(name, *number)) lowered = {.version = std::stoull(version), .at = Now()};
  shown.push_back({.since = Now(), .version = std::stoull(version), .number = number, .lowered = lowered});
  CheckLow(name);
}

void Counted::PodStored(const json& before, const json& after) {
  const json& pod = after.is_null() ? before : after;
  const std::int64_t units = UnitsOf(pod);
  if (units == 0) return;
  const std::string uid = pod["metadata"]["uid"];
  const std::string node = after.is_null() || HasEnded(after) ? std::string() : NodeOf(after);
  if (node.empty()) {
    const auto found = pods_.find(uid);
    if (found == pods_.end()) return;
    const std::string before_on = found->second.node;
    pods_.erase(found);
    requested_[before_on].push_back({.since = Now(), .units = RequestedOn(before_on)});
    return;
  }
  const auto [found, is_new] = pods_.try_emplace(uid, Pod{.units = units, .node = node});
  if (!is_new) return;
  requested_[node].push_back({.since = Now(), .units = RequestedOn(node)});
  CheckLow(node);
}

void Counted::Placed(const std::string& uid, std::uint64_t node_version) {
  placed_[uid] = {.version = node_version, .at = Now()};
}

bool Counted::IsOvertaken(const std::string& node, const Shown& shown) const {
  if (!shown.lowered) return false;
  return std::ranges::any_of(pods_, [&](const auto& one) {
    const auto placed = placed_.find(one.first);
    return one.second.node == node && placed != placed_.end() && placed->second.version < shown.lowered->version &&
           placed->second.at + kOvertakenFor >= shown.lowered->at;
  });
}

bool Counted::LeftEight(const std::string& node, std::int64_t number) const {
  const auto history = requested_.find(node);
  if (history == requested_.end()) return number >= kLeftMin;
  // Go back from the latest value to the value at the beginning of the three seconds.
  for (auto at = history->second.rbegin(); at != history->second.rend(); ++at) {
    if (at->units + kLeftMin <= number) return true;
    if (at->since + kOvertakenFor < Now()) return false;
  }
  return number >= kLeftMin;
}

std::int64_t Counted::RequestedOn(const std::string& node) const {
  std::int64_t sum = 0;
  for (const auto& [uid, pod] : pods_) sum += pod.node == node ? pod.units : 0;
  return sum;
}

void Counted::CheckLow(const std::string& node) {
  const auto shown = shown_.find(node);
  if (shown == shown_.end() || shown->second.empty()) return;
  const std::optional<std::int64_t> number = shown->second.back().number;
  const std::int64_t requested = RequestedOn(node);
  if (!number || *number >= requested || IsOvertaken(node, shown->second.back())) return;
  story_.Break("low", fmt::format("{} shows {}, and its pods request {}", node, *number, requested));
}

void Counted::Unchanged(const k8sclient::Request& request) {
  if (!request.path.starts_with(reconciler::kNodesPath)) return;
  story_.Break("no-patch", request.path + " is as it was before the patch " + request.body);
}

Counted::Shown Counted::SeenByKubelet(const std::string& node, std::uint64_t version_min) {
  const auto& shown = shown_[node];
  if (shown.empty()) return {};
  const Nanos most = Below(20) == 0 ? kKubeletLagMax : kKubeletLag;
  const Nanos until = Now() - Nanos(Below(static_cast<std::uint64_t>(most.count())));
  std::size_t& seen = seen_[node];
  while (seen + 1 < shown.size() && (shown[seen + 1].since <= until || shown[seen].version < version_min)) ++seen;
  return shown[seen];
}

bool Counted::Admits(const std::string& node, const std::string& uid) {
  const auto found = pods_.find(uid);
  if (found == pods_.end()) return true;
  std::int64_t sum = found->second.units;
  std::uint64_t version_min = placed_[uid].version;
  for (const auto& [other, pod] : pods_) {
    if (pod.node != node || !pod.is_admitted || other == uid) continue;
    sum += pod.units;
    version_min = std::max(version_min, placed_[other].version);
  }
  const Shown shown = SeenByKubelet(node, version_min);
  if (shown.number && *shown.number < sum) {
    const std::string what = fmt::format(
        "OutOf{}: {} shows {}, and with {} its pods request {}", kCountedResource, node, *shown.number, uid, sum);
    if (!IsOvertaken(node, shown)) story_.Break("rejected", what);
    story_.Tell(what);
    return false;
  }
  found->second.is_admitted = true;
  return true;
}

void Counted::RestartKubelet(const std::string& node) {
  story_.Tell("the kubelet of " + node + " restarts");
  std::uint64_t version_min = 0;
  for (const auto& [uid, pod] : pods_) {
    if (pod.node == node && pod.is_admitted) version_min = std::max(version_min, placed_[uid].version);
  }
  const Shown shown = SeenByKubelet(node, version_min);
  std::int64_t sum = 0;
  // UIDs grow with the time of creation.
  for (const auto& [uid, pod] : pods_) {
    if (pod.node != node || !pod.is_admitted) continue;
    sum += pod.units;
    if (!shown.number || *shown.number >= sum || IsOvertaken(node, shown)) continue;
    story_.Break("rejected",
                 fmt::format("{} runs, and its kubelet, restarted, rejects it: {} shows {}", uid, node, *shown.number));
  }
}

std::map<std::string, Counted::Expected> Counted::ExpectedOfNodes() const {
  std::map<std::string, Expected> nodes;
  for (const json& node : store_.Objects(std::string(reconciler::kNodesPath))) {
    if (IsReadyNode(node)) nodes[node["metadata"]["name"]];
  }
  const std::int64_t now_ms = UnixMs();
  const auto pools = CountedPools(store_);
  const auto of_resource = ResourcePoolUids(store_);
  std::map<std::string, std::int64_t> recorded;  // by the pod's UID
  std::vector<json> requesting;
  for (json& pod : store_.Objects(std::string(reconciler::kPodsPath))) {
    const auto node = nodes.find(NodeOf(pod));
    const std::int64_t units = UnitsOf(pod);
    if (units == 0 || HasEnded(pod) || node == nodes.end()) continue;
    node->second.requested += units;
    requesting.push_back(std::move(pod));
  }
  for (const json& block : store_.Objects(std::string(crds::kBlocksPath))) {
    const std::string pool_uid = block["spec"].value("poolUID", "");
    const auto pool = pools.find(pool_uid);
    const auto node = nodes.find(block["spec"].value("node", ""));
    if (pool != pools.end() && node != nodes.end() && !IsGoing(block)) {
      node->second.usable += FreeIn(block, pool->second, now_ms);
    }
    if (!of_resource.contains(pool_uid)) continue;
    const ipam::Prefix cidr = CidrOf(block);
    for (const auto& [offset, text] : block["allocations"].items()) {
      const auto entry = ipam::ParseEntry(text.get_ref<const std::string&>());
      const auto* const held = std::get_if<ipam::HeldEntry>(&entry);
      if (held == nullptr) continue;
      const std::string address = cidr.At(static_cast<std::uint32_t>(std::stoul(offset))).ToString();
      const auto pod = std::ranges::find_if(requesting, [&](const json& one) { return IsOf(*held, one, address); });
      if (pod != requesting.end()) ++recorded[(*pod)["metadata"]["uid"]];
    }
  }
  for (const json& pod : requesting) {
    nodes[NodeOf(pod)].held += std::min(UnitsOf(pod), recorded[pod["metadata"]["uid"]]);
  }
  return nodes;
}

std::string Counted::Deviation() const {
  const auto expected = ExpectedOfNodes();
  for (const json& node : store_.Objects(std::string(reconciler::kNodesPath))) {
    const std::string name = node["metadata"]["name"];
    const auto found = expected.find(name);
    if (found == expected.end()) continue;
    const json capacity = node.value("/status/capacity"_json_pointer, json::object());
    const auto number = NumberOf(node);
    const bool are_equal = capacity.contains(kCountedResource) == number.has_value() &&
                           (!number || ToNumber(capacity[kCountedResource]) == *number);
    // A Node without address count is right if 0 is right. A Node that shows 0 is wrong if it should show no count.
    const Expected& right = found->second;
    if (are_equal && number.value_or(0) == right.number().value_or(0) && (!number || right.number())) continue;
    return fmt::format("{} shows {}{}, and should show {}: usable {}, held {}, requested {}",
                       name,
                       number ? std::to_string(*number) : "no number",
                       are_equal ? "" : ", capacity something else",
                       right.number() ? std::to_string(*right.number()) : "none",
                       right.usable,
                       right.held,
                       right.requested);
  }
  return {};
}

std::string Counted::PendingThatFits() const {
  const auto nodes = ExpectedOfNodes();
  const auto pools = CountedPools(store_);
  const std::int64_t now_ms = UnixMs();
  const auto blocks = store_.Objects(std::string(crds::kBlocksPath));
  // The number of assignable addresses of the largest unclaimed block.
  std::int64_t to_get = 0;
  for (const auto& [uid, pool] : pools) {
    const ipam::PoolBlocks cidrs(pool);
    const auto is_in_space = [&](const json& block) { return SpaceOf(block) == pool.space; };
    for (ipam::Uint128 i = 0; i < cidrs.Count(); ++i) {
      const ipam::Prefix cidr = cidrs.At(i);
      const bool is_taken = std::ranges::any_of(
          blocks, [&](const json& block) { return is_in_space(block) && CidrOf(block).Overlaps(cidr); });
      if (!is_taken) to_get = std::max(to_get, static_cast<std::int64_t>(ipam::AssignableIn(pool, cidr).Count()));
    }
  }
  std::map<std::string, std::int64_t> spare;  // free addresses of the largest block that a node can do without
  for (const json& block : blocks) {
    const auto pool = pools.find(block["spec"].value("poolUID", ""));
    const auto node = nodes.find(block["spec"].value("node", ""));
    if (pool == pools.end() || node == nodes.end() || IsGoing(block) || !HasNoEntries(block, now_ms)) continue;
    const std::int64_t free = FreeIn(block, pool->second, now_ms);
    if (node->second.usable + node->second.held - free < node->second.requested) continue;
    spare[node->first] = std::max(spare[node->first], free);
  }
  for (const json& pod : store_.Objects(std::string(reconciler::kPodsPath))) {
    const std::int64_t units = UnitsOf(pod);
    if (units == 0 || !NodeOf(pod).empty() || HasEnded(pod) || IsGoing(pod)) continue;
    const std::string wanted = pod.value("/spec/nodeSelector/kubernetes.io~1hostname"_json_pointer, std::string());
    for (const auto& [name, node] : nodes) {
      if (!wanted.empty() && wanted != name) continue;
      std::int64_t best = to_get;
      for (const auto& [owner, free] : spare) best = owner == name ? best : std::max(best, free);
      const std::int64_t left = node.usable + node.held - node.requested;
      if (left < units && best + std::min<std::int64_t>(left, 0) < units) continue;
      return fmt::format("{} requests {} and is Pending: {} has {} left, and could get a block with {}",
                         pod["metadata"]["name"].get<std::string>(),
                         units,
                         name,
                         left,
                         best);
    }
  }
  return {};
}

}  // namespace berth::sim
