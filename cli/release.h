// SPDX-License-Identifier: Apache-2.0
// Release: frees the address of a pod that is gone, as the controller does. The entry becomes a cooling entry that
// tells the node's agent to forget the attachment (ipam::FreedMark). If the entry were only removed, the agent would
// write it again (docs/state.md). If the attachment's network namespace still exists, the agent puts the entry back.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "cli/inventory.h"

namespace berth::cli {

// The pod and the node of an entry, as berthctl read them a moment ago.
struct PodAndNode {
  std::optional<Pod> pod = {};  // nullopt: it does not exist, or the entry names no pod or no node
  // The Node's condition Ready is True, or the Node does not exist, so that nothing runs there.
  bool node_is_ready_or_gone = false;
  bool node_is_gone = false;
};

struct Release {
  ipam::Address address;
  std::string space;
  // True: a person has checked that no container has the address. Then Releaser also releases an entry whose pod
  // berthctl cannot check (unknown or static), and does not ask the agent to look for the container's network
  // namespace. If the address is freed already and waits until an agent has looked, Releaser ends the wait: on a node
  // without an agent, the wait would never end, and the block could never be deleted.
  bool is_sure = false;
};

// The entry of the address. Errors: kNotFound.
[[nodiscard]] Expected<Use> FindUse(const Inventory& inventory, ipam::Address address, const std::string& space);

// The block with the entry replaced by a cooling entry. If the address is freed already: the block without the held
// entry in the cooling entry. Errors: kInvalid, with the remedy: the address may be in use, or is not held.
[[nodiscard]] Expected<ipam::Block> Released(const Use& use, const PodAndNode& live, bool is_sure, std::int64_t now_ms);

// Frees addresses one after the other. A report may have thousands of addresses, so Releaser reads the whole cluster at
// most every 20 s.
class Releaser {
 public:
  // The API must outlive this object.
  explicit Releaser(k8sclient::Api& api) : api_(api) {}

  // Reads the pod and the node of the entry, checks them, and writes the block by compare-and-swap. Reads the block
  // again after a conflict; tries ten times in all. Returns a text for people.
  [[nodiscard]] Expected<std::string> Perform(const Release& release);

 private:
  // Reads the cluster again if the last read is at least 20 s old. Returns the UNIX time in milliseconds, by the API
  // server's clock.
  [[nodiscard]] Expected<std::int64_t> Refresh();

  k8sclient::Api& api_;
  Inventory inventory_;
  std::optional<std::chrono::steady_clock::time_point> read_;
};

}  // namespace berth::cli
