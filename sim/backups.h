// SPDX-License-Identifier: Apache-2.0
// Backups: a person backs up the API server's data and restores the backup (docs/operations.md, "Backup and restore").
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

  // Takes a backup, which replaces the last one.
  void Take();
  // There is a backup from which berth promises to restore everything: the running agents know all changes since then.
  [[nodiscard]] bool MayRestore() const;
  // Restores the backup. Returns when each held address has an entry again. Requires: MayRestore.
  void Restore();
  [[nodiscard]] bool was_restored() const { return was_restored_; }

 private:
  [[nodiscard]] std::size_t Starts() const;
  // An attachment that has an address without an entry; empty: there is none.
  [[nodiscard]] ipam::Attachment Unrecorded() const;

  k8sclient::testing::ModelApi& store_;
  Cluster& cluster_;
  Network& network_;
  Story& story_;
  const Machines& machines_;
  std::shared_ptr<const k8sclient::testing::ModelApi::Backup> backup_;
  std::size_t starts_ = 0;  // starts of agents when the backup was taken
  bool was_restored_ = false;
};

}  // namespace berth::sim
