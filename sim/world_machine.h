// SPDX-License-Identifier: Apache-2.0
// A machine of the world: its files, its way to the network, its agents, its kubelet. Private to World's source files.
#pragma once

#include <string>
#include <utility>

#include "sim/world.h"

namespace berth::sim {

struct World::Machine {
  Machine(Node::Options options, Network& network, Story& story, const Kubelet::Checkers& checkers,
          Kubelet::Options of_kubelet)
      : folder(options.folder),
        link(network),
        node(std::move(options), link, story),
        kubelet(node, story, checkers, std::move(of_kubelet)) {}
  // Nobody but its own actors does anything to it.
  [[nodiscard]] bool is_left_alone() const { return is_gone || is_cut_off; }
  std::string folder;
  Link link;
  Node node;
  Kubelet kubelet;
  int churning = 0;
  bool is_gone = false;     // from the cluster
  bool is_cut_off = false;  // its agents, now or soon
};

}  // namespace berth::sim
