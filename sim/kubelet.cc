// SPDX-License-Identifier: Apache-2.0
// Containers and their calls.
#include "sim/kubelet.h"

#include <algorithm>
#include <iterator>
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
  const Pod& pod = found->second;
  const std::string odd = options_.tells_odd_uids && !pod.is_static ? "0dd-" : "";
  return fmt::format(
      "IgnoreUnknown=1;K8S_POD_NAMESPACE={};K8S_POD_NAME={};K8S_POD_UID={}{};K8S_POD_INFRA_CONTAINER_ID={}",
      kNamespace,
      pod.name,
      odd,
      pod.uid,
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
  const Heard heard = Call("ADD", container, is_impatient ? std::chrono::microseconds(Below(30'000)) : kPatience);
  if (!heard.address.empty()) told_.insert(container);
  return heard.address;
}

void Kubelet::Leave(const std::string& container) {
  told_.erase(container);
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
  // Where nobody knows an entry's pod, its address is free when no pod has it any more.
  const bool may_be_forced = options_.cluster != nullptr && !pod.is_static && !options_.tells_odd_uids;
  const bool is_forced = may_be_forced && Below(6) == 0;
  if (!is_forced) return Finish(container);
  // Deleted by force: the kubelet ends the container when it hears of it.
  options_.cluster->RemovePod(pod);
  options_.cluster->AwaitConnection(node_.name());
  std::this_thread::sleep_for(std::chrono::milliseconds(Below(std::chrono::milliseconds(kGrace).count())));
  Del(container);
}

void Kubelet::Finish(const std::string& container) {
  const Pod pod = valid_[container];
  // Of a static pod nothing but its DEL tells that it is gone.
  if (options_.loses_dels && options_.cluster != nullptr && !pod.is_static && Below(6) == 0) {
    story_.Tell("no DEL of " + container);
    Leave(container);
    lost_.insert(AttachmentOf(container));
    valid_.erase(container);
  } else {
    Del(container);
  }
  if (options_.cluster != nullptr) options_.cluster->RemovePod(pod);
}

Pod Kubelet::Start(const std::string& name) {
  Cluster* const cluster = options_.cluster;
  if (cluster == nullptr) return {};
  while (node_.is_off() || cluster->IsGone(node_.name())) {
    std::this_thread::sleep_for(std::chrono::seconds(Below(20)));
  }
  return options_.has_static_pods && Below(8) == 0 ? cluster->StartStaticPod(node_.name(), name)
                                                   : cluster->StartPod(node_.name(), name);
}

void Kubelet::Run(const std::string& container, const Pod& pod, bool tells_address) {
  valid_[container] = pod;
  const int boot = boots_;
  const int returns = returns_;
  const std::string address = Add(container);
  const auto lives = [&] { return !address.empty() && boot == boots_; };
  Cluster* const cluster = options_.cluster;
  if (lives() && cluster != nullptr && tells_address) cluster->TellAddress(pod, node_.name(), address);
  if (lives() && Below(5) == 0) static_cast<void>(Add(container));
  if (Below(3) == 0) std::this_thread::sleep_for(std::chrono::milliseconds(Below(200)));
  if (lives() && cluster != nullptr && options_.renews_sandboxes && Below(6) == 0) {
    return Renew(container);
  }
  const bool stays = lives() && Below(3) == 0;
  if (returns != returns_) {
    Finish(container);
  } else if (stays) {
    settled_.insert(container);
  } else {
    End(container);
  }
}

void Kubelet::Churn(const std::string& name, int containers) {
  for (int number = 0; number < containers; ++number) {
    // Some end before their kubelet comes to say it.
    Run(fmt::format("{}-{}", name, number), Start(name), options_.tells_odd_uids || Below(2) == 0);
  }
}

void Kubelet::RenewSandbox() {
  if (settled_.empty() || !options_.renews_sandboxes || options_.cluster == nullptr) return;
  const std::string container = *std::next(settled_.begin(), static_cast<std::ptrdiff_t>(Below(settled_.size())));
  settled_.erase(container);
  ++ending_;
  Spawn(std::make_shared<Process>(node_.name() + ".kubelet"), [this, container] {
    Renew(container);
    --ending_;
  });
}

void Kubelet::Renew(const std::string& container) {
  const Pod pod = valid_[container];
  const int returns = returns_;
  Del(container);
  options_.cluster->TellAddress(pod, node_.name(), "");
  constexpr int kAttemptsMax = 20;
  for (int attempt = 0; attempt < kAttemptsMax; ++attempt) {
    if (Below(2) == 0) std::this_thread::sleep_for(std::chrono::milliseconds(Below(2'000)));
    const std::string next = fmt::format("{}r{}", container, attempt);
    valid_[next] = pod;
    const int boot = boots_;
    const std::string address = Add(next);
    const bool is_wanted = returns == returns_ && !options_.cluster->IsGone(node_.name());
    if (address.empty() || boot != boots_ || !is_wanted) {
      Del(next);
      if (is_wanted) continue;
      break;
    }
    options_.cluster->TellAddress(pod, node_.name(), address);
    settled_.insert(next);
    return;
  }
  options_.cluster->RemovePod(pod);
}

void Kubelet::StartStatic(const std::string& name) {
  if (!options_.has_static_pods) return;
  Run(name, options_.cluster->StartStaticPod(node_.name(), name), /*tells_address=*/true);
}

std::map<ipam::Attachment, Pod> Kubelet::PodsOf(const std::set<std::string>& containers) const {
  std::map<ipam::Attachment, Pod> pods;
  for (const std::string& container : containers) pods.emplace(AttachmentOf(container), valid_.at(container));
  return pods;
}

std::map<ipam::Attachment, Pod> Kubelet::holders() const { return PodsOf(told_); }
std::map<ipam::Attachment, Pod> Kubelet::settled() const { return PodsOf(settled_); }

void Kubelet::Reboot(const std::function<void()>& reboot) {
  CountAsGone();
  reboot();
  Return();
}

void Kubelet::CountAsGone() {
  ++boots_;
  gone_ = valid_;
  for (const auto& [container, pod] : valid_) Leave(container);
}

void Kubelet::Return() {
  ++returns_;
  const auto gone = std::exchange(gone_, {});
  for (const std::string& container : std::set<std::string>(settled_)) {
    if (!valid_.at(container).is_static || gone.contains(container)) FinishLater(container);
  }
}

void Kubelet::EndUnknown() {
  ++returns_;
  for (const std::string& container : std::set<std::string>(settled_)) {
    if (!options_.cluster->Knows(valid_.at(container))) FinishLater(container);
  }
}

void Kubelet::FinishLater(const std::string& container) {
  settled_.erase(container);
  ++ending_;
  Spawn(std::make_shared<Process>(node_.name() + ".kubelet"), [this, container] {
    std::this_thread::sleep_for(std::chrono::milliseconds(Below(std::chrono::milliseconds(kGrace).count())));
    Finish(container);
    --ending_;
  });
}

bool Kubelet::MayHold(const ipam::Attachment& attachment) const {
  return std::ranges::any_of(valid_, [&](const auto& one) { return AttachmentOf(one.first) == attachment; });
}

void Kubelet::EndAll() {
  for (const std::string& container : std::exchange(settled_, {})) End(container);
}

void Kubelet::DelUnknown() { static_cast<void>(Call("DEL", "unknown", kPatience)); }

void Kubelet::CollectGarbage() { static_cast<void>(Call("GC", "", kPatience)); }

}  // namespace berth::sim
