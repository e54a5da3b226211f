// SPDX-License-Identifier: Apache-2.0
// Pools and reservations, and people who edit them: pools that are switched off for a while, addresses that are
// excluded or reserved, a pool that is deleted, a pool that is replaced, and one that must not be accepted beside
// another.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "k8sclient/testing/model_api.h"
#include "sim/checkers.h"
#include "sim/story.h"

namespace berth::sim {

// The IPv6 pools, where there are any.
inline constexpr const char* kIpv6Pool = "six";
inline constexpr const char* kSharedIpv6Pool = "small-six";
// By these labels and their values selectors select.
inline constexpr const char* kNodeLabel = "zone";
inline constexpr const char* kNamespaceLabel = "team";
inline constexpr std::array kLabelValues{"a", "b"};

class Pools {
 public:
  // Both must outlive this.
  Pools(k8sclient::testing::ModelApi& store, Story& story) : store_(store), story_(story) {}

  struct Options {
    bool has_controllers = false;  // without a controller, pools are Ready from the start
    // The twin of `big` has its subnet once more, and comes a little before it or after it: cut in the same way, so
    // that the two share it, or in another, so that only one of them may ever be accepted.
    bool has_twin = false;
    bool has_dual_stack = false;  // makes the IPv6 pools, too
    bool is_counted = false;      // addresses may be so few that nodes compete for them, and some cool down for long
    bool has_limits = false;      // some pools have `maxBlocksPerNode`
    bool allows_requests = false;
    bool is_replaced = false;  // a person may replace a pool; `big` has few addresses
  };
  // Makes `big` and `small`.
  void Make(const Options& options);
  // What a node's network configuration names, by chance: `big` and its twin, if there is one.
  [[nodiscard]] std::vector<std::string> BigOnes() const;
  // The same for a network of Shared blocks.
  [[nodiscard]] std::vector<std::string> SmallOnes() const { return {small_.name}; }

  // One of these edits. Requires: there are controllers.
  void EditOne();
  // A person sets or removes a selector of a pool.
  void EditSelector();
  // Draws an address of each family, or of one, that one of these pools may have.
  [[nodiscard]] Addresses AnyRequest(const std::vector<std::string>& pools) const;
  // A subnet of a pool in which pods of a node and a namespace with these labels get no address.
  [[nodiscard]] std::set<std::string> BarredFor(const nlohmann::json& node_labels,
                                                const nlohmann::json& namespace_labels) const;

  // A person replaces a pool: asks for its deletion, waits until it is gone, and makes another pool over its subnet
  // with another block size, under the same name or another one.
  void Delete(const std::string& name);
  [[nodiscard]] bool IsThere(const std::string& name) const { return !SpecOf(name).is_null(); }
  // Returns the new pool's name. Requires: the pool `name` is gone.
  std::string MakeAgain(const std::string& name);
  // The API server stored one; null: it is gone. Rule `accepted`: of two that cut one subnet in two ways one may be
  // Ready.
  void Stored(const nlohmann::json& before, const nlohmann::json& after);
  // None is switched off any more, or soon.
  [[nodiscard]] bool AreOn() const { return off_ == 0; }
  // What nobody may be handed out: all of it once this was so for a while.
  [[nodiscard]] std::set<std::string> Withheld() const;
  // The longest that an address rests, edits included.
  [[nodiscard]] std::chrono::seconds cooldown() const;
  // A deleted pool is still there.
  [[nodiscard]] bool IsDraining() const;
  // A pool says that the controller does not believe that so many pods are gone.
  [[nodiscard]] bool IsBraked() const;

 private:
  struct Pool {
    std::string name;
    std::string subnet;
    int block_size;  // as a prefix length
    bool is_shared;
  };
  void Put(const Pool& pool);
  [[nodiscard]] nlohmann::json SpecOf(const std::string& pool) const;
  void Patch(const std::string& pool, const nlohmann::json& spec);
  void SwitchOff(const std::string& pool);
  void Exclude(const std::string& pool);
  void Reserve();
  void DeleteBig();
  void MakeIpv6(bool is_counted);
  // Of any pool but the twin.
  [[nodiscard]] std::string AnyAddress() const;
  [[nodiscard]] std::string AnyName() const;

  k8sclient::testing::ModelApi& store_;
  Story& story_;
  bool has_controllers_ = false;
  bool has_twin_ = false;
  bool has_limits_ = false;
  bool allows_requests_ = false;
  std::uint64_t cooldown_seconds_ = 0;
  bool is_deleted_ = false;  // one of the two
  int off_ = 0;
  int reservations_ = 0;
  std::map<std::string, int> ready_ = {};  // `big` and its twin, with their block sizes
  Pool big_;
  Pool small_;
  std::vector<Pool> ipv6_ = {};
  int made_ = 0;  // pools, for their UIDs and for names of new ones
};

}  // namespace berth::sim
