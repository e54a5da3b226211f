// SPDX-License-Identifier: Apache-2.0
// For tests only: worlds made from a few words, and decisions as lines of text, so that a test reads as a table.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/timestamp.h"
#include "crds/names.h"
#include "ipam/test_values.h"
#include "reconciler/decide.h"
#include "reconciler/read_objects.h"

namespace berth::reconciler {

using nlohmann::json;

inline constexpr std::int64_t kTestNowMs = 1'800'000'000'000;
inline constexpr char kHeldEntry[] = "default/web-1 6f1d 0123456789ab-0123456789abcdef i=eth0 t=1799999999000";

struct PoolTraits {
  bool has_finalizer = true;
  bool is_deleting = false;
  bool is_ready = false;
  std::string created = "2027-01-01T00:00:00Z";
  std::vector<std::string> withheld = {};
};

struct BlockTraits {
  std::string pool_uid = {};  // empty: the UID of the pool of that name
  bool is_deleting = false;
  bool has_finalizer = true;
  std::string space = "default";
  ipam::OffsetSet standby = {};
  std::string node = "n1";
  bool is_own_write = false;
};

// A world that the test changes, with the decider and its state.
class TestWorld {
 public:
  World world;
  ControllerState state;
  std::uint64_t leases_version = 0;
  Now now{.unix_ms = kTestNowMs, .steady = {}};
  Decider decider;

  TestWorld& Pool(const std::string& name, json spec, const PoolTraits& traits = {}) {
    json metadata = Metadata(name, "uid-of-" + name);
    metadata["creationTimestamp"] = traits.created;
    if (traits.has_finalizer) metadata["finalizers"] = {crds::kPoolFinalizer};
    if (traits.is_deleting) metadata["deletionTimestamp"] = "2027-01-02T00:00:00Z";
    json object = {{"metadata", metadata}, {"spec", std::move(spec)}};
    if (traits.is_ready) {
      object["status"]["conditions"] = {{{"type", "Ready"},
                                         {"status", "True"},
                                         {"reason", "Accepted"},
                                         {"message", ""},
                                         {"lastTransitionTime", traits.created}}};
    }
    if (!traits.withheld.empty()) object["status"]["withheld"] = traits.withheld;
    world.pools.insert_or_assign(name, ReadPool(object).value());
    return *this;
  }

  // A space that has accepted these pools of the world.
  TestWorld& Space(const std::string& name, std::initializer_list<std::string> accepted,
                   std::vector<std::string> withheld = {}) {
    json list = json::array();
    for (const std::string& pool : accepted) list.push_back(AcceptedEntry(pool));
    return SpaceWith(name, list, std::move(withheld), {std::string(crds::kPoolFinalizer)});
  }

  TestWorld& SpaceWith(const std::string& name, const json& accepted, std::vector<std::string> withheld,
                       const std::vector<std::string>& finalizers, bool is_deleting = false) {
    json metadata = Metadata(name, "uid-of-space-" + name);
    metadata["finalizers"] = finalizers;
    if (is_deleting) metadata["deletionTimestamp"] = "2027-01-02T00:00:00Z";
    const json status = {{"accepted", accepted}, {"pools", accepted.size()}, {"withheld", std::move(withheld)}};
    world.spaces.insert_or_assign(name, ReadSpace({{"metadata", metadata}, {"status", status}}).value());
    return *this;
  }

  // `entries`: texts by offset.
  TestWorld& Block(const std::string& cidr, const std::string& pool, std::map<ipam::BlockOffset, std::string> entries,
                   const BlockTraits& traits = {}) {
    ipam::Block block;
    block.cidr = ipam::PrefixOf(cidr);
    block.space = traits.space;
    block.name = ipam::BlockName(block.space, block.cidr);
    block.uid = "uid-of-" + block.name;
    block.resource_version = NextVersion();
    block.pool = pool;
    block.pool_uid = traits.pool_uid.empty() ? "uid-of-" + pool : traits.pool_uid;
    block.node = traits.node;
    block.deleting = traits.is_deleting;
    if (traits.has_finalizer) block.finalizers = {std::string(ipam::kBlockFinalizer)};
    block.allocations = std::move(entries);
    block.standby = traits.standby;
    SeenBlock seen = SeenAs(std::move(block));
    seen.is_own_write = traits.is_own_write;
    world.PutBlock(std::move(seen));
    return *this;
  }

