// SPDX-License-Identifier: Apache-2.0
// Containers and their calls.
#include "sim/kubelet.h"

#include <thread>
#include <utility>

#include <nlohmann/json.hpp>
#include <spdlog/fmt/fmt.h>

#include "cni/attachment.h"
#include "node/node_directory.h"

namespace berth::sim {

using namespace std::chrono_literals;
using nlohmann::json;

namespace {

constexpr std::string_view kNetwork = "net";
constexpr std::string_view kInterface = "eth0";
constexpr int kTimeoutSeconds = 10;
constexpr Nanos kAllowed = std::chrono::seconds(kTimeoutSeconds) + 11s;
constexpr std::chrono::microseconds kPatience = 60s;

json Config(const std::vector<std::string>& pools) {
  return {{"cniVersion", "1.1.0"},
          {"name", kNetwork},
          {"ipam", {{"type", "berth"}, {"pools", pools}, {"timeoutSeconds", kTimeoutSeconds}}}};
}

ipam::Attachment AttachmentOf(const std::string& container) {
  return cni::MakeAttachment(kNetwork, container, kInterface);
}

std::string AddressIn(const std::string& result) {
  const auto address = json::parse(result)["ips"][0]["address"].get<std::string>();
  return address.substr(0, address.find('/'));
}

}  // namespace

std::string Kubelet::Arguments(const std::string& container) const {
  const auto found = valid_.find(container);
  if (options_.cluster == nullptr || found == valid_.end()) return {};
  return fmt::format(
      "IgnoreUnknown=1;K8S_POD_NAMESPACE={};K8S_POD_NAME={};K8S_POD_UID={};K8S_POD_INFRA_CONTAINER_ID={}",
      kNamespace,
      found->second.name,
      found->second.uid,
      container);
}

Heard Kubelet::Call(const std::string& verb, const std::string& container, std::chrono::microseconds patience) {
  ++calls_;
  json config = Config(options_.pools);
  if (verb == "GC") {
    json valid = json::array();
    for (const auto& [one, pod] : valid_) valid.push_back({{"containerID", one}, {"ifname", kInterface}});
    config["cni.dev/valid-attachments"] = valid;
  }
  const Nanos begin = Now();
  json body = {{"command", verb},
               {"containerID", container},
               {"ifname", verb == "GC" ? "" : kInterface},
               {"netns", verb == "ADD" ? "/var/run/netns/x" : ""},
               {"args", Arguments(container)},
               {"startedBootNanos", node::BootTimeNow()},
               {"config", config}};
  if (lie_) lie_(body);
  story_.Tell(fmt::format("{} {}", verb, container));
  const int boot = boots_;
  auto answer = node_.Call(body.dump(), patience);
  if (boot != boots_) answer.reset();  // nobody was left to hear it
  Heard heard{.verb = verb,
              .attachment = container.empty() ? "" : AttachmentOf(container),
              .address = {},
              .is_answered = answer.has_value(),
              .took = Now() - begin,
              .allowed = kAllowed};
  if (answer && answer->ok && verb == "ADD") heard.address = AddressIn(answer->body);
  story_.Tell(fmt::format("{} {} -> {}",
                          verb,
                          container,
                          !answer      ? "no answer"
                          : answer->ok ? heard.address
                                       : answer->body));
  for (const auto& checker : checkers_) checker->Ended(heard);
  if (verb != "ADD") heard.is_answered = answer && answer->ok;
  return heard;
}

std::string Kubelet::Add(const std::string& container) {
  const bool is_impatient = Below(10) == 0;
  return Call("ADD", container, is_impatient ? std::chrono::microseconds(Below(30'000)) : kPatience).address;
}

void Kubelet::Leave(const std::string& container) {
  for (const auto& checker : checkers_) checker->Leaving(AttachmentOf(container));
}

void Kubelet::Del(const std::string& container) {
  Leave(container);
  while (!Call("DEL", container, kPatience).is_answered)
    std::this_thread::sleep_for(std::chrono::milliseconds(Below(300)));
  // A runtime that was killed in the middle asks once more.
  if (Below(6) == 0) static_cast<void>(Call("DEL", container, kPatience));
  valid_.erase(container);
}

void Kubelet::End(const std::string& container) {
  const Pod pod = valid_[container];
  if (options_.cluster == nullptr) return Del(container);
  constexpr std::uint64_t kWays = 6;
  const std::uint64_t way = Below(kWays);
  if (way == 0) {
    // Deleted by force: the kubelet ends the container when it hears of it.
    options_.cluster->RemovePod(pod);
    options_.cluster->AwaitConnection(node_.name());
    std::this_thread::sleep_for(std::chrono::milliseconds(Below(std::chrono::milliseconds(kGrace).count())));
    return Del(container);
  }
  if (way == 1 && options_.loses_dels) {
    story_.Tell("no DEL of " + container);
    Leave(container);
    lost_.insert(AttachmentOf(container));
    valid_.erase(container);
  } else {
    Del(container);
  }
  options_.cluster->RemovePod(pod);
}

void Kubelet::Churn(const std::string& name, int containers) {
  for (int number = 0; number < containers; ++number) {
    const std::string container = fmt::format("{}-{}", name, number);
    valid_[container] = options_.cluster == nullptr ? Pod() : options_.cluster->StartPod(node_.name(), name);
    const int boot = boots_;
    const std::string address = Add(container);
    const bool lives = !address.empty() && boot == boots_;
    if (lives && options_.cluster != nullptr && Below(2) == 0) {
      options_.cluster->TellAddress(valid_[container], address);
    }
    if (lives && Below(5) == 0) static_cast<void>(Add(container));
    if (Below(3) == 0) std::this_thread::sleep_for(std::chrono::milliseconds(Below(200)));
    const bool stays = !address.empty() && boot == boots_ && Below(3) == 0;
    if (stays) {
      settled_.insert(container);
    } else {
      End(container);
    }
  }
}

void Kubelet::Reboot(const std::function<void()>& reboot) {
  ++boots_;
  for (const auto& [container, pod] : valid_) Leave(container);
  reboot();
  EndAll();
}

void Kubelet::EndAll() {
  for (const std::string& container : std::exchange(settled_, {})) End(container);
}

void Kubelet::CollectGarbage() { static_cast<void>(Call("GC", "", kPatience)); }

}  // namespace berth::sim
