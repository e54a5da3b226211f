// SPDX-License-Identifier: Apache-2.0
// The calls that the container runtime sends to the CNI plugin, and their answers.
#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include <nlohmann/json.hpp>
#include <spdlog/fmt/fmt.h>
#include <spdlog/fmt/ranges.h>

#include "base/error.h"
#include "node/node_directory.h"
#include "sim/kubelet.h"
#include "sim/network.h"

namespace berth::sim {

using namespace std::chrono_literals;
using nlohmann::json;

namespace {

constexpr int kTimeoutSeconds = 10;
constexpr Nanos kAllowed = std::chrono::seconds(kTimeoutSeconds) + 11s;
constexpr Nanos kAllowedMax = std::chrono::seconds(600) + 11s;  // the largest ipam.timeoutSeconds is 600

// Adds requested addresses to a call, in one of the ways that docs/cni.md names.
void PutRequest(const Addresses& addresses, json& config, std::string& arguments) {
  switch (Below(3)) {
    case 0:
      config["runtimeConfig"] = {{"ips", addresses}};
      return;
    case 1:
      config["args"] = {{"cni", {{"ips", addresses}}}};
      return;
    default:
      arguments += fmt::format("{}IP={}", arguments.empty() ? "" : ";", fmt::join(addresses, ","));
  }
}

}  // namespace

std::string Kubelet::Arguments(const std::string& container) const {
  const auto found = valid_.find(container);
  if (options_.cluster == nullptr || found == valid_.end()) return {};
  const Pod& pod = found->second.pod;
  const std::string odd = options_.tells_odd_uids && !pod.is_static ? "0dd-" : "";
  return fmt::format(
      "IgnoreUnknown=1;K8S_POD_NAMESPACE={};K8S_POD_NAME={};K8S_POD_UID={}{};K8S_POD_INFRA_CONTAINER_ID={}",
      kNamespace,
      pod.name,
      odd,
      pod.uid,
      container);
}

json Kubelet::ValidIn(const PodNetwork& network) const {
  // With Multus, a GC names the attachments of all networks.
  const bool names_all = options_.networks.size() > 1 && Below(2) == 0;
  json valid = json::array();
  for (const auto& [container, sandbox] : valid_) {
    for (const Interface& one : InterfacesOf(container)) {
      if (one.network != &network && !names_all) continue;
      // If a container has an address, its ADD is a repetition, and the runtime knows the container.
      const ipam::Attachment attachment = AttachmentOf(one);
      if (adding_.contains(attachment) && !told_.contains(attachment) && Below(2) == 0) continue;
      valid.push_back({{"containerID", container}, {"ifname", one.network->interface}});
    }
  }
  return valid;
}

Heard Kubelet::Call(const std::string& verb, const Interface& interface, std::chrono::microseconds patience,
                    const std::string& previous_result, const json& odd) {
  ++calls_;
  const auto& [container, network] = interface;
  json config = {{"cniVersion", "1.1.0"},
                 {"name", network->name},
                 {"ipam", {{"type", "berth"}, {"pools", network->pools}, {"timeoutSeconds", kTimeoutSeconds}}}};
  if (verb == "GC") config["cni.dev/valid-attachments"] = ValidIn(*network);
  if (!previous_result.empty()) config["prevResult"] = json::parse(previous_result);
  std::string arguments = Arguments(container);
  const Addresses requested = verb == "ADD" ? RequestedBy(interface) : Addresses();
  if (!requested.empty()) PutRequest(requested, config, arguments);
  const Nanos begin = Now();
  json body = {{"command", verb},
               {"containerID", container},
               {"ifname", verb == "GC" ? "" : network->interface},
               {"netns", verb == "ADD" || verb == "CHECK" ? "/var/run/netns/" + container : ""},
               {"args", arguments},
               {"startedBootNanos", node::BootTimeNow()},
               {"config", config}};
  if (!odd.is_null()) body.merge_patch(odd);
  if (lie_) lie_(body);
  const std::string what = fmt::format("{} {} {}", verb, container, network->interface);
  story_.Tell(what);
  const int boot = boots_;
  CallMoments moments;
  if (verb == "DEL") moments.arrives = [this, attachment = AttachmentOf(interface)] { MayBeFreed(attachment); };
  // An ADD runs until berth has finished it, even if its caller has given up.
  const auto adding = std::make_shared<bool>(verb == "ADD");
  if (*adding) adding_.insert(AttachmentOf(interface));
  moments.is_answered = [this, adding, attachment = AttachmentOf(interface)] {
    if (std::exchange(*adding, false)) adding_.erase(adding_.find(attachment));
  };
  auto answer = node_.Call(body.dump(), patience, moments);
  moments.is_answered();
  if (boot != boots_) answer.reset();  // the machine went down, and the caller with it
  Heard heard{.verb = verb,
              .attachment = container.empty() ? "" : AttachmentOf(interface),
              .addresses = {},
              .result = {},
              // A tenant's configuration may name other pools and time limits.
              .families = odd.is_null() ? network->families : 0,
              .requested = odd.is_null() ? InSpace(requested, network->space) : Addresses(),
              .node = node_.name(),
              .space = network->space,
              .error = {},
              .is_answered = answer.has_value(),
              .took = Now() - begin,
              .allowed = odd.is_null() ? kAllowed : kAllowedMax};
  if (answer && !answer->ok) heard.error = answer->body;
  if (answer && answer->is_durable) durable_.insert(heard.attachment);
  if (answer && answer->ok && verb == "ADD") {
    heard.result = answer->body;
    heard.addresses = InSpace(AddressesIn(answer->body), network->space);
  }
  story_.Tell(fmt::format("{} -> {}",
                          what,
                          !answer      ? "no answer"
                          : answer->ok ? ToText(heard.addresses)
                                       : answer->body));
  // If a power cut destroyed the DEL, the CHECK may succeed.
  const bool may_be_back = lost_.contains(heard.attachment) || lost_static_.contains(heard.attachment);
  if (verb == "CHECK" && may_be_back) return heard;
  for (const auto& checker : checkers_) checker->Ended(heard);
  CheckRoom(heard);
  return heard;
}

Addresses Kubelet::RequestedBy(const Interface& interface) const {
  const auto found = valid_.find(interface.container);
  const bool may_request = found != valid_.end() && interface.network == options_.networks.data();
  return may_request ? found->second.requested : Addresses();
}

void Kubelet::CheckRoom(const Heard& heard) {
  if (heard.verb != "ADD" || heard.error.empty()) return;
  if (json::parse(heard.error)["code"] != CniCode(ErrorCode::kExhausted)) {
    // Count only ADDs whose write of an existing block was refused, and no ADD whose claim (POST) was refused.
    if (heard.error.contains(kRefusal) && !heard.error.contains("create ipblock")) ++refused_;
    return;
  }
  ++exhausted_;
  if (!is_burst_ || !has_own_blocks()) return;
  story_.Break("room", "the scheduler placed a pod, and there is no address for it: " + heard.error);
}

}  // namespace berth::sim
