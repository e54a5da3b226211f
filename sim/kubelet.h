// SPDX-License-Identifier: Apache-2.0
// Kubelet: the kubelet and the container runtime of a node, which start and end containers. As with containerd, an ADD
// that fails is followed by DELs until one succeeds, and by a new sandbox; DELs are repeated; a caller may give up
// during a call. In a cluster with pods, some pods go before their containers, and some containers end without a DEL.
// Some containers have a second interface, as with Multus, and some get CHECKs, as with CRI-O.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "ipam/pool.h"
#include "sim/checkers.h"
#include "sim/cluster.h"
#include "sim/counted.h"
#include "sim/node.h"
#include "sim/story.h"

namespace berth::sim {

// Names of the networks and interfaces.
inline constexpr const char* kFirstNetwork = "net";
inline constexpr const char* kFirstInterface = "eth0";
inline constexpr const char* kSecondNetwork = "net2";
inline constexpr const char* kSecondInterface = "net1";

// A network of pods, and the interface that a container has in it.
struct PodNetwork {
  std::string name;
  std::string interface;
  std::vector<std::string> pools;
  std::size_t families = 0;                              // address families of the pools; 0: not known
  std::string space = std::string(ipam::kDefaultSpace);  // space of the pools
};

class Kubelet {
 public:
  using Checkers = std::vector<std::unique_ptr<Checker>>;
  struct Options {
    // The kubelet reports the addresses of the first network. Some containers are in the second network as well.
    std::vector<PodNetwork> networks;
    Cluster* cluster = nullptr;  // null: the API server has no pods
    bool loses_dels = false;     // some containers end without a DEL
    bool renews_sandboxes = false;
    bool ends_slowly = false;  // fault `slow-end`, for pods that are not static
    bool has_static_pods = true;
    bool tells_odd_uids = false;  // the runtime passes wrong UIDs, but not of static pods
    bool checks = false;          // the runtime sends CHECKs for containers with addresses
    Counted* counted = nullptr;   // admits pods that request the extended resource; null: there are none
    // Draws the addresses that a pod requests in the network; null: no pod requests addresses there.
    std::function<Addresses(const PodNetwork&)> any_request = nullptr;
  };
  // All must outlive this.
  Kubelet(Node& node, Story& story, const Checkers& checkers, Options options)
      : node_(node), story_(story), checkers_(checkers), options_(std::move(options)) {}

  // The simulated process of all the kubelet's threads.
  [[nodiscard]] const ProcessPointer& process() const { return process_; }

  // For plants (plants.h): `lie` changes each call before berth gets it.
  void Plant(std::function<void(nlohmann::json& call)> lie) { lie_ = std::move(lie); }

  // One thread of callers: starts this number of containers, one after another. Some of them stay.
  void Churn(const std::string& name, int containers);
  // Admits a pod that the scheduler has bound to this node, and runs it. A pod that is not admitted becomes Failed.
  void RunScheduled(const Pod& pod);
  // While the kubelet is held, Churn starts no containers. Pods that the scheduler has bound start all the same.
  void Hold(bool is_held) { is_held_ = is_held; }
  // The first pool of a random network of this node.
  [[nodiscard]] std::string AnyPool() const { return options_.networks[Below(options_.networks.size())].pools.front(); }
  // From now on this node's network configurations name the pool `to` in place of `from`.
  void RenamePool(const std::string& from, const std::string& to);
  // Ends one of the containers that stayed, within its pod's grace period.
  void EndOne();
  // Ends all containers that stayed, each within its pod's grace period.
  void EndSettled();
  // Deletes the pods of all containers that stayed, but not static pods. The containers end within the pods' grace
  // periods. `forgets`: the runtime has forgotten the containers, which end without a DEL.
  void EndAllPods(bool by_force, bool forgets);
  // Ends one of the containers that stayed, and its pod gets a new sandbox, if the options allow it.
  void RenewSandbox();
  // Runs a tenant's pod with an odd network configuration. Its container ends within 3 s, with an address or without.
  void RunTenant(const std::string& name);
  // Runs a static pod, if the options allow it.
  void StartStatic(const std::string& name);
  // Sends a DEL of a container that never existed.
  void DelUnknown();
  // Sends a GC with the valid attachments, for each network.
  void CollectGarbage();
  // Sends a CHECK for a random container about every five seconds, until EndChecks.
  void CheckNowAndThen();
  void EndChecks() { checks_now_ = false; }
  // From now on only pods that request the extended resource take addresses, and their containers stay. Rule `room`:
  // none of their ADDs fails because the pool is exhausted.
  void BeginBurst() { is_burst_ = true; }
  void EndBurst() { is_burst_ = false; }
  // For scripts: sends one call for the container in the first network. An ADD creates the container, which is the
  // pod's.
  Heard CallOnce(const std::string& verb, const std::string& container, const Pod& pod);
  // The container's sandbox ends without a DEL.
  void Lose(const std::string& container);
  // From now on each container ends when the kubelet ends it.
  void NeverHang() { may_hang_ = false; }
  // From now on the runtime sends no CHECK.
  void NeverCheck() { options_.checks = false; }
  // Pods that start from now on request no addresses in their network configuration.
  void NeverRequest() { options_.any_request = nullptr; }
  // Sends a CHECK for each interface that has addresses.
  void CheckAll();
  // Calls `reboot`, by which the machine goes down and comes up again. All containers have ended then.
  void Reboot(const std::function<void()>& reboot);
  // Like Reboot, with a power cut, which may destroy DELs that were answered less than `before` ago.
  void LosePower(Nanos before, const std::function<void()>& reboot);
  // The machine and its disk are out of use for ever. All its attachments, and those whose DEL was answered, count as
  // lost. Requires: no static pods.
  void Retire();
  // Attachments whose DEL was answered count as lost, because another machine with this name may write their entries
  // again.
  void MayComeBack();
  // Ends all containers that stayed, one after another.
  void EndAll();

