// SPDX-License-Identifier: Apache-2.0
// Conformance: the fixture of the CNI contract's cases: the base call, pools of one's own, and what "OK" and "E(c)"
// mean.
//
// Every test has its own network name, address space and pools, so tests can run in any order and side by side. No
// controller is needed (test_cluster.h).
#pragma once

#include <chrono>
#include <functional>
#include <initializer_list>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "e2e/conformance/settings.h"
#include "e2e/plugin_process.h"
#include "e2e/test_cluster.h"

namespace berth::conformance {

using e2e::PluginOutcome;
using e2e::PluginProcess;
using nlohmann::json;

// A call that a test changes before it is made.
struct Call {
  std::map<std::string, std::string> environment;
  json config;
  std::optional<std::string> input;  // instead of config
  e2e::Stdin in = e2e::Stdin::kBytes;
  e2e::Stdout out = e2e::Stdout::kCaptured;
  std::size_t chunk_bytes = 65536;
  std::string binary;  // empty: the plugin under test

  // For chains: Base("ADD").With("CNI_IFNAME", "eth1").
  [[nodiscard]] Call With(const std::string& variable, std::string value) const;
  [[nodiscard]] Call Without(const std::string& variable) const;
  // `patch` is a JSON merge patch of the configuration.
  [[nodiscard]] Call Config(const json& patch) const;
  [[nodiscard]] Call Input(std::string text) const;
  // CHECK wants the result of ADD.
  [[nodiscard]] Call PrevResult(const json& result) const;
};

class Conformance : public testing::Test {
 protected:
  Conformance();
  ~Conformance() override;

  // The contract's base call: container c1, interface eth0, version 1.1.0, over `pools` (by default this test's first).
  [[nodiscard]] Call Base(const std::string& verb);
  [[nodiscard]] Call Base(const std::string& verb, const std::vector<std::string>& pools);

  // 10.1.2.0/29 with gateway .1, five addresses, and whatever `patch` changes of the spec. Its name is returned.
  std::string MakePool(const json& patch = json::object());
  // 2001:db8:1:2::/125.
  std::string MakePool6(const json& patch = json::object());
  // Adds a pool that the test made by itself to those that are removed in the end.
  void Adopt(const std::string& pool) { pools_.push_back(pool); }

  [[nodiscard]] e2e::PluginCall Prepare(const Call& call) const;
  [[nodiscard]] PluginOutcome Run(const Call& call) const;
  // All at the same time; outcomes in the order of the calls.
  [[nodiscard]] std::vector<PluginOutcome> RunAll(const std::vector<Call>& calls) const;

  // Runs and expects exit 0; returns stdout as JSON, null where it is empty.
  json Ok(const Call& call);
  // Runs and expects exit 0 and nothing on stdout.
  void OkSilently(const Call& call) const;
  // Runs and expects the contract's E(c), with one of the codes, and `about` in message or details. Nothing may have
  // been allocated that was not before. Returns the error object.
  json Error(const Call& call, const std::set<unsigned>& codes, std::string_view about = "");

  // Agent mode: waits until the agents that this test called have written what they have answered by now
  // (docs/adr/0006 and 0008). While the API server is away they don't: it waits for twenty seconds then.
  void AwaitWritten() const;
  // The addresses with entries in this test's pools, after AwaitWritten.
  [[nodiscard]] std::set<std::string> Allocated();
  // That these are allocated, and no others: now in direct mode; in the end in agent mode, where what could not be
  // written at once is written later.
  void ExpectAllocatedAtLast(const std::set<std::string>& addresses);
  [[nodiscard]] static bool InAgentMode() { return Settings::Get().mode == Mode::kAgent; }

  [[nodiscard]] static e2e::TestCluster& cluster();
  [[nodiscard]] const std::string& tag() const { return tag_; }
  [[nodiscard]] const std::vector<std::string>& pools() const { return pools_; }
  // A folder of this test; removed in the end.
  [[nodiscard]] std::string Scratch();

 private:
  std::string tag_;  // unique in the cluster
  std::vector<std::string> pools_;
  std::string scratch_;
  mutable std::mutex sockets_mutex_;
  mutable std::set<std::string> sockets_;  // agents that were called
};

// What the agent has answered and not written yet, by attachment: DELs, and ADDs that got an address on standby; none
// where no agent answers.
[[nodiscard]] std::set<std::string> UnwrittenOf(const std::string& agent_socket);

// Whether it becomes true in that time.
[[nodiscard]] bool Eventually(const std::function<bool()>& condition,
                              std::chrono::milliseconds limit = std::chrono::seconds(10));

// Expects an error outcome and returns its object.
json ExpectError(const PluginOutcome& outcome, const std::set<unsigned>& codes, std::string_view about);

// "10.1.2.2/29", ... of a result of any version, in its order (ip4 before ip6).
[[nodiscard]] std::vector<std::string> Addresses(const json& result);
// Without the length.
[[nodiscard]] std::string Host(std::string_view cidr);

}  // namespace berth::conformance
