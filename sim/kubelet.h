// SPDX-License-Identifier: Apache-2.0
// Kubelet: containers that come and go on a node, with containerd's habits: an ADD that failed is followed by DELs
// until one succeeds, and by a new sandbox; a DEL is repeated; a caller may be killed in the middle. In a cluster with
// pods, some go before their containers, and some containers go without a DEL. As Multus does it gives some containers
// a second interface; as CRI-O does it CHECKs them.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "sim/checkers.h"
#include "sim/cluster.h"
#include "sim/counted.h"
#include "sim/node.h"
#include "sim/story.h"

namespace berth::sim {

// Names, as two files need them.
inline constexpr const char* kFirstNetwork = "net";
inline constexpr const char* kFirstInterface = "eth0";
inline constexpr const char* kSecondNetwork = "net2";
inline constexpr const char* kSecondInterface = "net1";

// A network of pods, and the interface by which containers are in it.
struct PodNetwork {
  std::string name;
  std::string interface;
  std::vector<std::string> pools;
  std::size_t families = 0;  // of the pools; 0: not known
};

class Kubelet {
 public:
  using Checkers = std::vector<std::unique_ptr<Checker>>;
  struct Options {
    // Of the first the kubelet reports the address; in a second one some containers are besides.
    std::vector<PodNetwork> networks;
    Cluster* cluster = nullptr;  // null: nobody looks at pods
    bool loses_dels = false;     // some
    bool renews_sandboxes = false;
    bool ends_slowly = false;  // containers of pods that are not static: fault `slow-end`
    bool has_static_pods = true;
    bool tells_odd_uids = false;  // the runtime, of pods that are not static
    bool checks = false;          // containers that have addresses
    Counted* counted = nullptr;   // admits pods that request addresses; null: there are none
    // Draws what a pod requests of the network; null: no pod requests certain addresses.
    std::function<Addresses(const PodNetwork&)> any_request = nullptr;
  };
  // All must outlive this.
  Kubelet(Node& node, Story& story, const Checkers& checkers, Options options)
      : node_(node), story_(story), checkers_(checkers), options_(std::move(options)) {}

  // Of all its threads.
  [[nodiscard]] const ProcessPointer& process() const { return process_; }

  // What is planted (plants.h): changes what an agent is handed.
  void Plant(std::function<void(nlohmann::json& call)> lie) { lie_ = std::move(lie); }

  // One thread of it: so many containers, one after another. Some stay.
  void Churn(const std::string& name, int containers);
  // A pod that the scheduler has bound to this node: the kubelet admits it, and it runs.
  void RunScheduled(const Pod& pod);
  // Starts no containers, until it is released. Pods that the scheduler has bound are started all the same.
  void Hold(bool is_held) { is_held_ = is_held; }
  // A pool that its network configurations name.
  [[nodiscard]] std::string AnyPool() const { return options_.networks[Below(options_.networks.size())].pools.front(); }
  // From now on the network configurations of this node name the pool `to` where they named `from`.
  void RenamePool(const std::string& from, const std::string& to);
  // One of the containers that stayed ends.
  void EndOne();
  // All that stayed, each when it comes to it.
  void EndSettled();
  // The pods of all that stayed are deleted at once, but static ones, by force or not; their containers end within
  // their grace. `forgets`: the runtime has lost what it knew of them, and sends no DEL.
  void EndAllPods(bool by_force, bool forgets);
  // One of the containers that stayed ends, and its pod gets another.
  void RenewSandbox();
  // A pod of a tenant whose network configuration is odd. Its container ends, whether it got an address or not.
  void RunTenant(const std::string& name);
  // A static pod, if there are any.
  void StartStatic(const std::string& name);
  // A DEL of a container that never was.
  void DelUnknown();
  // CNI GC, of each network: all that is not valid is to go.
  void CollectGarbage();
  // CNI CHECK of somebody now and then, until EndChecks.
  void CheckNowAndThen();
  void EndChecks() { checks_now_ = false; }
  // From now on nothing takes an address but pods that request one, and they keep it. Rule `room`: none of them is told
  // that the pool is exhausted.
  void BeginBurst() { is_burst_ = true; }
  void EndBurst() { is_burst_ = false; }
  // Sends one call of the container in the first network, for scripts; after an ADD the container is the pod's.
  Heard CallOnce(const std::string& verb, const std::string& container, const Pod& pod);
  // From now on every container ends when it is told to.
  void NeverHang() { may_hang_ = false; }
  // None at all from now on.
  void NeverCheck() { options_.checks = false; }
  // Pods that start from now on request no certain addresses.
  void NeverRequest() { options_.any_request = nullptr; }
  // Of all that have addresses.
  void CheckAll();
  // The machine goes down and comes up again by `reboot`: no container lives any more.
  void Reboot(const std::function<void()>& reboot);
  // The same, by a power cut. What was answered to a DEL in the time just before may be forgotten.
  void LosePower(Nanos before, const std::function<void()>& reboot);
  // The machine is out of use for ever, and its disk: of all that it had and gave back nobody hears any more. Requires:
  // no static pods.
  void Retire();
  // What was given back so far may be held again, by another machine of that name.
  void MayComeBack();
  // All containers that stayed go.
  void EndAll();