  TestWorld& UnreadableBlock(const std::string& name, const std::string& pool_uid, bool is_deleting = false) {
    json metadata = Metadata(name, "uid-of-" + name);
    metadata["finalizers"] = {ipam::kBlockFinalizer};
    if (is_deleting) metadata["deletionTimestamp"] = "2027-01-02T00:00:00Z";
    json object = {{"metadata", metadata}, {"spec", json::object()}};
    if (!pool_uid.empty()) object["spec"]["poolUID"] = pool_uid;
    world.PutBlock(ReadBlock(object).value());
    return *this;
  }

  TestWorld& Reservation(const std::string& name, const std::vector<std::string>& addresses,
                         std::int64_t expires_ms = 0, const std::string& space = "default") {
    json spec = {{"space", space}, {"addresses", addresses}};
    if (expires_ms != 0) spec["expires"] = FormatTimestamp(expires_ms);
    const json object = {{"metadata", Metadata(name, "uid-of-" + name)}, {"spec", spec}};
    world.reservations.insert_or_assign(name, ReadReservation(object).value());
    return *this;
  }

  // Decides as if the controller had just asked for the version of Leases.
  [[nodiscard]] Decision Decide(bool relisted) {
    state.leases = ControllerState::LeasesAsked{.asked = now.steady, .version = leases_version};
    Decision decision = decider.Decide(world, state, now, relisted);
    // With an earlier time, the controller would decide again and again without a pause.
    EXPECT_GE(decision.wake_steady.value_or(now.steady), now.steady);
    EXPECT_GE(decision.wake_unix_ms.value_or(now.unix_ms), now.unix_ms);
    return decision;
  }
  [[nodiscard]] std::vector<std::string> Lines(bool relisted) { return Describe(Decide(relisted)); }

  // Each action as a line, and each request for a relist.
  [[nodiscard]] static std::vector<std::string> Describe(const Decision& decision);

 private:
  json Metadata(const std::string& name, const std::string& uid) {
    return {{"name", name}, {"uid", uid}, {"resourceVersion", NextVersion()}, {"generation", 1}};
  }
  std::string NextVersion() { return std::to_string(++version_); }

  [[nodiscard]] json AcceptedEntry(const std::string& name) const {
    const ipam::Pool& pool = *world.pools.at(name).pool;
    return {{"pool", name}, {"uid", pool.uid}, {"subnet", pool.subnet.ToString()}, {"blockSize", pool.BlockLength()}};
  }

  int version_ = 0;
};

// How an action reads in the expectation of a test.
struct ActionText {
  template <typename List>
  static std::string Join(const List& list) {
    std::string text;
    for (const auto& item : list) text += (text.empty() ? "" : ",") + std::string(item);
    return "[" + text + "]";
  }
  static std::string Ranges(const std::vector<ipam::AddressRange>& ranges) {
    std::vector<std::string> texts;
    for (const ipam::AddressRange& range : ranges) texts.push_back(range.ToString());
    return Join(texts);
  }

