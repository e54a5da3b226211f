// SPDX-License-Identifier: Apache-2.0
// Machine: its files, its way to the network, its agents, its kubelet.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sim/kubelet.h"
#include "sim/network.h"
#include "sim/node.h"
#include "sim/story.h"

namespace berth::sim {

struct Machine {
  Machine(Node::Options options, Network& network, Story& story, const Kubelet::Checkers& checkers,
          Kubelet::Options of_kubelet)
      : folder(options.folder),
        link(network, "node " + options.name),
        node(std::move(options), link, story),
        kubelet(node, story, checkers, std::move(of_kubelet)) {}
  // Nobody but its own actors does anything to it.
  [[nodiscard]] bool is_left_alone() const { return is_gone || is_cut_off; }
  std::string folder;
  Link link;
  Node node;
  Kubelet kubelet;
  int churning = 0;
  bool is_gone = false;      // from the cluster
  bool is_cut_off = false;   // its agents, now or soon
  bool is_starting = false;  // its agents, while some of their requests fail
  bool has_double = false;   // another machine of that name runs, or what it sent is under way
};

using Machines = std::vector<std::unique_ptr<Machine>>;

}  // namespace berth::sim
