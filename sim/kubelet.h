// SPDX-License-Identifier: Apache-2.0
// Kubelet: containers that come and go on a node, with containerd's habits: an ADD that failed is followed by DELs
// until one succeeds, and by a new sandbox; a DEL is repeated; a caller may be killed in the middle. In a cluster with
// pods, some go before their containers, and some containers go without a DEL.
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
#include "sim/node.h"
#include "sim/story.h"

namespace berth::sim {

class Kubelet {
 public:
  using Checkers = std::vector<std::unique_ptr<Checker>>;
  struct Options {
    std::vector<std::string> pools;
    Cluster* cluster = nullptr;  // null: nobody looks at pods
    bool loses_dels = false;     // some
    bool renews_sandboxes = false;
    bool has_static_pods = true;
    bool tells_odd_uids = false;  // the runtime, of pods that are not static
  };
  // All must outlive this.
  Kubelet(Node& node, Story& story, const Checkers& checkers, Options options)
      : node_(node), story_(story), checkers_(checkers), options_(std::move(options)) {}

  // What is planted (plants.h): changes what an agent is handed.
  void Plant(std::function<void(nlohmann::json& call)> lie) { lie_ = std::move(lie); }

  // One thread of it: so many containers, one after another. Some stay.
  void Churn(const std::string& name, int containers);
  // One of the containers that stayed ends, and its pod gets another.
  void RenewSandbox();
  // A static pod, if there are any.
  void StartStatic(const std::string& name);
  // A DEL of a container that never was.
  void DelUnknown();
  // CNI GC: all that is not valid is to go.
  void CollectGarbage();
  // The machine goes down and comes up again by `reboot`: no container lives any more.
  void Reboot(const std::function<void()>& reboot);
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
  [[nodiscard]] bool tells_odd_uids() const { return options_.tells_odd_uids; }
  // Of its pools not all are Shared.
  [[nodiscard]] bool has_own_blocks() const { return options_.pools.front() != "small"; }
  // Whose containers went without a DEL.
  [[nodiscard]] const std::set<ipam::Attachment>& lost() const { return lost_; }
  [[nodiscard]] bool MayHold(const ipam::Attachment& attachment) const;
  // Who was told an address, and did not begin to leave.
  [[nodiscard]] std::map<ipam::Attachment, Pod> holders() const;
  // Of these the pods whose containers stay, by attachment.
  [[nodiscard]] std::map<ipam::Attachment, Pod> settled() const;

 private:
  // A pod that is started where this node may start one, once it may.
  [[nodiscard]] Pod Start(const std::string& name);
  // The pod gets a sandbox, and maybe another one after that; the last one ends or stays.
  void Run(const std::string& container, const Pod& pod, bool tells_address);
  // Only when a pod's sandbox has ended there is another. It stays.
  void Renew(const std::string& container);
  // The address; empty: none.
  std::string Add(const std::string& container);
  [[nodiscard]] std::map<ipam::Attachment, Pod> PodsOf(const std::set<std::string>& containers) const;
  void Del(const std::string& container);
  // The container and its pod go, in one of several ways.
  void End(const std::string& container);
  // The container first.
  void Finish(const std::string& container);
  // Of one that stayed, within its grace.
  void FinishLater(const std::string& container);
  void Leave(const std::string& container);
  // CNI_ARGS.
  [[nodiscard]] std::string Arguments(const std::string& container) const;
  Heard Call(const std::string& verb, const std::string& container, std::chrono::microseconds patience);

  Node& node_;
  Story& story_;
  const Checkers& checkers_;
  Options options_;
  std::function<void(nlohmann::json&)> lie_;
  std::map<std::string, Pod> valid_;  // containers that may hold something
  std::map<std::string, Pod> gone_;   // of these those that counted as gone last
  std::set<ipam::Attachment> lost_;
  std::set<std::string> told_;     // an address
  std::set<std::string> settled_;  // of these those that stay
  int boots_ = 0;
  int returns_ = 0;
  int ending_ = 0;
  std::uint64_t calls_ = 0;
};

}  // namespace berth::sim
