// SPDX-License-Identifier: Apache-2.0
// Checker: checks one rule while a history runs. The simulator calls its functions when something happens.
//
// The rules are those of docs/simulation.md, and each has a file of its own. A checker uses only what an observer
// outside of berth can know: the calls, their answers, and the objects that the API server stores.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "ipam/entry.h"
#include "sim/scheduler.h"
#include "sim/story.h"

namespace berth::sim {

// Addresses of one attachment, at most one of each family. The checkers name an address as InSpace does.
using Addresses = std::set<std::string>;

// The address or subnet, with its space unless that is `default`: "10.56.0.1" or "10.56.0.1@green". Two spaces may have
// the same address.
[[nodiscard]] std::string InSpace(std::string_view address, std::string_view space);
[[nodiscard]] Addresses InSpace(const Addresses& addresses, std::string_view space);
// The space of a pool, block or reservation.
[[nodiscard]] std::string SpaceOf(const nlohmann::json& object);
// The addresses in the result of an ADD, without their space.
[[nodiscard]] Addresses AddressesIn(const std::string& result);
// The addresses as text, for a person.
[[nodiscard]] std::string ToText(const Addresses& addresses);
[[nodiscard]] bool IsIpv6(std::string_view address);

struct Subnet {
  std::string prefix;
  std::string space;
  friend auto operator<=>(const Subnet&, const Subnet&) = default;
};

// A CNI call and its answer, as the caller sees them.
struct Heard {
  std::string verb = {};
  ipam::Attachment attachment = {};
  Addresses addresses = {};  // result of an ADD that succeeded
  std::string result = {};   // result of an ADD that succeeded, as JSON
  std::size_t families = 0;  // address families of the network's pools; 0: not known
  Addresses requested = {};  // addresses that the ADD requests
  std::string node = {};     // node of the container
  std::string space = {};    // space of the network's pools
  std::string error = {};    // the CNI error object, if the call failed
  bool is_answered = false;
  Nanos took{0};
  Nanos allowed{0};  // ipam.timeoutSeconds plus the time that `berth` waits in addition
};

class Checker {
 public:
  Checker() = default;
  Checker(const Checker&) = delete;
  Checker& operator=(const Checker&) = delete;
  virtual ~Checker() = default;

  // Called before a DEL is sent, and when a sandbox has ended without a DEL.
  virtual void Leaving(const ipam::Attachment& /*attachment*/) {}
  // berth has the DEL, or the sandbox has ended: from now on other pods may get the addresses.
  virtual void MayBeFreed(const ipam::Attachment& /*attachment*/) {}
  virtual void Ended(const Heard& /*call*/) {}
  // The pod is gone or has ended, and its container lives on for longer than the controller waits. The controller may
  // free the addresses, and the agent keeps them from other pods.
  virtual void Hangs(const ipam::Attachment& /*attachment*/) {}
  // A person or a restored backup removed the entry of the address. Until the entry is stored again, only the agent of
  // the node knows about it.
  virtual void TakenOut(const ipam::Attachment& /*attachment*/, const std::string& /*address*/) {}
  // The API server stored a block. `before` is null if the block is new, `after` is null if the block is gone.
  virtual void Stored(const nlohmann::json& /*before*/, const nlohmann::json& /*after*/) {}
  // Called after Stored, with the user who stored the block (Network::Sender), if the block's Node exists and is in
  // service.
  virtual void StoredBy(const std::string& /*sender*/, const nlohmann::json& /*before*/,
                        const nlohmann::json& /*after*/) {}
  // Like Stored, for a pool.
  virtual void PoolStored(const nlohmann::json& /*before*/, const nlohmann::json& /*after*/) {}
  // From now on no new container may get one of these addresses.
  virtual void Withheld(const std::set<std::string>& /*addresses*/) {}
  // True: from now on a program may not know, or not be able to change, a block that it created. False: that is over.
  virtual void MayLoseBlocks(bool /*may*/) {}
  // By node: from now on no new container of the node may get an address of these subnets.
  using BarredSubnets = std::multimap<std::string, Subnet>;
  virtual void Barred(const BarredSubnets& /*subnets*/) {}
  // All calls have ended, and no write is pending.
  virtual void AtRest(const std::vector<nlohmann::json>& /*blocks*/) {}
};

// The addresses that a block's held entries record, by attachment.
using RecordedAddresses = std::multimap<ipam::Attachment, std::string>;
[[nodiscard]] RecordedAddresses RecordedIn(const nlohmann::json& block);

// The addresses that ADDs returned, by attachment. Several checkers use this class.
class Told {
 public:
  void Ended(const Heard& call) {
    if (call.verb == "ADD" && !call.addresses.empty()) addresses_[call.attachment] = call.addresses;
  }
  void Forget(const ipam::Attachment& attachment) { addresses_.erase(attachment); }
  [[nodiscard]] bool Has(const ipam::Attachment& attachment, const std::string& address) const {
    const auto found = addresses_.find(attachment);
    return found != addresses_.end() && found->second.contains(address);
  }
  // Like RecordedIn. If an entry was put back without its attachment, it counts as the entry of the attachment that has
  // the address.
  [[nodiscard]] RecordedAddresses Recorded(const nlohmann::json& block) const;
  [[nodiscard]] const std::map<ipam::Attachment, Addresses>& addresses() const { return addresses_; }

