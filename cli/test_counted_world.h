// SPDX-License-Identifier: Apache-2.0
// For tests only: a small cluster on an API server in memory, read like berthctl reads it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/counted_world.h"
#include "crds/block.h"
#include "crds/names.h"
#include "ipam/test_values.h"
#include "k8sclient/testing/model_api.h"
#include "reconciler/read_objects.h"

namespace berth::cli {

using nlohmann::json;

inline constexpr const char* kWeb = "10.55.0.0/24";

// All pods are in the namespace team-a with the label team=a. A block has eight addresses.
class TestCluster {
 public:
  TestCluster() { api_.Put("/api/v1/namespaces", {{"metadata", {{"name", "team-a"}, {"labels", {{"team", "a"}}}}}}); }

  // `shown`: the Node's address count for ipv4; nothing: none.
  TestCluster& Node(const std::string& name, std::optional<int> shown, json labels = json::object(),
                    json spec = json::object(), bool is_ready = true, int pods_max = 110) {
    json status = {{"conditions", {{{"type", "Ready"}, {"status", is_ready ? "True" : "Unknown"}}}},
                   {"allocatable", {{"pods", std::to_string(pods_max)}}}};
    if (shown) {
      status["capacity"]["ipam.berth.dev/ipv4"] = std::to_string(*shown);
      status["allocatable"]["ipam.berth.dev/ipv4"] = std::to_string(*shown);
    }
    api_.Put("/api/v1/nodes",
             {{"metadata", {{"name", name}, {"uid", "uid-of-" + name}, {"labels", std::move(labels)}}},
              {"spec", std::move(spec)},
              {"status", status}});
    return *this;
  }
  // `changes`: changes of the pool's spec.
  TestCluster& Pool(const std::string& name, const std::string& subnet, const json& changes = json::object(),
                    bool is_ready = true) {
    json object = {{"metadata", {{"name", name}, {"uid", "uid-of-" + name}, {"generation", 1}}},
                   {"spec", {{"subnet", subnet}, {"blockSize", 29}, {"allowEdgeAddresses", true}}}};
    Update(object["spec"], changes);
    object["status"]["conditions"] = {{{"type", "Ready"},
                                       {"status", is_ready ? "True" : "False"},
                                       {"reason", is_ready ? "Accepted" : "Overlaps"},
                                       {"message", ""},
                                       {"lastTransitionTime", "2027-01-01T00:00:00Z"}}};
    accepted_.push_back(
        {{"pool", name}, {"uid", "uid-of-" + name}, {"subnet", subnet}, {"blockSize", object["spec"]["blockSize"]}});
    api_.Put(std::string(crds::kPoolsPath), object);
    if (const auto seen = reconciler::ReadPool(object).value(); seen.pool) pools_.insert_or_assign(name, *seen.pool);
    return *this;
  }
  // The space has not accepted the last pool.
  TestCluster& NotAccepted() {
    accepted_.erase(accepted_.size() - 1);
    return *this;
  }
  // `entries`: names of pods by offset.
  TestCluster& Block(const std::string& pool, const std::string& cidr, const std::string& node,
                     const std::map<ipam::BlockOffset, std::string>& entries = {}, bool is_deleting = false) {
    ipam::Block block = ipam::NewBlock(pools_.at(pool), ipam::PrefixOf(cidr), node);
    for (const auto& [offset, pod] : entries) {
      block.allocations[offset] = "team-a/" + pod + " uid-of-" + pod + " 0123456789ab-0123456789abcde" +
                                  std::to_string(offset) + " i=eth0 t=1" + (node.empty() ? " n=n1" : "");
    }
    json object = crds::BlockToJson(block);
    if (is_deleting) object["metadata"]["deletionTimestamp"] = "2027-01-01T00:00:00Z";
    api_.Put(std::string(crds::kBlocksPath), std::move(object));
    return *this;
  }
  // A pod that requests `units` of ipv4. Empty `node`: not scheduled yet. `spec`, `status`: additional fields.
  TestCluster& Pod(const std::string& name, int units, const std::string& node, const json& spec = json::object(),
                   const json& status = json::object()) {
    json object = {{"metadata", {{"name", name}, {"namespace", "team-a"}, {"uid", "uid-of-" + name}}},
                   {"spec", {{"containers", {{{"name", "c"}}}}}},
                   {"status", {{"phase", "Pending"}}}};
    if (!node.empty()) object["spec"]["nodeName"] = node;
    if (units > 0) {
      object["spec"]["containers"][0]["resources"]["requests"]["ipam.berth.dev/ipv4"] = std::to_string(units);
    }
    Update(object["spec"], spec);
    Update(object["status"], status);
    api_.Put("/api/v1/namespaces/team-a/pods", std::move(object));
    return *this;
  }
  // A status for Pod: the pod runs with this address.
  [[nodiscard]] static json Running(const std::string& address) {
    return {{"phase", "Running"}, {"podIPs", {{{"ip", address}}}}};
  }

  // `pod`: like for ReadCountedWorld.
  [[nodiscard]] CountedWorld Read(const std::string& pod = "") {
    api_.Put(std::string(crds::kSpacesPath),
             {{"metadata", {{"name", "default"}, {"uid", "uid-of-space"}}},
              {"status", {{"accepted", accepted_}, {"pools", accepted_.size()}}}});
    return ReadCountedWorld(api_, pod).value();
  }
  k8sclient::testing::ModelApi& api() { return api_; }

 private:
  // An argument `{}` is null, and changes nothing.
  static void Update(json& object, const json& changes) {
    if (!changes.is_null()) object.update(changes);
  }

  k8sclient::testing::ModelApi api_;
  json accepted_ = json::array();
  std::map<std::string, ipam::Pool> pools_;
};

}  // namespace berth::cli
