// SPDX-License-Identifier: Apache-2.0
// Kubelet: containers that come and go on a node, with containerd's habits: an ADD that failed is followed by DELs
// until one succeeds, and by a new sandbox; a DEL is repeated; a caller may be killed in the middle.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "sim/checkers.h"
#include "sim/node.h"
#include "sim/story.h"

namespace berth::sim {

class Kubelet {
 public:
  using Checkers = std::vector<std::unique_ptr<Checker>>;
  // All must outlive this.
  Kubelet(Node& node, Story& story, const Checkers& checkers, std::vector<std::string> pools)
      : node_(node), story_(story), checkers_(checkers), pools_(std::move(pools)) {}

  // One thread of it: so many containers, one after another. Some stay.
  void Churn(const std::string& name, int containers);
  // CNI GC: all that is not valid is to go.
  void CollectGarbage();
  // The machine goes down and comes up again by `reboot`: no container lives any more.
  void Reboot(const std::function<void()>& reboot);
  // All containers that stayed go.
  void EndAll();

  [[nodiscard]] std::uint64_t calls() const { return calls_; }

 private:
  // The address; empty: none.
  std::string Add(const std::string& container);
  void Del(const std::string& container);
  Heard Call(const std::string& verb, const std::string& container, std::chrono::microseconds patience);

  Node& node_;
  Story& story_;
  const Checkers& checkers_;
  std::vector<std::string> pools_;
  std::set<std::string> valid_;    // containers that may hold something
  std::set<std::string> settled_;  // of these those that stay
  int boots_ = 0;
  std::uint64_t calls_ = 0;
};

}  // namespace berth::sim
