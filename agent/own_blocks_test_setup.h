// SPDX-License-Identifier: Apache-2.0
// For tests only: OwnBlocks on an API server in memory, with one block of 64 addresses.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "agent/own_blocks.h"
#include "agent/own_blocks_slot.h"
#include "crds/block.h"
#include "crds/names.h"
#include "ipam/engine_test_setup.h"
#include "k8sclient/testing/fake_clock.h"
#include "k8sclient/testing/model_api.h"

namespace berth::agent {

class BlockWitness final : public BlockObserver {
 public:
  void Conflict(const std::string& /*block*/) override {}
  void Batch(const std::string& /*block*/, std::size_t /*changes*/) override {}
  void InDoubt(const std::string& /*block*/, const Error& /*error*/) override {}
  void HandedOutRefused(const std::string& /*block*/, const std::string& /*entry*/, const Error& /*error*/) override {}
  void HandedOutLost(const std::string& /*block*/, const std::string& entry) override { lost.push_back(entry); }
  void StandbyNotKept() override { ++not_kept; }
  void Vanished(const std::string& /*block*/, const std::string& entry) override { vanished.push_back(entry); }
  void StillInUse(const std::string& /*block*/, const std::string& entry) override { in_use.push_back(entry); }
  void FreedRightly(const std::string& /*block*/, const std::string& entry) override { freed.push_back(entry); }
  void WentBack(const std::string& /*block*/) override { ++went_back; }
  [[nodiscard]] bool IsStillOurs() override {
    if (meanwhile) std::exchange(meanwhile, nullptr)();
    return !is_replaced;
  }
  void MetAnother(const std::string& /*block*/, const std::string& agent) override { met.push_back(agent); }

  bool is_replaced = false;
  std::function<void()> meanwhile;  // once, while the agent asks whether it was replaced
  std::vector<std::string> met;
  std::vector<std::string> lost;
  std::vector<std::string> vanished;
  std::vector<std::string> in_use;
  std::vector<std::string> freed;
  int not_kept = 0;
  int went_back = 0;
};

inline ipam::HeldEntry EntryOf(int number) {
  return {.pod_namespace = "team-a",
          .pod = "web-" + std::to_string(number),
          .uid = "u",
          .attachment = ipam::TestAttachment(number),
          .interface = "eth0",
          .since_ms = 1,
          .node = {},
          .reservation = {},
          .unknown = {}};
}
inline std::string TextOf(int number) { return ipam::FormatEntry(EntryOf(number)).value(); }

class OwnBlocksTest : public ::testing::Test {
 protected:
  static constexpr std::size_t kStandby = 4;
  static inline const std::string kBlocks{crds::kBlocksPath};
  static inline const std::string kName = "10.55.0.0-26";

  [[nodiscard]] SteadyTime Soon() { return clock_.Now() + std::chrono::seconds(5); }

  // As somebody creates a block, and this node's agent takes it over.
  ipam::BlockView MakeBlock() {
    const auto created = api_.Call(
        {.method = k8sclient::Method::kPost, .path = kBlocks, .body = crds::BlockToJson(NewBlock()).dump()}, {});
    EXPECT_TRUE(created->ok()) << created->body;
    EXPECT_TRUE(Fence(own_).has_value());
    return Stored();
  }
  // Of a node without notes.
  Expected<void> Fence(OwnBlocks& agent) {
    return agent.Fence(Stored(), Soon(), [](const ipam::Block&) { return ipam::OffsetSet(); });
  }
  // As the controller gives back an empty block.
  void RemoveBlock() {
    ASSERT_TRUE(api_.Call({.method = k8sclient::Method::kDelete, .path = kBlocks + "/" + kName}, {})->ok());
    const auto gone = api_.Call({.method = k8sclient::Method::kPatch,
                                 .path = kBlocks + "/" + kName,
                                 .body = R"({"metadata":{"finalizers":null}})"},
                                {});
    ASSERT_TRUE(gone->ok());
  }
  [[nodiscard]] ipam::BlockView Stored() const {
    const auto objects = api_.Objects(kBlocks);
    return objects.empty() ? nullptr : std::make_shared<const ipam::Block>(crds::ParseBlock(objects[0]).value());
  }

  Expected<ipam::BlockView> Add(int number, OwnBlocks* agent = nullptr) {
    const ipam::HeldEntry entry = EntryOf(number);
    const auto take = [this, entry](ipam::Block& block) -> Expected<void> {
      const auto taken = ipam::Take(block, pool_, entry, std::nullopt, 0);
      if (!taken) return std::unexpected(taken.error());
      return {};
    };
    const auto stand_by = [this](ipam::Block& block, std::size_t wanted) { ipam::StandBy(block, pool_, wanted, 0); };
    return (agent == nullptr ? own_ : *agent)
        .Edit(Named(), {.attachment = entry.attachment, .apply = take, .stand_by = stand_by}, Soon());
  }
  ipam::BlockView HandOut(int number, OwnBlocks* agent = nullptr,
                          std::chrono::milliseconds within = std::chrono::seconds(5)) {
    const ipam::HeldEntry entry = EntryOf(number);
    const auto take = [this, entry](ipam::Block& block, const ipam::OffsetSet& among) -> Expected<void> {
      const auto taken = ipam::TakeStandby(block, pool_, entry, among, 0);
      if (!taken) return std::unexpected(taken.error());
      return {};
    };
    return (agent == nullptr ? own_ : *agent)
        .HandOut(Named(),
                 {.attachment = entry.attachment, .apply = nullptr, .take_standby = take},
                 clock_.Now() + within,
                 [] {});
  }
  [[nodiscard]] bool Holds(int number) const { return own_.Holds(ipam::TestAttachment(number)); }
  [[nodiscard]] bool IsStored(int number) const {
    const ipam::BlockView block = Stored();
    return block != nullptr && ipam::Find(*block, ipam::TestAttachment(number));
  }
  // An empty text: no entry.
  static void SetText(ipam::Block& block, ipam::BlockOffset offset, const std::string& text) {
    block.allocations.erase(offset);
    if (!text.empty()) block.allocations[offset] = text;
  }
  // By the agent.
  void Write(const std::map<ipam::BlockOffset, std::string>& texts) {
    const auto apply = [&texts](ipam::Block& block) -> Expected<void> {
      for (const auto& [offset, text] : texts) SetText(block, offset, text);
      return {};
    };
    ASSERT_TRUE(own_.Edit(Named(), {.attachment = {}, .apply = apply}, Soon()).has_value());
  }
  // As the agent does from time to time.
  void WriteWhatIsLeft() {
    own_.WriteHandedOut(Soon(), [](const Error&) {});
    static_cast<void>(
        own_.Edit(Named(), {.attachment = {}, .apply = [](ipam::Block&) { return Expected<void>(); }}, Soon()));
  }

  ipam::Pool pool_ = ipam::TestPool("p1", "10.55.0.0/24");
  k8sclient::testing::FakeClock clock_;
  k8sclient::testing::ModelApi api_;
  BlockWitness seen_;
  OwnBlocks own_{api_, clock_, {.node = "n1", .instance = "m-me", .standby = kStandby}, seen_};

 private:
  [[nodiscard]] ipam::Block NewBlock() const {
    return ipam::NewBlock(pool_, ipam::Prefix::Parse("10.55.0.0/26").value(), "n1");
  }
  [[nodiscard]] ipam::BlockView Named() const { return std::make_shared<const ipam::Block>(NewBlock()); }
};

}  // namespace berth::agent
