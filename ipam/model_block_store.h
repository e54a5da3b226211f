// SPDX-License-Identifier: Apache-2.0
// ModelBlockStore: a BlockStore in memory for tests, with the faults of a real API server and network.
//
// Like the real store: names are unique, and a write needs the newest resourceVersion. An answer can be lost before or
// after the commit. A write whose answer was lost can land later, if its resourceVersion is still the newest.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "ipam/block_store.h"

namespace berth::ipam {

// The cluster's objects; the stores of several nodes share them.
struct ModelCluster {
  std::map<std::string, Pool> pools;
  std::map<std::string, BlockView> blocks;
  std::map<std::string, Labels> namespaces;
  std::map<std::string, Labels> nodes;
  std::uint64_t version = 0;

  // Compares the version, then commits the write, like the API server. Errors: kConflict, kAlreadyExists, kNotFound.
  [[nodiscard]] Expected<BlockView> Commit(const Block& block);
};

enum class Fault : std::uint8_t {
  kNone,
  kUnavailable,      // the write does not land
  kLostAfterCommit,  // the write lands, but its answer is lost
  kLateCommit,       // the answer is lost; the write lands when ReleaseLateWrites is called, if it still can
};

class ModelBlockStore : public BlockStore {
 public:
  ModelBlockStore(ModelCluster& cluster, std::string node) : cluster_(cluster), node_(std::move(node)) {}

  // The faults of the next writes, in order; later writes have none.
  std::deque<Fault> faults;
  // If set: a read with kHint returns these instead of the current pools and blocks.
  std::optional<std::vector<Pool>> stale_pools;
  std::optional<std::vector<BlockView>> stale_blocks;
  // Number of requests so far.
  int reads = 0;
  int writes = 0;
  std::map<std::string, OpenIntent> intents;

  void ReleaseLateWrites();

  [[nodiscard]] const std::string& Node() const override { return node_; }
  [[nodiscard]] Expected<std::vector<PoolView>> ReadPools(std::span<const std::string> names,
                                                          Freshness freshness) override;
  [[nodiscard]] Expected<Labels> ReadNodeLabels() override;
  [[nodiscard]] Expected<Labels> ReadNamespaceLabels(const std::string& name) override;
  [[nodiscard]] Expected<std::vector<BlockView>> ReadBlocks(BlockScope scope, Freshness freshness) override;
  [[nodiscard]] Expected<PoolView> PoolOf(const PoolView& pool, const BlockView& block) override;
  [[nodiscard]] Expected<std::vector<Prefix>> ReadBlockCidrs(const std::string& space) override;
  [[nodiscard]] Expected<BlockView> Edit(const BlockView& seen, const Change& change) override;
  [[nodiscard]] Expected<BlockView> Create(const Block& block) override;
  [[nodiscard]] Expected<std::vector<OpenIntent>> ReadOpenIntents(const Attachment& attachment) override;
  [[nodiscard]] Expected<void> CloseIntent(const OpenIntent& intent) override;

 private:
  // The block as this node sees it.
  [[nodiscard]] BlockView Seen(Block block) const;
  [[nodiscard]] Expected<BlockView> Write(const Block& block, const Attachment& attachment);

  ModelCluster& cluster_;
  std::string node_;
  std::vector<Block> late_writes_;
};

// A Runtime whose clock only Wait moves, and whose random numbers follow from a seed.
class ModelRuntime : public Runtime {
 public:
  explicit ModelRuntime(std::uint64_t seed) : random_(seed) {}

  std::int64_t now_ms = 1'700'000'000'000;
  // Number of further calls of Wait that return true.
  int waits_left = 20;
  std::optional<Error> stop;

  [[nodiscard]] std::int64_t UnixMillis() override { return now_ms; }
  [[nodiscard]] Uint128 Random(Uint128 bound) override { return ((Uint128{random_()} << 64U) | random_()) % bound; }
  [[nodiscard]] bool Wait(std::chrono::milliseconds duration) override {
    now_ms += duration.count();
    return waits_left-- > 0;
  }
  [[nodiscard]] Expected<void> MayGoOn() override {
    if (stop) return std::unexpected(*stop);
    return {};
  }

 private:
  std::mt19937_64 random_;
};

}  // namespace berth::ipam
