// SPDX-License-Identifier: Apache-2.0
// Backups: somebody backs the API server's data up, and restores it (docs/operations.md, "Backup and restore").
#pragma once

#include <cstddef>
#include <memory>

#include "ipam/entry.h"
#include "k8sclient/testing/model_api.h"
#include "sim/cluster.h"
#include "sim/machine.h"
#include "sim/network.h"
#include "sim/story.h"

namespace berth::sim {

class Backups {
 public:
  // All must outlive this.
  Backups(k8sclient::testing::ModelApi& store, Cluster& cluster, Network& network, Story& story,
          const Machines& machines)
      : store_(store), cluster_(cluster), network_(network), story_(story), machines_(machines) {}

  // Instead of the last.
  void Take();
  // There is one of which berth promises that all comes back: the agents that run know what has changed since.
  [[nodiscard]] bool MayRestore() const;
  // Returns when all that is held is recorded again. Requires: MayRestore.
  void Restore();
  [[nodiscard]] bool was_restored() const { return was_restored_; }

 private:
  [[nodiscard]] std::size_t Starts() const;
  // Of somebody who has an address that no block records; empty: there is none.
  [[nodiscard]] ipam::Attachment Unrecorded() const;

  k8sclient::testing::ModelApi& store_;
  Cluster& cluster_;
  Network& network_;
  Story& story_;
  const Machines& machines_;
  std::shared_ptr<const k8sclient::testing::ModelApi::Backup> backup_;
  std::size_t starts_ = 0;  // of agents, when it was taken
  bool was_restored_ = false;
};

}  // namespace berth::sim
