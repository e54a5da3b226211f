// SPDX-License-Identifier: Apache-2.0
// RawBlock: the lower bound: the one PATCH that an ADD or a DEL cannot do without, sent over a connection that stays
// open, by a client that does nothing else.
//
// The block and its patches are exactly those that berth writes.
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
