// SPDX-License-Identifier: Apache-2.0
// RawBlock: sends one PATCH for each ADD and each DEL, over a connection that stays open, and does nothing else. A
// program that answers an ADD after a PATCH of its own cannot be faster. berth-agent answers most calls before it
// writes them.
//
// The block and its patches are like those of berth, but without `agent`, without `standby`, and without network
// namespaces in entries.
#pragma once

#include <string>

#include "bench/contender.h"
#include "ipam/block.h"
#include "k8sclient/api.h"

namespace berth::bench {

class RawBlock final : public Contender {
 public:
  // Creates the block `cidr` of the pool for the node. Errors: those of the request.
  [[nodiscard]] static Expected<std::unique_ptr<RawBlock>> Create(k8sclient::Api& api, const ipam::Pool& pool,
                                                                  const ipam::Prefix& cidr, const std::string& node);

  [[nodiscard]] std::string name() const override { return "raw PATCH"; }
  [[nodiscard]] std::string user_agent() const override { return "berth-bench"; }
  // The client remembers the block between calls, and nobody else writes the block.
  [[nodiscard]] int callers_max() const override { return 1; }

  [[nodiscard]] Expected<void> Add(const std::string& container_id) override;
  [[nodiscard]] Expected<void> Del(const std::string& container_id) override;

 private:
  RawBlock(k8sclient::Api& api, ipam::Pool pool) : api_(api), pool_(std::move(pool)) {}
  [[nodiscard]] Expected<void> Patch(ipam::Block after);

  k8sclient::Api& api_;
  ipam::Pool pool_;
  ipam::Block block_;
};

}  // namespace berth::bench
