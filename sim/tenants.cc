// SPDX-License-Identifier: Apache-2.0
// The odd network configurations of tenants: valid JSON with huge or unknown names, addresses of other pods, values of
// wrong types, and deep trees.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>

#include <nlohmann/json.hpp>
#include <spdlog/fmt/fmt.h>

#include "sim/kubelet.h"
#include "sim/scheduler.h"

namespace berth::sim {

using nlohmann::json;

namespace {

constexpr std::size_t kHuge = std::size_t{200} << 10U;
constexpr int kDeep = 200;  // an agent reads 256 levels

// A random IPv4 address of the pools, which another pod often has.
std::string AnyAddress() {
  return Below(3) == 0 ? fmt::format("10.66.0.{}", Below(32)) : fmt::format("10.56.{}.{}", Below(2), Below(256));
}

json AnyScalar() {
  switch (Below(8)) {
    case 0:
      return nullptr;
    case 1:
      return true;
    case 2:
      return -1;
    case 3:
      return UINT64_MAX;
    case 4:
      return 1e300;
    case 5:
      return "";
    case 6:
      return json::array();
    default:
      return std::string(kHuge, 'x');
  }
}

json Names(std::size_t count) {
  json names = json::array();
  for (std::size_t i = 0; i < count; ++i) names.push_back(fmt::format("nobody-{}", Below(1'000'000)));
  return names;
}

json Deep() {
  json tree = "x";
  for (int i = 0; i < kDeep; ++i) tree = i % 2 == 0 ? json::array({tree}) : json{{"x", tree}};
  return tree;
}

// A merge patch that makes an ADD's network configuration odd.
json OddConfiguration() {
  constexpr std::size_t kPoolsMax = 64;
  switch (Below(14)) {
    case 0:
      return {{"ipam", {{"pools", Names(1)}}}};
    case 1:
      return {{"ipam", {{"pools", Names(kPoolsMax)}}}};
    case 2:
      return {{"ipam", {{"pools", Names(kPoolsMax + 1)}}}};
    case 3:
      return {{"ipam", {{"pools", {std::string(kHuge, 'p')}}}}};
    case 4:
      return {{"ipam", {{"pools", AnyScalar()}}}};
    case 5:
      return {{"ipam", {{"pools", {"big", "small", "big", "../big", "big?watch=1", ""}}}}};
    case 6:
      return {{"runtimeConfig", {{"ips", {AnyAddress() + "/23"}}}}};
    case 7:
      return {{"args", {{"cni", {{"ips", {AnyAddress(), AnyAddress()}}}}}}};
    case 8:
      return {{"runtimeConfig", {{"ips", AnyScalar()}}}, {"args", AnyScalar()}};
    case 9:
      return {{"ipam", {{"routes", AnyScalar()}, {"dns", AnyScalar()}}}};
    case 10:
      return {{"ipam", {{"timeoutSeconds", AnyScalar()}}}};
    case 11:
      return {{"prevResult", AnyScalar()}, {"dataDir", AnyScalar()}};
    case 12:
      return {{"x", Deep()}};
    default:
      return {{"ipam", {{"stateDir", "/"}, {"agentSocket", "/run/berth/../x"}, {"kubeconfig", "/etc/passwd"}}}};
  }
}

// Odd text that is added to CNI_ARGS; often empty.
std::string OddArguments() {
  switch (Below(6)) {
    case 0:
      return ";IP=" + AnyAddress();
    case 1:
      return ";IP=" + AnyAddress() + "," + AnyAddress() + "/999";
    case 2:
      return ";K8S_POD_ANNOTATION=" + std::string(kHuge, 'x');
    default:
      return {};
  }
}

}  // namespace

void Kubelet::RunTenant(const std::string& name) {
  const Pod pod = Start(name);
  Create(name, pod);
  for (const Interface& one : InterfacesOf(name)) {
    const json odd = {{"config", OddConfiguration()}, {"args", Arguments(name) + OddArguments()}};
    const Heard heard = Call("ADD", one, std::chrono::seconds(60), "", odd);
    if (heard.addresses.empty()) continue;
    told_.insert_or_assign(heard.attachment, Holder{.pod = pod, .interface = one, .result = heard.result});
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(Below(3'000)));
  Finish(name);
}

}  // namespace berth::sim