  // From now on the addresses of all containers may be freed: the machine is off, or its Node is gone.
  void CountAsGone();
  // The node is back, and its pods are gone from the API server: their containers end. Static pods stay, unless
  // CountAsGone counted them.
  void Return();
  // The API server's data was restored from a backup: containers of pods that are not in the backup end.
  void EndUnknown();
  [[nodiscard]] bool IsEnding() const { return ending_ > 0; }

  [[nodiscard]] std::uint64_t calls() const { return calls_; }
  // Number of ADDs that failed because the pool is exhausted.
  [[nodiscard]] std::uint64_t exhausted() const { return exhausted_; }
  [[nodiscard]] bool tells_odd_uids() const { return options_.tells_odd_uids; }
  // Number of ADDs that failed because the API server refuses to change a block (Network::RefuseWritesOf).
  [[nodiscard]] std::uint64_t refused() const { return refused_; }
  // No pool of the node's networks is Shared.
  [[nodiscard]] bool has_own_blocks() const;
  [[nodiscard]] bool has_second_network() const { return options_.networks.size() > 1; }
  // Attachments that ended without a DEL, or whose DEL may be forgotten.
  [[nodiscard]] const std::set<ipam::Attachment>& lost() const { return lost_; }
  // The same of static pods, which are not in lost(): a DEL was answered and may be forgotten. Only a person frees
  // their addresses.
  [[nodiscard]] const std::set<ipam::Attachment>& lost_static() const { return lost_static_; }
  [[nodiscard]] bool MayHold(const ipam::Attachment& attachment) const;
  // A pod whose ADD succeeded and whose DEL was not sent yet.
  struct Holding {
    Pod pod;
    Addresses addresses;
  };
  [[nodiscard]] std::map<ipam::Attachment, Holding> holders() const;
  // The holders whose containers stay.
  [[nodiscard]] std::map<ipam::Attachment, Holding> settled() const;

 private:
  // A container's interface in a network.
  struct Interface {
    std::string container;
    const PodNetwork* network;
  };
  // A pod's sandbox, which is in the first `networks` of the node's networks.
  struct Sandbox {
    Pod pod;
    std::size_t networks = 1;
    Addresses requested = {};  // addresses in the first network
  };
  // A pod whose interface has addresses, and the result of the ADD.
  struct Holder {
    Pod pod;
    Interface interface;
    std::string result;
    [[nodiscard]] Holding holding() const {
      return {.pod = pod, .addresses = InSpace(AddressesIn(result), interface.network->space)};
    }
  };

