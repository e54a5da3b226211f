// SPDX-License-Identifier: Apache-2.0
// Machine: the files, the link to the network, the agents and the kubelet of one machine.
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
  // While the machine is gone or cut off, World causes no other fault on it.
  [[nodiscard]] bool is_left_alone() const { return is_gone || is_cut_off; }
  std::string folder;
  Link link;
  Node node;
  Kubelet kubelet;
  int churning = 0;
  bool is_gone = false;      // its Node is gone, or is not Ready yet after an outage
  bool is_cut_off = false;   // its agents reach no API server, or soon will not
  bool is_starting = false;  // an agent starts while some of its requests fail
  bool has_double = false;   // the old machine with this name runs, or its last requests are on the way
};

using Machines = std::vector<std::unique_ptr<Machine>>;

}  // namespace berth::sim
