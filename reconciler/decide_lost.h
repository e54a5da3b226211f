// SPDX-License-Identifier: Apache-2.0
// Lost entries: addresses that live pods have and of which the record is gone, since somebody edited a block or
// restored a backup of etcd. Who has an address that is not recorded shares it with the next pod that gets it.
//
// A node's agent writes again what it has handed out in its own blocks. So an entry is put back there only where nobody
// else has written the blocks of the node for a minute, and never where an agent may have given the address to another
// already. Entries in Shared blocks are written again by nobody, and each of their addresses is taken by a write: there
// the minute alone counts. An address that another is recorded for is only reported: which of the two has to go is for
// a person to say.
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

// From one comparison of all pods with all blocks to the next.
inline constexpr std::chrono::seconds kComparePeriod{10};
// For so long nobody else may have written the node's blocks, and the address has to have been lost.
inline constexpr std::chrono::seconds kQuietMin{60};
// For so long pods and blocks have to disagree: their watches are not of one moment, and a pod's end takes its time.
inline constexpr std::chrono::seconds kContestedMin{20};

// What is recorded of an address that a pod has.
enum class AddressState : std::uint8_t {
  kRecorded,   // the pod
  kLost,       // nobody, or a reservation alone
  kContested,  // another
  // Nobody, or nobody knows whom, and it is not for the controller to say who has it: it may be with another pod
  // already, or belongs to no pod at all.
  kLeftAlone,
};

// Requires: the address lies in the block.
[[nodiscard]] AddressState StateOf(const SeenPod& pod, const ipam::Address& address, const ipam::Block& block);

// The entry of a pod's address, by what is known of the pod. Its attachment is made from the pod's UID: no DEL finds
// it, so it goes when the pod is gone or has another sandbox with other addresses (decide_orphans.h). Nothing: a static
// pod, of which it cannot be known that it is gone, or the UID has no 16 hexadecimal digits.
[[nodiscard]] std::optional<ipam::HeldEntry> EntryOf(const SeenPod& pod, const ipam::Block& block, const Moment& now);

// Whether the pod has an address of the block that no block of the world has an entry of. Such a block must not go: the
// entry is put back there, or the pod is the last that may use the address.
[[nodiscard]] bool LacksEntryOf(const World& world, const ipam::Block& block, const SeenPod& pod);

// The same of all pods of the world that may use the block.
class PodAddresses {
 public:
  explicit PodAddresses(const World& world) : world_(world) {}
  [[nodiscard]] bool AreLostIn(const ipam::Block& block);

 private:
  const World& world_;
  // By node, and "" for all; gathered at the first question: there may be a hundred thousand pods.
  std::optional<std::map<std::string, std::vector<const SeenPod*>>> pods_;
};

class LostEntries {
 public:
  // Compares at most every kComparePeriod, and adds what is to be put back, and which addresses are contested.
  // Requires: world.knows_holders.
  void Decide(const World& world, const Memory& memory, const Moment& now, Decision& decision);

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
  // Since when nobody else has written that block and the node's others; long ago for a Shared one.
  [[nodiscard]] SteadyTime QuietSince(const ipam::Block& block) const;

  std::map<std::string, Seen> blocks_;  // as they were looked at last, and since when they are so
  Findings findings_;                   // of addresses that are lost or contested
  std::optional<SteadyTime> compared_;
  std::optional<SteadyTime> first_compared_;
};

}  // namespace berth::reconciler
