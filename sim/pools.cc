// SPDX-License-Identifier: Apache-2.0
// People edit pools by patches that name no version.
#include "sim/pools.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <string_view>
#include <thread>
#include <utility>

#include <nlohmann/json.hpp>
#include <spdlog/fmt/fmt.h>

#include "crds/names.h"
#include "ipam/prefix.h"
#include "sim/scheduler.h"

namespace berth::sim {

using namespace std::chrono_literals;
using nlohmann::json;

namespace {

constexpr const char* kSmallSubnet = "10.66.0.0/27";
constexpr int kBlockSize = 28;
constexpr std::size_t kExcludesMax = 6;
constexpr std::size_t kReservationsMax = 4;
// Edits set a cooldown of 0, 5 or 10 seconds.
constexpr std::uint64_t kCooldownSteps = 2;
constexpr std::uint64_t kCooldownStep = 5;

const std::string& Path() {
  static const std::string kPath(crds::kPoolsPath);
  return kPath;
}
const std::string& ReservationsPath() {
  static const std::string kPath(crds::kReservationsPath);
  return kPath;
}

bool HasCondition(const json& pool, std::string_view type, std::string_view status) {
  const json conditions = pool.value("/status/conditions"_json_pointer, json::array());
  return std::ranges::any_of(
      conditions, [&](const json& one) { return one.value("type", "") == type && one.value("status", "") == status; });
}

// A random address of the subnet, possibly the first or the last one.
ipam::Address AddressIn(const std::string& subnet) {
  const auto prefix = ipam::Prefix::Parse(subnet);
  const int bits = AddressBits(prefix->family()) - prefix->length();
  return prefix->At(static_cast<std::uint32_t>(Below(std::uint64_t{1} << bits)));
}

}  // namespace

void Pools::Put(const Pool& pool) {
  json object = {
      {"metadata", {{"name", pool.name}, {"uid", fmt::format("uid-of-{}-{}", pool.name, ++made_)}, {"generation", 1}}},
      {"spec",
       {{"subnet", pool.subnet},
        {"affinity", pool.is_shared ? "Shared" : "Node"},
        {"warmAddresses", Below(2) * 8},
        {"cooldownSeconds", cooldown_seconds_},
        {"blockSize", pool.block_size}}}};
  if (pool.space != ipam::kDefaultSpace) {
    object["spec"]["space"] = pool.space;
    // The scheduler places pods by their addresses of the space `default`.
    object["spec"]["resource"] = kSecondSpace;
  }
  if (has_limits_ && Below(3) != 0) object["spec"]["maxBlocksPerNode"] = 1 + Below(3);
  if (allows_requests_) object["spec"]["allowRequests"] = true;
  if (!has_controllers_) {
    object["status"]["conditions"] = {{{"type", "Ready"}, {"status", "True"}, {"reason", "Accepted"}}};
  }
  store_.Put(Path(), object);
}

void Pools::Make(const Options& options) {
  has_controllers_ = options.has_controllers;
  has_twin_ = options.has_twin;
  has_limits_ = options.has_limits;
  allows_requests_ = options.allows_requests;
  big_ = {.name = "big",
          .subnet = Below(2) == 0 ? "10.56.0.0/23" : "10.56.0.0/26",
          .block_size = kBlockSize,
          .is_shared = false};
  if (options.is_counted) {
    constexpr std::uint64_t kLongCooldown = 240;
    cooldown_seconds_ = Below(3) == 0 ? kLongCooldown : 0;
    if (Below(3) != 0) big_.subnet = "10.56.0.0/27";
  }
  if (options.is_replaced) big_.subnet = Below(2) == 0 ? "10.56.0.0/27" : "10.56.0.0/26";
  small_ = {.name = "small", .subnet = kSmallSubnet, .block_size = kBlockSize, .is_shared = true};
  Put(small_);
  if (options.has_dual_stack) MakeIpv6(options.is_counted);
  if (options.has_spaces) MakeGreen();
  const int twin_size = kBlockSize - static_cast<int>(Below(2));
  if (!has_twin_) return Put(big_);
  const auto put = [this, twin_size](bool is_twin) {
    Pool pool = big_;
    if (is_twin) pool.name = "twin", pool.block_size = twin_size;
    Put(pool);
  };
  const bool is_first = Below(2) == 0;
  put(is_first);
  Spawn(std::make_shared<Process>("person"), [put, is_first] {
    std::this_thread::sleep_for(std::chrono::milliseconds(Below(Below(2) == 0 ? 50 : 3'000)));
    put(!is_first);
  });
}

void Pools::MakeIpv6(bool is_counted) {
  // The smallest subnet has two blocks, so one of three nodes gets none. If the scheduler places pods by their IPv4
  // addresses, the pool must have an IPv6 address for each of them.
  constexpr std::array kSubnets{"fd00:56::/120", "fd00:56::/122", "fd00:56::/123"};
  constexpr int kIpv6BlockSize = 124;
  ipv6_.push_back({.name = kIpv6Pool,
                   .subnet = is_counted ? "fd00:56::/116" : kSubnets.at(Below(kSubnets.size())),
                   .block_size = kIpv6BlockSize,
                   .is_shared = false});
  ipv6_.push_back({.name = kSharedIpv6Pool,
                   .subnet = is_counted ? "fd00:66::/118" : "fd00:66::/123",
                   .block_size = kIpv6BlockSize,
                   .is_shared = true});
  for (const Pool& pool : ipv6_) Put(pool);
}

void Pools::MakeGreen() {
  // If the subnets are swapped, a block of a node and a Shared block of the other space have the same addresses.
  std::string subnet = big_.subnet;
  std::string shared_subnet = small_.subnet;
  if (Below(2) == 0) std::swap(subnet, shared_subnet);
  const int size = kBlockSize + static_cast<int>(Below(2));
  green_.push_back(
      {.name = kGreenPool, .subnet = subnet, .block_size = size, .is_shared = false, .space = kSecondSpace});
  green_.push_back({.name = kSharedGreenPool,
                    .subnet = shared_subnet,
                    .block_size = size,
                    .is_shared = true,
                    .space = kSecondSpace});
  if (!ipv6_.empty()) {
    Pool six = ipv6_.front();
    six.name = kGreenIpv6Pool;
    six.space = kSecondSpace;
    green_.push_back(six);
  }
  for (const Pool& pool : green_) Put(pool);
}

std::vector<std::string> Pools::BigOnes() const {
  if (!has_twin_) return {big_.name};
  return Below(2) == 0 ? std::vector<std::string>{"big", "twin"} : std::vector<std::string>{"twin", "big"};
}

json Pools::SpecOf(const std::string& pool) const {
  for (const json& object : store_.Objects(Path())) {
    if (object["metadata"]["name"] == pool) return object["spec"];
  }
  return nullptr;
}

void Pools::Patch(const std::string& pool, const json& spec) {
  const json patch = {{"spec", spec}};
  story_.Tell(fmt::format("edits pool {}: {}", pool, spec.dump()));
  static_cast<void>(
      store_.Call({.method = k8sclient::Method::kPatch, .path = Path() + "/" + pool, .body = patch.dump()}, {}));
}

void Pools::SwitchOff(const std::string& pool) {
  ++off_;
  Patch(pool, {{"disabled", true}});
  Spawn(std::make_shared<Process>("person"), [this, pool] {
    std::this_thread::sleep_for(std::chrono::milliseconds(Below(20'000)));
    Patch(pool, {{"disabled", false}});
    --off_;
  });
}

void Pools::Exclude(const std::string& pool) {
  json spec = SpecOf(pool);
  if (spec.is_null()) return;
  json excluded = spec.value("exclude", json::array());
  if (excluded.size() >= kExcludesMax || (!excluded.empty() && Below(4) == 0)) {
    excluded.erase(Below(excluded.size()));
  } else {
    excluded.push_back(AddressIn(spec["subnet"]).ToString());
  }
  Patch(pool, {{"exclude", excluded}});
}

void Pools::Reserve() {
  const auto there = store_.Objects(ReservationsPath());
  if (there.size() >= kReservationsMax || (!there.empty() && Below(4) == 0)) {
    const std::string name = there[Below(there.size())]["metadata"]["name"];
    story_.Tell("deletes reservation " + name);
    return store_.Remove(ReservationsPath(), name);
  }
  const std::string name = fmt::format("r{}", ++reservations_);
  const Pool& pool = AnyToReserve();
  const std::string address = AddressIn(pool.subnet).ToString();
  story_.Tell("reserves " + InSpace(address, pool.space) + " as " + name);
  store_.Put(ReservationsPath(),
             {{"apiVersion", "ipam.berth.dev/v1alpha1"},
              {"kind", "IPReservation"},
              {"metadata", {{"name", name}, {"uid", "uid-of-" + name}, {"generation", 1}}},
              {"spec", {{"space", pool.space}, {"addresses", {address}}}}});
}

void Pools::DeleteBig() {
  if (has_twin_ && !std::exchange(is_deleted_, true)) Delete(big_.name);
}

void Pools::Delete(const std::string& name) {
  story_.Tell("deletes pool " + name);
  static_cast<void>(store_.Call({.method = k8sclient::Method::kDelete, .path = Path() + "/" + name, .body = {}}, {}));
}

std::string Pools::MakeAgain(const std::string& name) {
  Pool& pool = Find(name);
  constexpr std::array kSizes{27, 29, 30};
  // The pool must have more than one block, because several nodes need a block.
  const int length = ipam::Prefix::Parse(pool.subnet)->length();
  const auto is_fit = [&](int size) { return size != pool.block_size && size > length; };
  int size = kSizes.back();
  while (!is_fit(size = kSizes.at(Below(kSizes.size())))) continue;
  pool.block_size = size;
  if (Below(2) == 0) {
    const char* const space = pool.space == ipam::kDefaultSpace ? "big" : kGreenPool;
    pool.name = fmt::format("{}{}", pool.is_shared ? "small" : space, made_);
  }
  story_.Tell(fmt::format("makes pool {} with blocks of /{} in place of {}", pool.name, size, name));
  Put(pool);
  return pool.name;
}

const Pools::Pool& Pools::AnyToReserve() const {
  if (!green_.empty() && Below(3) == 0) return green_[Below(green_.size())];
  if (!ipv6_.empty() && Below(3) == 0) return ipv6_[Below(ipv6_.size())];
  return Below(2) == 0 ? big_ : small_;
}

Pools::Pool& Pools::Find(const std::string& name) {
  const auto green = std::ranges::find(green_, name, &Pool::name);
  if (green != green_.end()) return *green;
  return name == big_.name ? big_ : small_;
}

std::string Pools::AnyName() const {
  if (!green_.empty() && Below(3) == 0) return green_[Below(green_.size())].name;
  const std::string ipv4 = Below(3) == 0 ? small_.name : big_.name;
  return !ipv6_.empty() && Below(3) == 0 ? ipv6_[Below(ipv6_.size())].name : ipv4;
}

Addresses Pools::AnyRequest(const std::vector<std::string>& pools) const {
  Addresses addresses;
  for (const std::string& name : pools) {
    const json spec = SpecOf(name);
    // The twin has the subnet of `big`, and a pod requests at most one address of each family.
    const bool is_chosen = !spec.is_null() && name != "twin" && Below(3) != 0;
    if (is_chosen) addresses.insert(AddressIn(spec["subnet"]).ToString());
  }
  return addresses;
}

void Pools::EditSelector() {
  const bool is_of_node = Below(2) == 0;
  const char* const key = is_of_node ? "nodeSelector" : "namespaceSelector";
  const char* const label = is_of_node ? kNodeLabel : kNamespaceLabel;
  if (Below(3) == 0) return Patch(AnyName(), {{key, nullptr}});
  // A merge patch keeps the selector's other labels.
  Patch(AnyName(), {{key, {{"matchLabels", {{label, kLabelValues.at(Below(kLabelValues.size()))}}}}}});
}

std::set<Subnet> Pools::BarredFor(const json& node_labels, const json& namespace_labels) const {
  const auto admits = [](const json& spec, const char* key, const json& labels) {
    const json wanted = spec.value(key, json::object()).value("matchLabels", json::object());
    for (const auto& [label, value] : wanted.items()) {
      if (labels.value(label, "") != value.get<std::string>()) return false;
    }
    return true;
  };
  std::set<Subnet> barred;
  std::set<Subnet> open;  // subnets of pools that admit the pods
  for (const json& pool : store_.Objects(Path())) {
    const json& spec = pool["spec"];
    const bool is_open =
        admits(spec, "nodeSelector", node_labels) && admits(spec, "namespaceSelector", namespace_labels);
    (is_open ? open : barred).insert({.prefix = spec["subnet"], .space = SpaceOf(pool)});
  }
  std::erase_if(barred, [&](const Subnet& subnet) { return open.contains(subnet); });
  return barred;
}

void Pools::EditOne() {
  const std::string pool = AnyName();
  switch (Below(12)) {
    case 0:
    case 1:
      return SwitchOff(pool);
    case 2:
      return Patch(pool, {{"cooldownSeconds", Below(kCooldownSteps + 1) * kCooldownStep}});
    case 3:
      return Patch(pool, {{"warmAddresses", Below(3) * 8}});
    case 4:
      return DeleteBig();
    case 5:
    case 6:
    case 7:
      return Exclude(pool);
    default:
      return Reserve();
  }
}

void Pools::Stored(const json& before, const json& after) {
  const json& pool = after.is_null() ? before : after;
  const std::string name = pool["metadata"]["name"];
  if (pool["spec"]["subnet"] != big_.subnet || SpaceOf(pool) != ipam::kDefaultSpace) return;
  ready_.erase(name);
  if (!after.is_null() && HasCondition(after, "Ready", "True")) ready_[name] = after["spec"]["blockSize"];
  const auto is_other = [this](const auto& one) { return one.second != ready_.begin()->second; };
  if (std::ranges::any_of(ready_, is_other)) story_.Break("accepted", "big and twin are Ready and cut otherwise");
}

std::chrono::seconds Pools::cooldown() const {
  return std::chrono::seconds(std::max<std::uint64_t>(cooldown_seconds_, kCooldownSteps * kCooldownStep));
}

std::set<std::string> Pools::Withheld() const {
  std::set<std::string> withheld;
  for (const json& reservation : store_.Objects(ReservationsPath())) {
    for (const json& address : reservation["spec"]["addresses"])
      withheld.insert(InSpace(address.get<std::string>(), SpaceOf(reservation)));
  }
  for (const json& pool : store_.Objects(Path())) {
    const std::string space = SpaceOf(pool);
    // A pool may give the addresses that its twin excludes.
    if (has_twin_ && space == ipam::kDefaultSpace) continue;
    for (const json& address : pool["spec"].value("exclude", json::array()))
      withheld.insert(InSpace(address.get<std::string>(), space));
  }
  return withheld;
}

bool Pools::IsDraining() const {
  const auto pools = store_.Objects(Path());
  return std::ranges::any_of(pools, [](const json& pool) { return pool["metadata"].contains("deletionTimestamp"); });
}

bool Pools::IsBraked() const {
  const auto pools = store_.Objects(Path());
  return std::ranges::any_of(pools, [](const json& pool) { return HasCondition(pool, "Reclaiming", "False"); });
}

}  // namespace berth::sim