  // Waits until this node can start pods, and creates a pod.
  [[nodiscard]] Pod Start(const std::string& name);
  // Makes a sandbox for the pod, and sometimes a second one. The last sandbox ends or stays.
  void Run(const std::string& container, const Pod& pod, bool tells_address);
  // Ends the pod's sandbox and then makes a new one, which stays.
  void Renew(const std::string& container);
  void Create(const std::string& container, const Pod& pod);
  // Sends the ADDs. Returns the addresses in the first network; empty: an ADD failed.
  Addresses Add(const std::string& container);
  void Del(const std::string& container);
  // Detaches the second interface, and the container runs on.
  void Detach(const std::string& container);
  void Check(const Interface& interface, const std::string& previous_result);
  // Ends the container and its pod, in one of several ways.
  void End(const std::string& container);
  // Ends the container, and then its pod.
  void Finish(const std::string& container);
  // The container of a deleted pod lives on for 9 to 13 minutes, or until the machine goes down. Only its agent knows
  // that it has its addresses.
  void Hang(const std::string& container);
  // Ends the container of a pod that the scheduler placed. The pod may be Terminating or Succeeded before.
  void EndScheduled(const std::string& container);
  // Fault `slow-end`: a container ends in one of the following ways, each in a thread of its own.
  [[nodiscard]] bool MayEndSlowly(const std::string& container) const;
  void EndSlowly(const std::string& container);
  // The pod is Terminating for up to three minutes longer than its grace period.
  void StayTerminating(const std::string& container);
  // The pod is deleted by force (OutliveForce) or has ended (OutlivePhase), and the sandbox lives on.
  void OutliveForce(const std::string& container);
  void OutlivePhase(const std::string& container);
  // Waits while the sandbox lives on: for at most `promised`, or for up to 25 minutes if an agent looks for the
  // sandbox, or until the machine goes down.
  void Outlive(const std::string& container, std::chrono::seconds promised);
  // The sandbox ends and the pod is gone, and the runtime sends the DEL up to 20 minutes later.
  void DelLate(const std::string& container);
  // Sleeps for `time`, or until the machine goes down.
  void SleepHere(std::chrono::milliseconds time);
  // Ends a container that stayed, within its pod's grace period, in a thread of its own.
  void FinishLater(const std::string& container);
  // Tells the checkers that a DEL will be sent.
  void Leave(const std::string& container);
  void Leave(const Interface& interface);
  // Tells the checkers that the sandbox has ended without a DEL, or counts as ended.
  void LetGo(const std::string& container);
  void MayBeFreed(const ipam::Attachment& attachment);

  [[nodiscard]] static ipam::Attachment AttachmentOf(const Interface& interface);
  [[nodiscard]] std::vector<Interface> InterfacesOf(const std::string& container) const;
  [[nodiscard]] Addresses RequestedBy(const Interface& interface) const;
  // The text of CNI_ARGS.
  [[nodiscard]] std::string Arguments(const std::string& container) const;
  // Counts ADDs that failed, and checks the rule `room`.
  void CheckRoom(const Heard& heard);
  // The valid attachments that a GC of the network names. Half of the ADDs that run are missing, as with containerd.
  [[nodiscard]] nlohmann::json ValidIn(const PodNetwork& network) const;
  // `odd`: a merge patch of the call.
  Heard Call(const std::string& verb, const Interface& interface, std::chrono::microseconds patience,
             const std::string& previous_result = {}, const nlohmann::json& odd = nullptr);

  Node& node_;
  Story& story_;
  const Checkers& checkers_;
  Options options_;
  ProcessPointer process_ = std::make_shared<Process>(node_.called() + ".kubelet");
  std::function<void(nlohmann::json&)> lie_;
  std::map<std::string, Sandbox> valid_;    // containers that may hold addresses
  std::multiset<ipam::Attachment> adding_;  // ADDs that run
  std::map<std::string, Sandbox> gone_;     // containers that CountAsGone counted last
  // Requested addresses, by the pod's UID, or by container if there are no pods.
  std::map<std::string, Addresses> requests_;
  std::set<ipam::Attachment> lost_;
  std::set<ipam::Attachment> lost_static_;
  struct Ended {
    Nanos when;  // when the DEL was answered
    bool is_static;
  };
  std::map<ipam::Attachment, Ended> ended_;
  std::set<ipam::Attachment> durable_;       // a DEL was answered, and no power cut can undo it
  std::map<ipam::Attachment, Holder> told_;  // holders of addresses
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
