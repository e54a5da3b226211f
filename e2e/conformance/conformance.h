// SPDX-License-Identifier: Apache-2.0
// Conformance: the fixture of the CNI contract's cases. It makes the base call and a test's pools, and checks "OK" and
// "E(c)".
//
// Every test has its own network name, space and pools, so tests can run in any order and side by side. The tests need
// no controller (test_cluster.h).
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

#include "cni/testing/plugin_process.h"
#include "e2e/conformance/settings.h"
#include "e2e/test_cluster.h"

namespace berth::conformance {

using cni_testing::PluginOutcome;
using cni_testing::PluginProcess;
using nlohmann::json;

// A call, which a test changes and then makes.
struct Call {
  std::map<std::string, std::string> environment;
  json config;
  std::optional<std::string> input;  // instead of config
  cni_testing::Stdin in = cni_testing::Stdin::kBytes;
  cni_testing::Stdout out = cni_testing::Stdout::kCaptured;
  std::size_t chunk_bytes = 65536;
  std::string binary;  // empty: the plugin under test

  // Each function returns a changed copy: Base("ADD").With("CNI_IFNAME", "eth1").
  [[nodiscard]] Call With(const std::string& variable, std::string value) const;
  [[nodiscard]] Call Without(const std::string& variable) const;
  // `patch` is a JSON merge patch of the configuration.
  [[nodiscard]] Call Config(const json& patch) const;
  [[nodiscard]] Call Input(std::string text) const;
  // A CHECK needs the result of the ADD.
  [[nodiscard]] Call PrevResult(const json& result) const;
};

class Conformance : public testing::Test {
 protected:
  Conformance();
  ~Conformance() override;

  // The contract's base call: container c1, interface eth0, version 1.1.0, `pools` (by default the test's first pool).
  [[nodiscard]] Call Base(const std::string& verb);
  [[nodiscard]] Call Base(const std::string& verb, const std::vector<std::string>& pools);

  // Makes a pool 10.1.2.0/29 with gateway .1 and five addresses, whose spec `patch` changes. Returns its name.
  std::string MakePool(const json& patch = json::object());
  // Makes a pool 2001:db8:1:2::/125.
  std::string MakePool6(const json& patch = json::object());
  // Makes the fixture remove, at the end, a pool that the test made by itself.
  void Adopt(const std::string& pool) { pools_.push_back(pool); }

  [[nodiscard]] cni_testing::PluginCall Prepare(const Call& call) const;
  [[nodiscard]] PluginOutcome Run(const Call& call) const;
  // Runs all calls at the same time. Returns the outcomes in the order of the calls.
  [[nodiscard]] std::vector<PluginOutcome> RunAll(const std::vector<Call>& calls) const;

  // Runs the call and expects exit code 0. Returns stdout as JSON; null: stdout is empty.
  json Ok(const Call& call);
  // Runs the call and expects exit code 0 and an empty stdout.
  void OkSilently(const Call& call) const;
  // Runs the call and expects the contract's E(c), with one of the codes, with `about` in message or details, and
  // without a newly allocated address. Returns the error object.
  json Error(const Call& call, const std::set<unsigned>& codes, std::string_view about = "");

  // Agent mode: waits until the agents that this test has called have written the calls that they have answered
  // (docs/adr/0006 and 0008). Gives up after 20 s, because agents cannot write while the API server is away.
  void AwaitWritten() const;
  // The addresses with entries in this test's pools, after AwaitWritten.
  [[nodiscard]] std::set<std::string> Allocated();
  // Expects that exactly these addresses are allocated. In agent mode, waits for that, because an agent may write an
  // answered call later.
  void ExpectAllocatedAtLast(const std::set<std::string>& addresses);
  [[nodiscard]] static bool InAgentMode() { return Settings::Get().mode == Mode::kAgent; }

  [[nodiscard]] static e2e::TestCluster& cluster();
  [[nodiscard]] const std::string& tag() const { return tag_; }
  [[nodiscard]] const std::vector<std::string>& pools() const { return pools_; }
  // The test's folder, which the fixture removes at the end.
  [[nodiscard]] std::string Scratch();

 private:
  std::string tag_;  // unique in the cluster
  std::vector<std::string> pools_;
  std::string scratch_;
  mutable std::mutex sockets_mutex_;
  mutable std::set<std::string> sockets_;  // of the agents that the test has called
};

// The attachments whose DEL, or whose ADD with an address on standby, the agent has answered and not written yet. Empty
// if no agent answers.
[[nodiscard]] std::set<std::string> UnwrittenOf(const std::string& agent_socket);

// Waits until `condition` is true. False: `limit` has passed.
[[nodiscard]] bool Eventually(const std::function<bool()>& condition,
                              std::chrono::milliseconds limit = std::chrono::minutes(1));

// Expects a CNI error and returns its object.
json ExpectError(const PluginOutcome& outcome, const std::set<unsigned>& codes, std::string_view about);

// The addresses of a result of any version, such as "10.1.2.2/29", in the result's order (ip4 before ip6).
[[nodiscard]] std::vector<std::string> Addresses(const json& result);
// The address without its prefix length.
[[nodiscard]] std::string Host(std::string_view cidr);

}  // namespace berth::conformance
