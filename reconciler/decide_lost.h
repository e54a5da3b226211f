// SPDX-License-Identifier: Apache-2.0
// Lost entries: addresses that live pods have although no entry records them, because somebody edited a block or
// restored a backup of etcd. The next pod that gets such an address would share it.
//
// The agent of a node also restores lost entries of the node's blocks. So in such a block the controller puts an entry
// back only if nobody else has written the node's blocks for a minute, and never if an agent may have given the address
// to another pod already. No agent restores entries of Shared blocks, and an agent takes an address of a Shared block
// only by a write. So in a Shared block it is enough that the address has been lost for a minute. If the entry names
// another pod, the controller only reports the address: a person has to say which of the two pods must go.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ipam/address.h"
#include "ipam/block.h"
#include "ipam/entry.h"
#include "reconciler/decision.h"
#include "reconciler/pods.h"
#include "reconciler/world.h"

namespace berth::reconciler {

// Time from one comparison of all pods with all blocks to the next.
inline constexpr std::chrono::seconds kComparePeriod{10};
// The controller puts an entry back only if the address has been lost for this long, and nobody but the controller has
// written the node's blocks for this long.
inline constexpr std::chrono::seconds kQuietMin{60};
// How long a pod and an entry have to disagree before the address counts as contested: the watches of pods and blocks
// do not show the same moment, and the end of a pod takes time.
inline constexpr std::chrono::seconds kContestedMin{20};

// An AddressState says what a block records for an address of a pod.
enum class AddressState : std::uint8_t {
  kRecorded,   // an entry of the pod
  kLost,       // no entry, or only a reserved or cooling entry
  kContested,  // an entry of another pod
  // An entry that cannot be read or names no pod; or no entry, but the address is on standby or the block is being
  // deleted. The controller does nothing, because another pod may have the address already, or the address belongs to
  // no pod.
  kLeftAlone,
};

// Requires: the address lies in the block.
[[nodiscard]] AddressState StateOf(const SeenPod& pod, const ipam::Address& address, const ipam::Block& block);

// The entry for a pod's address, from what is known about the pod. The attachment is made from the pod's UID, so no DEL
// finds the entry, and the controller frees it when the pod is gone or has another sandbox with other addresses
// (decide_orphans.h). Nothing: the pod is static, so nobody could find out that it is gone, or the UID has fewer than
// 16 hexadecimal digits.
[[nodiscard]] std::optional<ipam::HeldEntry> EntryOf(const SeenPod& pod, const ipam::Block& block, const Now& now);

// True if the pod has an address of the block for which no block of the world has an entry of the pod. Such a block
// must stay until the controller has put the entry back, or until the pod is gone.
[[nodiscard]] bool LacksEntryOf(const World& world, const ipam::Block& block, const SeenPod& pod);

// LacksEntryOf for all pods of the world that may use the block.
class PodAddresses {
 public:
  explicit PodAddresses(const World& world) : world_(world) {}
  [[nodiscard]] bool AreLostIn(const ipam::Block& block);
  // The same for one address of the block.
  [[nodiscard]] bool IsLost(const ipam::Block& block, const ipam::Address& address);

 private:
  [[nodiscard]] const std::vector<const SeenPod*>& PodsOf(const std::string& node);

  const World& world_;
  // By node; under "" all pods, for Shared blocks. The first call gathers them, because there may be 100,000 pods.
  std::optional<std::map<std::string, std::vector<const SeenPod*>>> pods_;
};

class LostEntries {
 public:
  // Compares at most every kComparePeriod. Adds the entries to put back, and the contested addresses. Requires:
  // world.knows_holders.
  void Decide(const World& world, const ControllerState& state, const Now& now, Decision& decision);

 private:
  struct Finding {
    AddressState state = AddressState::kRecorded;
    std::string block;
    SteadyTime since;
  };
  using Findings = std::map<std::pair<PodKey, ipam::Address>, Finding>;
  struct Seen {
    ipam::BlockView block;
    SteadyTime since;
  };

  void NoteWrites(const World& world, SteadyTime now);
  void Compare(const World& world, SteadyTime now);
  // The time since when only the controller has written the block and the node's other blocks. For a Shared block this
  // time is long ago.
  [[nodiscard]] SteadyTime QuietSince(const ipam::Block& block) const;

  std::map<std::string, Seen> blocks_;  // as last seen, and since when only the controller has written them
  Findings findings_;                   // lost or contested addresses
  std::optional<SteadyTime> compared_;
  std::optional<SteadyTime> first_compared_;
};

}  // namespace berth::reconciler
