// SPDX-License-Identifier: Apache-2.0
// Pools: the pools and reservations of a history, and the people who edit them. People disable pools for a while,
// exclude and reserve addresses, and delete and replace pools. Two pools may have one subnet, and possibly only one of
// them may be accepted. Pools of a second space may have the same addresses as those of the space `default`.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "ipam/pool.h"
#include "k8sclient/testing/model_api.h"
#include "sim/checkers.h"
#include "sim/story.h"

namespace berth::sim {

// Names of the IPv6 pools.
inline constexpr const char* kIpv6Pool = "six";
inline constexpr const char* kSharedIpv6Pool = "small-six";
// The second space, and its pools.
inline constexpr const char* kSecondSpace = "green";
inline constexpr const char* kGreenPool = "green";
inline constexpr const char* kSharedGreenPool = "small-green";
inline constexpr const char* kGreenIpv6Pool = "green-six";
// The labels, and their values, that selectors select.
inline constexpr const char* kNodeLabel = "zone";
inline constexpr const char* kNamespaceLabel = "team";
inline constexpr std::array kLabelValues{"a", "b"};

class Pools {
 public:
  // Both must outlive this.
  Pools(k8sclient::testing::ModelApi& store, Story& story) : store_(store), story_(story) {}

  struct Options {
    bool has_controllers = false;  // without a controller, pools are Ready from the start
    // Makes a pool `twin` with the subnet of `big`, a little before or after `big`. If both have the same block size,
    // they share the subnet. Otherwise only one of them may ever be accepted.
    bool has_twin = false;
    bool has_dual_stack = false;  // makes the IPv6 pools as well
    bool has_spaces = false;      // makes the pools of the second space as well
    bool is_counted = false;      // nodes may compete for few addresses, and the cooldown may be 240 s
    bool has_limits = false;      // some pools have `maxBlocksPerNode`
    bool allows_requests = false;
    bool is_replaced = false;  // a person may replace a pool; `big` has at most 64 addresses
  };
  // Makes `big` and `small`.
  void Make(const Options& options);
  // The pools that a network configuration names: `big`, and its twin, if there is one, in random order.
  [[nodiscard]] std::vector<std::string> BigOnes() const;
  // The pools of a network with Shared blocks.
  [[nodiscard]] std::vector<std::string> SmallOnes() const { return {small_.name}; }

  // A person makes a random edit. Requires: the history has controllers.
  void EditOne();
  // A person sets or removes a selector of a pool.
  void EditSelector();
  // Draws addresses for a pod to request: one address or none of each of these pools.
  [[nodiscard]] Addresses AnyRequest(const std::vector<std::string>& pools) const;
  // The subnets in which pods get no address if their node and their namespace have these labels.
  [[nodiscard]] std::set<Subnet> BarredFor(const nlohmann::json& node_labels,
                                           const nlohmann::json& namespace_labels) const;

  // A person replaces a pool in three steps: requests its deletion, waits until the pool is gone, and makes a pool with
  // the same subnet and another block size. The new pool has the same name or another one.
  void Delete(const std::string& name);
  [[nodiscard]] bool IsThere(const std::string& name) const { return !SpecOf(name).is_null(); }
  // Returns the new pool's name. Requires: the pool `name` is gone.
  std::string MakeAgain(const std::string& name);
  // The API server stored a pool; `after` is null if the pool is gone. Checks the rule `accepted`: two pools with the
  // same subnet and different block sizes are never Ready at the same time.
  void Stored(const nlohmann::json& before, const nlohmann::json& after);
  // No pool is disabled.
  [[nodiscard]] bool AreOn() const { return off_ == 0; }
  // The reserved and excluded addresses. A while after the last edit, no ADD may return one of them.
  [[nodiscard]] std::set<std::string> Withheld() const;
  // Longest time that an address cools, edits included.
  [[nodiscard]] std::chrono::seconds cooldown() const;
  // A pool whose deletion was requested is not gone yet.
  [[nodiscard]] bool IsDraining() const;
  // A pool says (condition Reclaiming) that the controller does not believe that so many pods are gone.
  [[nodiscard]] bool IsBraked() const;

 private:
  struct Pool {
    std::string name;
    std::string subnet;
    int block_size;  // prefix length of a block
    bool is_shared;
    std::string space = std::string(ipam::kDefaultSpace);
  };
  void Put(const Pool& pool);
  [[nodiscard]] nlohmann::json SpecOf(const std::string& pool) const;
  void Patch(const std::string& pool, const nlohmann::json& spec);
  void SwitchOff(const std::string& pool);
  void Exclude(const std::string& pool);
  void Reserve();
  void DeleteBig();
  void MakeIpv6(bool is_counted);
  void MakeGreen();
  // A random pool whose addresses people reserve: `big`, `small`, an IPv6 pool or a pool of the second space.
  [[nodiscard]] const Pool& AnyToReserve() const;
  // The pool that a person replaces.
  [[nodiscard]] Pool& Find(const std::string& name);
  [[nodiscard]] std::string AnyName() const;

  k8sclient::testing::ModelApi& store_;
  Story& story_;
  bool has_controllers_ = false;
  bool has_twin_ = false;
  bool has_limits_ = false;
  bool allows_requests_ = false;
  std::uint64_t cooldown_seconds_ = 0;
  bool is_deleted_ = false;  // a person has deleted `big` beside its twin
  int off_ = 0;
  int reservations_ = 0;
  std::map<std::string, int> ready_ = {};  // block sizes of `big` and its twin, if they are Ready
  Pool big_;
  Pool small_;
  std::vector<Pool> ipv6_ = {};   // pools of the space `default`
  std::vector<Pool> green_ = {};  // pools of the second space
  int made_ = 0;                  // number of pools that were made, for UIDs and names
};

}  // namespace berth::sim