 private:
  std::map<ipam::Attachment, Addresses> addresses_;
};

// Rule `one-holder`: no ADD returns an address that another attachment has, and a repeated ADD returns the same
// addresses.
[[nodiscard]] std::unique_ptr<Checker> MakeOneHolder(Story& story);
// Rule `live-freed`: no entry of an ADD that succeeded leaves its block before the DEL.
[[nodiscard]] std::unique_ptr<Checker> MakeNothingLiveFreed(Story& story);
// Rules `lost` and `left`: at rest each returned address has an entry, no other address has one, and no attachment has
// two entries of one family.
[[nodiscard]] std::unique_ptr<Checker> MakeNothingLeft(Story& story);
// Rule `standby`: only programs of the node write an entry where the node's agent has an address on standby, or take
// the address off standby.
[[nodiscard]] std::unique_ptr<Checker> MakeStandbyKept(Story& story);
// Rule `withheld`: no container takes a reserved address, and no new container gets a withheld address.
[[nodiscard]] std::unique_ptr<Checker> MakeWithheldKept(Story& story);
// Rule `pool-gone`: no ADD returns an address of a block that was created after its pool was gone.
[[nodiscard]] std::unique_ptr<Checker> MakePoolThere(Story& story);
// Rule `given-back`: a controller deletes a block only while no container has an address of the block and none is on
// standby.
[[nodiscard]] std::unique_ptr<Checker> MakeGivenBack(Story& story);
// Rule `check`: CHECK does not fail for a container that has its addresses, and does not succeed after the DEL.
[[nodiscard]] std::unique_ptr<Checker> MakeCheckHolds(Story& story);
// Rule `clock`: a freed address cools for the pool's cooldown, by the right clock. error_of_servers: by how much the
// clocks of API servers are wrong at most.
[[nodiscard]] std::unique_ptr<Checker> MakeClocksKept(Story& story, Nanos error_of_servers);
// Rule `each-family`: an ADD returns one address of each family of its pools, or fails.
[[nodiscard]] std::unique_ptr<Checker> MakeEachFamily(Story& story);
// Rule `block-limit`: no node that can know all its blocks creates more blocks of a pool than the pool allows.
[[nodiscard]] std::unique_ptr<Checker> MakeBlockLimit(Story& story);
// Rule `requested`: an ADD that requests addresses returns these addresses, or fails.
[[nodiscard]] std::unique_ptr<Checker> MakeRequestedKept(Story& story);
// Rule `selected`: no ADD returns an address of a pool that does not admit the node or the namespace.
[[nodiscard]] std::unique_ptr<Checker> MakeSelected(Story& story);
// Rule `in-time`: the answer of each call comes within the call's time limit.
[[nodiscard]] std::unique_ptr<Checker> MakeInTime(Story& story);

// One checker of each kind.
[[nodiscard]] std::vector<std::unique_ptr<Checker>> MakeCheckers(Story& story, Nanos error_of_servers = Nanos(0));

}  // namespace berth::sim