  // Nothing that runs here has a right to its address any more: the machine is off, or its node gone from the cluster.
  void CountAsGone();
  // The node is in the cluster again, all of its pods are gone from there, and their containers end. Static pods stay,
  // unless they counted as gone.
  void Return();
  // The API server's data was restored from a backup: pods that are not in it any more end.
  void EndUnknown();
  [[nodiscard]] bool IsEnding() const { return ending_ > 0; }

  [[nodiscard]] std::uint64_t calls() const { return calls_; }
  // ADDs that were told that the pool is exhausted.
  [[nodiscard]] std::uint64_t exhausted() const { return exhausted_; }
  [[nodiscard]] bool tells_odd_uids() const { return options_.tells_odd_uids; }
  // ADDs that failed because the API server refuses to change a block (Network::RefuseWritesOf).
  [[nodiscard]] std::uint64_t refused() const { return refused_; }
  // None of its pools is Shared.
  [[nodiscard]] bool has_own_blocks() const;
  [[nodiscard]] bool has_second_network() const { return options_.networks.size() > 1; }
  // Whose containers went without a DEL.
  [[nodiscard]] const std::set<ipam::Attachment>& lost() const { return lost_; }
  // Of these those of static pods: whose DEL was answered and may be forgotten. Nothing but a person frees them then.
  [[nodiscard]] const std::set<ipam::Attachment>& lost_static() const { return lost_static_; }
  [[nodiscard]] bool MayHold(const ipam::Attachment& attachment) const;
  // Who was told addresses, and did not begin to leave.
  struct Holding {
    Pod pod;
    Addresses addresses;
  };
  [[nodiscard]] std::map<ipam::Attachment, Holding> holders() const;
  // Of these the pods whose containers stay, by attachment.
  [[nodiscard]] std::map<ipam::Attachment, Holding> settled() const;

 private:
  // Of a container in a network.
  struct Interface {
    std::string container;
    const PodNetwork* network;
  };
  // A pod's, with which so many of the networks it was to be attached to.
  struct Sandbox {
    Pod pod;
    std::size_t networks = 1;
    Addresses requested = {};  // in the first network
  };
  // Whose interface got addresses, and what the ADD printed.
  struct Holder {
    Pod pod;
    Interface interface;
    std::string result;
    [[nodiscard]] Holding holding() const { return {.pod = pod, .addresses = AddressesIn(result)}; }
  };

