// SPDX-License-Identifier: Apache-2.0
// Checker: a rule that every history keeps, told what happens while it happens.
//
// The rules are those of docs/simulation.md, a file each. A checker knows only what people outside of berth could know:
// what callers were told, what they asked for, and what the API server stores.
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

// Of one attachment: at most one of each family.
using Addresses = std::set<std::string>;

// In the result of an ADD.
[[nodiscard]] Addresses AddressesIn(const std::string& result);
// For a person.
[[nodiscard]] std::string ToText(const Addresses& addresses);
[[nodiscard]] bool IsIpv6(std::string_view address);

// A call as its caller sees it.
struct Heard {
  std::string verb = {};
  ipam::Attachment attachment = {};
  Addresses addresses = {};  // of an ADD that succeeded
  std::string result = {};   // likewise, all of it
  std::size_t families = 0;  // of the pools that its network names; 0: not known
  Addresses requested = {};  // by an ADD
  std::string node = {};     // on which it is called
  std::string error = {};    // CNI's error object, if that is the answer
  bool is_answered = false;
  Nanos took{0};
  Nanos allowed{0};  // ipam.timeoutSeconds and what the shim waits besides
};

class Checker {
 public:
  Checker() = default;
  Checker(const Checker&) = delete;
  Checker& operator=(const Checker&) = delete;
  virtual ~Checker() = default;

  // Before a DEL is sent, or when its sandbox has ended without one.
  virtual void Leaving(const ipam::Attachment& /*attachment*/) {}
  // berth has its DEL, or its sandbox has ended: from now on its address may be given to others.
  virtual void MayBeFreed(const ipam::Attachment& /*attachment*/) {}
  virtual void Ended(const Heard& /*call*/) {}
  // Its pod is gone or has ended, and its container goes on for longer than the controller waits: the controller may
  // free its address, and its agent keeps it.
  virtual void Hangs(const ipam::Attachment& /*attachment*/) {}
  // Somebody took its entry of that address out: until it is stored again nobody but its node's agent knows that it was
  // there.
  virtual void TakenOut(const ipam::Attachment& /*attachment*/, const std::string& /*address*/) {}
  // The API server stored a block; null: it was not there before, or is not any more.
  virtual void Stored(const nlohmann::json& /*before*/, const nlohmann::json& /*after*/) {}
  // The same, once more: who stored the block, by the credentials (Network::Sender), while the block's Node exists and
  // is in service.
  virtual void StoredBy(const std::string& /*sender*/, const nlohmann::json& /*before*/,
                        const nlohmann::json& /*after*/) {}
  // The same of a pool.
  virtual void PoolStored(const nlohmann::json& /*before*/, const nlohmann::json& /*after*/) {}
  // From now on nobody is to be told one of these addresses.
  virtual void Withheld(const std::set<std::string>& /*addresses*/) {}
  // From now on a program may not know of a block that it has created, or not be able to use it; or no longer.
  virtual void MayLoseBlocks(bool /*may*/) {}
  // From now on no ADD of the node is to be told an address of that subnet.
  using BarredSubnets = std::multimap<std::string, std::string>;
  virtual void Barred(const BarredSubnets& /*subnets*/) {}
  // All is over and written.
  virtual void AtRest(const std::vector<nlohmann::json>& /*blocks*/) {}
};

// By attachment, the addresses that a block's entries record.
using RecordedAddresses = std::multimap<ipam::Attachment, std::string>;
[[nodiscard]] RecordedAddresses RecordedIn(const nlohmann::json& block);

// Who has which addresses, as callers were told; for several checkers.
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
  // What a block's entries record. An entry that was put back counts as of who has it.
  [[nodiscard]] RecordedAddresses Recorded(const nlohmann::json& block) const;
  [[nodiscard]] const std::map<ipam::Attachment, Addresses>& addresses() const { return addresses_; }

 private:
  std::map<ipam::Attachment, Addresses> addresses_;
};

// One holder: nobody is told an address that another one has; a repeated ADD is told the same again.
[[nodiscard]] std::unique_ptr<Checker> MakeOneHolder(Story& story);
// Live: no entry of somebody who was told its address goes before their DEL.
[[nodiscard]] std::unique_ptr<Checker> MakeNothingLiveFreed(Story& story);
// At rest: what was answered is recorded; nothing else is, and nobody twice.
[[nodiscard]] std::unique_ptr<Checker> MakeNothingLeft(Story& story);
// Standby: nobody but a node's agents writes an entry where they have addresses on standby, or changes the list.
[[nodiscard]] std::unique_ptr<Checker> MakeStandbyKept(Story& story);
// Withheld: a reserved address goes to nobody; and nobody is told one that is withheld.
[[nodiscard]] std::unique_ptr<Checker> MakeWithheldKept(Story& story);
// Pool there: no ADD gives an address of a block that was created after its pool was gone.
[[nodiscard]] std::unique_ptr<Checker> MakePoolThere(Story& story);
// Given back: a controller deletes a block only while nobody has an address or standby in it.
[[nodiscard]] std::unique_ptr<Checker> MakeGivenBack(Story& story);
// CHECK: who has an address is never told that it does not have it; who has given it back is not told that it has.
[[nodiscard]] std::unique_ptr<Checker> MakeCheckHolds(Story& story);
// Clock: an address that was given back rests as long as its pool says, by the right clock, and except for the error of
// the API servers' clocks.
[[nodiscard]] std::unique_ptr<Checker> MakeClocksKept(Story& story, Nanos error_of_servers);
// Each family: an ADD gives one address of each family of its pools, or fails.
[[nodiscard]] std::unique_ptr<Checker> MakeEachFamily(Story& story);
// Block limit: no node creates more blocks of a pool than the pool allows, if it can know of all of them.
[[nodiscard]] std::unique_ptr<Checker> MakeBlockLimit(Story& story);
// Requested: who requests an address is told that address.
[[nodiscard]] std::unique_ptr<Checker> MakeRequestedKept(Story& story);
// Selected: nobody is told an address of a pool that does not admit the node or the namespace.
[[nodiscard]] std::unique_ptr<Checker> MakeSelected(Story& story);
// In time: every call is answered, or its caller gave up.
[[nodiscard]] std::unique_ptr<Checker> MakeInTime(Story& story);

// One of each. error_of_servers: by how much the clocks of API servers are wrong at most.
[[nodiscard]] std::vector<std::unique_ptr<Checker>> MakeCheckers(Story& story, Nanos error_of_servers = Nanos(0));

}  // namespace berth::sim
