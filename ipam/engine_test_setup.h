// SPDX-License-Identifier: Apache-2.0
// The cluster of the engine's tests: one pool of each kind, and a node; and an ADD request.
#pragma once

#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "ipam/engine.h"
#include "ipam/model_block_store.h"

namespace berth::ipam {

inline std::string TestAttachment(int number) {
  const std::string digits = std::to_string(number);
  return "0123456789ab-" + std::string(16 - digits.size(), '0') + digits;
}

inline Pool TestPool(std::string name, std::string_view subnet, Affinity affinity = Affinity::kNode) {
  Pool pool;
  pool.uid = "uid-of-" + name;
  pool.name = std::move(name);
  pool.subnet = Prefix::Parse(subnet).value();
  pool.affinity = affinity;
  pool.ready = true;
  pool.allow_requests = true;
  return pool;
}

class EngineTest : public testing::Test {
 protected:
  EngineTest() {
    Put(TestPool("v4", "10.55.0.0/24"));
    Put(TestPool("v6", "2001:db8::/112"));
    Put(TestPool("shared", "10.66.0.0/28", Affinity::kShared));
    Put(TestPool("shared6", "2001:db8:6::/124", Affinity::kShared));
  }

  void Put(const Pool& pool) { cluster_.pools[pool.name] = pool; }

  static AddRequest Request(int number, std::vector<std::string> pools) {
    return {.attachment = TestAttachment(number),
            .interface = "eth0",
            .pod_namespace = "team-a",
            .pod = "web-" + std::to_string(number),
            .uid = "u",
            .pools = std::move(pools),
            .requested = {}};
  }

  // The address of every entry in the cluster. An address with two entries would appear twice.
  [[nodiscard]] std::multiset<std::string> AllHeld() const {
    std::multiset<std::string> held;
    for (const auto& [name, block] : cluster_.blocks) {
      for (const auto& [offset, entry] : block->allocations) held.insert(block->cidr.At(offset).ToString());
    }
    return held;
  }

  static std::vector<std::string> Texts(const Expected<AddResult>& result) {
    if (!result) return {"error: " + result.error().message};
    std::vector<std::string> texts;
    for (const AssignedAddress& assigned : result->addresses) texts.push_back(assigned.address.ToString());
    return texts;
  }

  ModelCluster cluster_;
  ModelRuntime runtime_{1};
  ModelBlockStore store_{cluster_, "n1"};
  Engine engine_{store_, runtime_};
};

}  // namespace berth::ipam