  // A pod that is started where this node may start one, once it may.
  [[nodiscard]] Pod Start(const std::string& name);
  // The pod gets a sandbox, and maybe another one after that; the last one ends or stays.
  void Run(const std::string& container, const Pod& pod, bool tells_address);
  // Only when a pod's sandbox has ended there is another. It stays.
  void Renew(const std::string& container);
  void Create(const std::string& container, const Pod& pod);
  // The addresses in the first network; empty: not all networks gave one.
  Addresses Add(const std::string& container);
  void Del(const std::string& container);
  // The second interface alone.
  void Detach(const std::string& container);
  void Check(const Interface& interface, const std::string& previous_result);
  // The container and its pod go, in one of several ways.
  void End(const std::string& container);
  // The container first.
  void Finish(const std::string& container);
  // It ends without a DEL.
  void Lose(const std::string& container);
  // Nothing ends it for a while, or the machine goes down. Its agent alone knows that it has its addresses.
  void Hang(const std::string& container);
  // A pod of the scheduler's: it is deleted first, or succeeds, or neither.
  void EndScheduled(const std::string& container);
  // Fault `slow-end`: a container ends in one of these ways, each in a thread of its own.
  [[nodiscard]] bool MayEndSlowly(const std::string& container) const;
  void EndSlowly(const std::string& container);
  // Its pod is Terminating for much longer than its grace.
  void StayTerminating(const std::string& container);
  // Its pod is deleted by force, or has ended; the sandbox goes on.
  void OutliveForce(const std::string& container);
  void OutlivePhase(const std::string& container);
  // For at most as long as is promised; where an agent looks for the sandbox, for longer, or until a reboot.
  void Outlive(const std::string& container, std::chrono::seconds promised);
  // The sandbox ends and the pod goes, and the runtime comes to the DEL much later.
  void DelLate(const std::string& container);
  // Until the machine goes down.
  void SleepHere(std::chrono::milliseconds time);
  // Of one that stayed, within its grace.
  void FinishLater(const std::string& container);
  // A DEL is about to be sent.
  void Leave(const std::string& container);
  void Leave(const Interface& interface);
  // Its sandbox has ended without a DEL, or counts as ended.
  void LetGo(const std::string& container);
  void MayBeFreed(const ipam::Attachment& attachment);

  [[nodiscard]] static ipam::Attachment AttachmentOf(const Interface& interface);
  [[nodiscard]] std::vector<Interface> InterfacesOf(const std::string& container) const;
  [[nodiscard]] Addresses RequestedBy(const Interface& interface) const;
  // CNI_ARGS.
  [[nodiscard]] std::string Arguments(const std::string& container) const;
  // Rule `room`.
  void CheckRoom(const Heard& heard);
  // What a GC of that network is told: half of the ADDs under way are missing, as with containerd.
  [[nodiscard]] nlohmann::json ValidIn(const PodNetwork& network) const;
  // `odd`: a merge patch of what the runtime sends.
  Heard Call(const std::string& verb, const Interface& interface, std::chrono::microseconds patience,
             const std::string& previous_result = {}, const nlohmann::json& odd = nullptr);

  Node& node_;
  Story& story_;
  const Checkers& checkers_;
  Options options_;
  ProcessPointer process_ = std::make_shared<Process>(node_.called() + ".kubelet");
  std::function<void(nlohmann::json&)> lie_;
  std::map<std::string, Sandbox> valid_;       // containers that may hold something
  std::multiset<ipam::Attachment> adding_;     // ADDs under way
  std::map<std::string, Sandbox> gone_;        // of these those that counted as gone last
  std::map<std::string, Addresses> requests_;  // of pods, by UID, or by container where there are no pods
  std::set<ipam::Attachment> lost_;
  std::set<ipam::Attachment> lost_static_;
  struct Ended {
    Nanos when;  // its DEL was answered
    bool is_static;
  };
  std::map<ipam::Attachment, Ended> ended_;
  std::map<ipam::Attachment, Holder> told_;  // an address
  std::set<std::string> settled_;            // containers that stay
  bool checks_now_ = true;
  bool is_burst_ = false;
  bool may_hang_ = true;
  bool is_held_ = false;
  int boots_ = 0;
  int returns_ = 0;
  int ending_ = 0;
  std::uint64_t calls_ = 0;
  std::uint64_t exhausted_ = 0;
  std::uint64_t refused_ = 0;
};

}  // namespace berth::sim
