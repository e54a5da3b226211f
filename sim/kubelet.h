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
  };
  // All must outlive this.
  Kubelet(Node& node, Story& story, const Checkers& checkers, Options options)
      : node_(node), story_(story), checkers_(checkers), options_(std::move(options)) {}

  // What is planted (plants.h): changes what an agent is handed.
  void Plant(std::function<void(nlohmann::json& call)> lie) { lie_ = std::move(lie); }

  // One thread of it: so many containers, one after another. Some stay.
  void Churn(const std::string& name, int containers);
  // CNI GC: all that is not valid is to go.
  void CollectGarbage();
  // The machine goes down and comes up again by `reboot`: no container lives any more.
  void Reboot(const std::function<void()>& reboot);
  // All containers that stayed go.
  void EndAll();

  [[nodiscard]] std::uint64_t calls() const { return calls_; }
  // Whose containers went without a DEL.
  [[nodiscard]] const std::set<ipam::Attachment>& lost() const { return lost_; }

 private:
  // The address; empty: none.
  std::string Add(const std::string& container);
  void Del(const std::string& container);
  // The container and its pod go, in one of several ways.
  void End(const std::string& container);
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
  std::set<ipam::Attachment> lost_;
  std::set<std::string> settled_;  // of these those that stay
  int boots_ = 0;
  std::uint64_t calls_ = 0;
};

}  // namespace berth::sim