  std::string operator()(const CreateSpace& a) const { return "create space " + a.space; }
  std::string operator()(const DeleteSpace& a) const { return "delete space " + a.space; }
  std::string operator()(const SetFinalizers& a) const {
    return (a.collection == crds::kSpacesPath ? "space " : "pool ") + a.name + " finalizers=" + Join(a.finalizers);
  }
  std::string operator()(const SetSpaceStatus& a) const {
    std::vector<std::string> names;
    for (const crds::AcceptedPool& entry : a.after.accepted) names.push_back(entry.pool);
    return "space " + a.after.meta.name + " accepted=" + Join(names) + " withheld=" + Ranges(a.after.withheld);
  }
  std::string operator()(const SetPoolStatus& a) const {
    const crds::Condition* ready = crds::FindCondition(a.status.conditions, crds::kReadyCondition);
    return "pool " + a.pool + " ready=" + ready->status + "/" + ready->reason +
           " withheld=" + Ranges(a.status.withheld);
  }
  std::string operator()(const ChangeBlock& a) const {
    std::vector<std::string> entries;
    for (const auto& [offset, text] : a.after.allocations) {
      entries.push_back(std::to_string(offset) + ":" + (text == kHeldEntry ? "held" : text));
    }
    if (!a.gone_node.empty()) {
      const bool is_standby = a.before->allocations == a.after.allocations;
      return "block " + a.before->name + (is_standby ? " standby=[]" : " entries=" + Join(entries)) + " if " +
             a.gone_node + " is gone";
    }
    const bool keeps = a.before->finalizers == a.after.finalizers;
    return "block " + a.before->name +
           (keeps ? " entries=" + Join(entries) : " finalizers=" + Join(a.after.finalizers));
  }
  std::string operator()(const DeleteBlock& a) const { return "delete block " + a.block->name; }
  std::string operator()(const FreeEntries& a) const {
    std::vector<std::string> entries;
    for (const FreedEntry& one : a.entries) entries.push_back(std::to_string(one.offset));
    return "free " + a.before->name + " " + Join(entries);
  }
  std::string operator()(const ReportInUse& a) const {
    std::string line = "in use " + a.block->name;
    for (const FreedEntry& one : a.entries) line += " " + one.entry.pod + " of " + one.node;
    return line;
  }
  std::string operator()(const PutBack& a) const {
    std::string line = "put back " + a.before->name;
    for (const LostEntry& one : a.entries) {
      line += " " + one.address.ToString() + "=" + one.entry.pod_namespace + "/" + one.entry.pod + " " +
              one.entry.attachment + " of " + one.node + (one.entry.node.empty() ? "" : " n=" + one.entry.node);
    }
    return line;
  }
  std::string operator()(const CreateAllocation& a) const {
    std::vector<std::string> addresses;
    for (const crds::AllocatedAddress& one : a.allocation.addresses) addresses.push_back(one.address.ToString());
    return "make " + a.allocation.meta.name_space + "/" + a.allocation.meta.name + " " + Join(addresses);
  }
  std::string operator()(const DeleteAllocation& a) const {
    return "unmake " + a.allocation.name_space + "/" + a.allocation.name;
  }
  std::string operator()(const ReportContested& a) const {
    return "report " + std::to_string(a.addresses.size()) + " contested";
  }
  std::string operator()(const ReportOrphans& a) const {
    return "report " + std::to_string(a.entries.size()) + " orphans";
  }
  std::string operator()(const CreateBlock& a) const { return "create block " + a.block.name + " for " + a.block.node; }
  std::string operator()(const ShowNumbers& a) const {
    std::string line = "node " + a.node;
    for (const auto& [resource, number] : a.numbers) {
      line += " " + resource + "=" + (number ? std::to_string(*number) : "none");
    }
    return line;
  }
  std::string operator()(const ListPods& a) const { return "list pods of " + a.node; }
  std::string operator()(const AskLeases& /*a*/) const { return "ask leases"; }
};

inline std::vector<std::string> TestWorld::Describe(const Decision& decision) {
  std::vector<std::string> lines;
  for (const Action& action : decision.actions) lines.push_back(std::visit(ActionText(), action));
  for (const ObjectKey& key : decision.wants_relist) lines.push_back("relist for " + key);
  return lines;
}

}  // namespace berth::reconciler
