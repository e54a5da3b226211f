// SPDX-License-Identifier: Apache-2.0
// How containers start, stay and end.
#include "sim/kubelet.h"

#include <algorithm>
#include <iterator>
#include <thread>
#include <utility>

#include <nlohmann/json.hpp>
#include <spdlog/fmt/fmt.h>

#include "cni/attachment.h"

namespace berth::sim {

using namespace std::chrono_literals;
using nlohmann::json;

namespace {

constexpr std::chrono::microseconds kPatience = 60s;

// The pause before a DEL is repeated. A DEL that has failed 30 times may fail for an hour.
void PauseAfter(int tries) {
  constexpr int kManyTries = 30;
  std::this_thread::sleep_for(std::chrono::milliseconds(Below(tries < kManyTries ? 300 : 30'000)));
}

}  // namespace

ipam::Attachment Kubelet::AttachmentOf(const Interface& interface) {
  return cni::MakeAttachment(interface.network->name, interface.container, interface.network->interface);
}

std::vector<Kubelet::Interface> Kubelet::InterfacesOf(const std::string& container) const {
  const auto found = valid_.find(container);
  const std::size_t count = found == valid_.end() ? 1 : found->second.networks;
  std::vector<Interface> interfaces;
  for (std::size_t i = 0; i < count; ++i) interfaces.push_back({container, &options_.networks[i]});
  return interfaces;
}

void Kubelet::Create(const std::string& container, const Pod& pod) {
  node_.MakeNetns(container);
  const bool is_in_all = options_.networks.size() > 1 && !is_burst_ && Below(2) == 0;
  // All sandboxes of a pod request the same addresses.
  const auto [request, is_new] = requests_.try_emplace(pod.uid.empty() ? container : pod.uid);
  if (is_new && options_.any_request && !is_burst_ && Below(4) == 0) {
    request->second = options_.any_request(options_.networks.front());
  }
  valid_[container] = {.pod = pod, .networks = is_in_all ? options_.networks.size() : 1, .requested = request->second};
}

Addresses Kubelet::Add(const std::string& container) {
  const bool is_impatient = !is_burst_ && Below(10) == 0;
  auto interfaces = InterfacesOf(container);
  // Multus attaches the networks in order, containerd attaches them at once, in any order.
  if (interfaces.size() > 1 && Below(3) == 0) std::ranges::reverse(interfaces);
  const Pod pod = valid_.at(container).pod;
  const int boot = boots_;
  Addresses addresses;
  for (const Interface& one : interfaces) {
    if (boot != boots_) return {};
    const Heard heard = Call("ADD", one, is_impatient ? std::chrono::microseconds(Below(30'000)) : kPatience);
    if (heard.addresses.empty()) return {};
    told_.insert_or_assign(heard.attachment, Holder{.pod = pod, .interface = one, .result = heard.result});
    if (one.network == options_.networks.data()) addresses = AddressesIn(heard.result);
    // CRI-O sends a CHECK right after the ADD.
    if (options_.checks && Below(6) == 0) Check(one, heard.result);
  }
  return addresses;
}

Heard Kubelet::CallOnce(const std::string& verb, const std::string& container, const Pod& pod) {
  if (verb == "ADD") Create(container, pod);
  const Interface first = InterfacesOf(container).front();
  if (verb == "DEL") Leave(first);
  Heard heard = Call(verb, first, kPatience);
  if (!heard.addresses.empty()) {
    told_.insert_or_assign(heard.attachment, Holder{.pod = pod, .interface = first, .result = heard.result});
  }
  if (verb == "DEL" && heard.is_answered && heard.error.empty()) {
    valid_.erase(container);
    node_.RemoveNetns(container);
  }
  return heard;
}

void Kubelet::Check(const Interface& interface, const std::string& previous_result) {
  if (options_.checks) static_cast<void>(Call("CHECK", interface, kPatience, previous_result));
}

void Kubelet::CheckNowAndThen() {
  constexpr std::uint64_t kEveryMs = 10'000;
  while (checks_now_) {
    std::this_thread::sleep_for(std::chrono::milliseconds(Below(kEveryMs)));
    if (told_.empty() || !checks_now_) continue;
    const Holder one = std::next(told_.begin(), static_cast<std::ptrdiff_t>(Below(told_.size())))->second;
    Check(one.interface, one.result);
  }
}

void Kubelet::CheckAll() {
  for (const auto& [attachment, one] : std::map<ipam::Attachment, Holder>(told_)) Check(one.interface, one.result);
}

void Kubelet::Leave(const Interface& interface) {
  told_.erase(AttachmentOf(interface));
  for (const auto& checker : checkers_) checker->Leaving(AttachmentOf(interface));
}

void Kubelet::Leave(const std::string& container) {
  for (const Interface& one : InterfacesOf(container)) Leave(one);
}

void Kubelet::LetGo(const std::string& container) {
  Leave(container);
  for (const Interface& one : InterfacesOf(container)) MayBeFreed(AttachmentOf(one));
}

void Kubelet::MayBeFreed(const ipam::Attachment& attachment) {
  for (const auto& checker : checkers_) checker->MayBeFreed(attachment);
}

void Kubelet::Del(const std::string& container) {
  auto interfaces = InterfacesOf(container);
  if (Below(2) == 0) std::ranges::reverse(interfaces);
  std::map<ipam::Attachment, Holder> had;
  for (const Interface& one : interfaces) {
    if (auto held = told_.extract(AttachmentOf(one))) had.insert(std::move(held));
  }
  Leave(container);
  const auto is_done = [&](const Interface& one) {
    const Heard heard = Call("DEL", one, kPatience);
    return heard.is_answered && heard.error.empty();
  };
  // If a DEL fails, the other DELs are sent all the same, and then all DELs are repeated.
  const auto are_done = [&] {
    std::size_t done = 0;
    for (const Interface& one : interfaces) done += is_done(one) ? 1 : 0;
    return done == interfaces.size();
  };
  for (int tries = 1; !are_done(); ++tries) PauseAfter(tries);
  for (const Interface& one : interfaces) {
    ended_[AttachmentOf(one)] = {.when = Now(), .is_static = valid_[container].pod.is_static};
  }
  // A runtime that was killed after the DELs sends them once more.
  if (Below(6) == 0) static_cast<void>(are_done());
  if (options_.checks && Below(6) == 0) {
    for (const auto& [attachment, one] : had) Check(one.interface, one.result);
  }
  valid_.erase(container);
  node_.RemoveNetns(container);
}

void Kubelet::Detach(const std::string& container) {
  const Interface second = InterfacesOf(container).back();
  const int returns = returns_;
  Leave(second);
  for (int tries = 1;; ++tries) {
    const Heard heard = Call("DEL", second, kPatience);
    if (heard.is_answered && heard.error.empty()) break;
    // Meanwhile the pod is gone from the API server, so Run ends the whole container.
    if (returns != returns_) return;
    PauseAfter(tries);
  }
  valid_.at(container).networks = 1;
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
  Create(container, pod);
  const int boot = boots_;
  const int returns = returns_;
  const Addresses addresses = Add(container);
  const auto lives = [&] { return !addresses.empty() && boot == boots_; };
  Cluster* const cluster = options_.cluster;
  if (lives() && cluster != nullptr && tells_address) cluster->TellAddresses(pod, node_.name(), addresses);
  if (lives() && Below(5) == 0) static_cast<void>(Add(container));
  if (Below(3) == 0) std::this_thread::sleep_for(std::chrono::milliseconds(Below(200)));
  const bool is_in_all = InterfacesOf(container).size() > 1;
  if (cluster != nullptr && lives() && options_.renews_sandboxes && !is_burst_ && Below(6) == 0)
    return Renew(container);
  // If an ADD in one of two networks failed, half of the pods get a new sandbox.
  const bool is_half = is_in_all && addresses.empty() && boot == boots_ && returns == returns_;
  if (cluster != nullptr && is_half && Below(2) == 0) return Renew(container);
  if (lives() && is_in_all && Below(6) == 0) Detach(container);
  const bool stays = lives() && (is_burst_ || Below(3) == 0);
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
    while (is_held_) std::this_thread::sleep_for(std::chrono::milliseconds(Below(50)));
    // Some containers end before their kubelet has reported the pod's address.
    Run(fmt::format("{}-{}", name, number), Start(name), options_.tells_odd_uids || Below(2) == 0);
  }
}

void Kubelet::RunScheduled(const Pod& pod) {
  if (!options_.counted->Admits(node_.name(), pod.uid)) return options_.cluster->MarkEnded(pod, "Failed");
  Run(node_.called() + "-" + pod.name, pod, options_.tells_odd_uids || Below(2) == 0);
}

void Kubelet::EndOne() {
  if (settled_.empty()) return;
  FinishLater(*std::next(settled_.begin(), static_cast<std::ptrdiff_t>(Below(settled_.size()))));
}

void Kubelet::EndSettled() {
  for (const std::string& container : std::set<std::string>(settled_)) FinishLater(container);
}

void Kubelet::RenamePool(const std::string& from, const std::string& to) {
  for (PodNetwork& network : options_.networks) std::ranges::replace(network.pools, from, to);
}

void Kubelet::RenewSandbox() {
  if (settled_.empty() || !options_.renews_sandboxes || options_.cluster == nullptr) return;
  const std::string container = *std::next(settled_.begin(), static_cast<std::ptrdiff_t>(Below(settled_.size())));
  settled_.erase(container);
  ++ending_;
  Spawn(process_, [this, container] {
    Renew(container);
    --ending_;
  });
}

void Kubelet::Renew(const std::string& container) {
  const Pod pod = valid_.at(container).pod;
  const int returns = returns_;
  Del(container);
  options_.cluster->TellAddresses(pod, node_.name(), {});
  constexpr int kAttemptsMax = 20;
  for (int attempt = 0; attempt < kAttemptsMax; ++attempt) {
    if (Below(2) == 0) std::this_thread::sleep_for(std::chrono::milliseconds(Below(2'000)));
    const std::string next = fmt::format("{}r{}", container, attempt);
    Create(next, pod);
    const int boot = boots_;
    const Addresses addresses = Add(next);
    const bool is_wanted = returns == returns_ && !options_.cluster->IsGone(node_.name());
    if (addresses.empty() || boot != boots_ || !is_wanted) {
      Del(next);
      if (is_wanted) continue;
      break;
    }
    options_.cluster->TellAddresses(pod, node_.name(), addresses);
    settled_.insert(next);
    return;
  }
  options_.cluster->RemovePod(pod);
}

void Kubelet::StartStatic(const std::string& name) {
  if (!options_.has_static_pods) return;
  Run(name, options_.cluster->StartStaticPod(node_.name(), name), /*tells_address=*/true);
}

std::map<ipam::Attachment, Kubelet::Holding> Kubelet::holders() const {
  std::map<ipam::Attachment, Holding> holdings;
  for (const auto& [attachment, one] : told_) holdings.emplace(attachment, one.holding());
  return holdings;
}

std::map<ipam::Attachment, Kubelet::Holding> Kubelet::settled() const {
  std::map<ipam::Attachment, Holding> holdings;
  for (const auto& [attachment, one] : told_) {
    if (settled_.contains(one.interface.container)) holdings.emplace(attachment, one.holding());
  }
  return holdings;
}

void Kubelet::Reboot(const std::function<void()>& reboot) {
  CountAsGone();
  reboot();
  Return();
}

void Kubelet::LosePower(Nanos before, const std::function<void()>& reboot) {
  for (const auto& [attachment, ended] : ended_) {
    if (ended.when + before <= Now() || durable_.contains(attachment)) continue;
    (ended.is_static ? lost_static_ : lost_).insert(attachment);
  }
  Reboot(reboot);
}

void Kubelet::Retire() {
  Kill(*process_);
  CountAsGone();
  for (const auto& [container, sandbox] : valid_) {
    for (const Interface& one : InterfacesOf(container)) lost_.insert(AttachmentOf(one));
  }
  MayComeBack();
  valid_.clear();
  settled_.clear();
}

void Kubelet::MayComeBack() {
  for (const auto& [attachment, ended] : ended_) lost_.insert(attachment);
}

void Kubelet::CountAsGone() {
  ++boots_;
  gone_ = valid_;
  for (const auto& [container, sandbox] : valid_) LetGo(container);
}

void Kubelet::Return() {
  ++returns_;
  const auto gone = std::exchange(gone_, {});
  for (const std::string& container : std::set<std::string>(settled_)) {
    if (!valid_.at(container).pod.is_static || gone.contains(container)) FinishLater(container);
  }
}

void Kubelet::EndUnknown() {
  ++returns_;
  for (const std::string& container : std::set<std::string>(settled_)) {
    if (!options_.cluster->Knows(valid_.at(container).pod)) FinishLater(container);
  }
}

void Kubelet::FinishLater(const std::string& container) {
  settled_.erase(container);
  ++ending_;
  Spawn(process_, [this, container, grace = std::chrono::milliseconds(valid_.at(container).pod.grace)] {
    std::this_thread::sleep_for(std::chrono::milliseconds(Below(static_cast<std::uint64_t>(grace.count()))));
    Finish(container);
    --ending_;
  });
}

bool Kubelet::MayHold(const ipam::Attachment& attachment) const {
  const auto is_it = [&](const Interface& one) { return AttachmentOf(one) == attachment; };
  return std::ranges::any_of(valid_,
                             [&](const auto& item) { return std::ranges::any_of(InterfacesOf(item.first), is_it); });
}

void Kubelet::EndAll() {
  for (const std::string& container : std::exchange(settled_, {})) End(container);
}

bool Kubelet::has_own_blocks() const {
  const auto is_shared = [](const std::string& pool) { return pool.starts_with("small"); };
  return std::ranges::none_of(options_.networks,
                              [&](const auto& network) { return std::ranges::any_of(network.pools, is_shared); });
}

void Kubelet::DelUnknown() { static_cast<void>(Call("DEL", {"unknown", &options_.networks.front()}, kPatience)); }

void Kubelet::CollectGarbage() {
  for (const PodNetwork& network : options_.networks) static_cast<void>(Call("GC", {"", &network}, kPatience));
}

}  // namespace berth::sim
