// SPDX-License-Identifier: Apache-2.0
// For tests only: OwnBlocks on an API server in memory, with one block of 64 addresses.
#pragma once

#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "agent/own_blocks.h"
#include "crds/block.h"
#include "crds/names.h"
#include "ipam/engine_test_setup.h"
#include "k8sclient/testing/fake_clock.h"
#include "k8sclient/testing/model_api.h"

namespace berth::agent {

class BlockWitness final : public BlockObserver {
 public:
  void Tell(const agent_core::Report& report) override {
    using enum agent_core::Report::Kind;
    if (report.kind == kHandedOutLost) lost.push_back(report.text);
    if (report.kind == kStandbyNotKept) ++not_kept;
    if (report.kind == kVanished) vanished.push_back(report.text);
    if (report.kind == kStillInUse) in_use.push_back(report.text);
    if (report.kind == kFreedRightly) freed.push_back(report.text);
    if (report.kind == kWentBack) ++went_back;
    if (report.kind == kMetAnother) met.push_back(report.text);
  }
  void NoteFailedRequest(const Error& /*error*/) override { ++failed_requests; }
  [[nodiscard]] bool IsStillOurs() override {
    if (meanwhile) std::exchange(meanwhile, nullptr)();
    return !is_replaced;
  }

  bool is_replaced = false;
  std::function<void()> meanwhile;  // called once, while the agent asks whether it was replaced
  std::vector<std::string> met;
  std::vector<std::string> lost;
  std::vector<std::string> vanished;
  std::vector<std::string> in_use;
  std::vector<std::string> freed;
  int not_kept = 0;
  int went_back = 0;
  std::atomic<int> failed_requests = 0;
};

inline ipam::HeldEntry EntryOf(int number) {
  return {.pod_namespace = "team-a",
          .pod = "web-" + std::to_string(number),
          .uid = "u",
          .attachment = ipam::TestAttachment(number),
          .interface = "eth0",
          .since_ms = 1,
          .node = {},
          .unknown = {}};
}
inline std::string TextOf(int number) { return ipam::FormatEntry(EntryOf(number)).value(); }

class OwnBlocksTest : public ::testing::Test {
 protected:
  ~OwnBlocksTest() override { std::filesystem::remove_all(folder_); }

  static constexpr std::size_t kStandby = 4;
  static inline const std::string kBlocks{crds::kBlocksPath};
  static inline const std::string kName = "10.55.0.0-26";

  [[nodiscard]] SteadyTime Soon() { return clock_.Now() + std::chrono::seconds(60); }

  // Creates a block that no agent knows yet.
  void PutBlock() {
    const auto created = api_.Call(
        {.method = k8sclient::Method::kPost, .path = kBlocks, .body = crds::BlockToJson(NewBlock()).dump()}, {});
    EXPECT_TRUE(created->ok()) << created->body;
  }
  // Creates a block, and the agent of this node takes it over.
  ipam::BlockView MakeBlock() {
    PutBlock();
    EXPECT_TRUE(Fence(own_).has_value());
    return Stored();
  }
  // A directory without notes. An agent with a directory of its own knows nothing of what other agents handed out.
  [[nodiscard]] node::NodeDirectory NewDirectory() {
    return node::NodeDirectory::Open(folder_ + "/" + std::to_string(++directories_), "n1", "https://model").value();
  }
  Expected<void> Fence(OwnBlocks& agent) { return agent.Fence(Stored(), Soon()); }
  // Deletes an empty block like the controller.
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

  // An ADD that takes an address of the pool, if possible one on standby.
  [[nodiscard]] ipam::Change Taking(int number) const {
    const auto pool = std::make_shared<const ipam::Pool>(pool_);
    return {.attachment = ipam::TestAttachment(number),
            .what = ipam::TakeAddress{.pool = pool, .entry = EntryOf(number)},
            .may_take_standby = true,
            .standby = ipam::StandbyPlan{.pool = pool}};
  }
  static ipam::Change Release(int number) {
    const ipam::Attachment attachment = ipam::TestAttachment(number);
    return {.attachment = attachment, .what = ipam::ReleaseAddresses{.attachments = {attachment}}};
  }
  // An ADD that is written before it is answered.
  Expected<ipam::BlockView> Add(int number, OwnBlocks* agent = nullptr) {
    ipam::Change change = Taking(number);
    change.may_take_standby = false;
    return (agent == nullptr ? own_ : *agent).Edit(Named(), change, Soon());
  }
  ipam::BlockView HandOut(int number, OwnBlocks* agent = nullptr) {
    ipam::Change change = Taking(number);
    change.standby.reset();
    return (agent == nullptr ? own_ : *agent).HandOut(Named(), change);
  }
  [[nodiscard]] bool Holds(int number) const { return own_.Holds(ipam::TestAttachment(number)); }
  [[nodiscard]] bool IsStored(int number) const {
    const ipam::BlockView block = Stored();
    return block != nullptr && ipam::Find(*block, ipam::TestAttachment(number));
  }
  // An empty `text` means: no entry.
  static void SetText(ipam::Block& block, ipam::BlockOffset offset, const std::string& text) {
    block.allocations.erase(offset);
    if (!text.empty()) block.allocations[offset] = text;
  }
  // The agent writes these entries.
  void Write(const std::map<ipam::BlockOffset, std::string>& texts) {
    ASSERT_TRUE(own_.Edit(Named(), {.what = ipam::SetEntries{texts}}, Soon()).has_value());
  }
  // Like the maintenance loop of the agent.
  void WriteWhatIsLeft() {
    own_.WriteHandedOut();
    static_cast<void>(own_.Edit(Named(), {}, Soon()));
  }

  const std::string folder_ =
      std::filesystem::temp_directory_path() / ("berth-own-blocks-test." + std::to_string(getpid()));
  int directories_ = 0;
  const node::NodeDirectory directory_ = NewDirectory();  // of own_
  ipam::Pool pool_ = ipam::TestPool("p1", "10.55.0.0/24");
  k8sclient::testing::FakeClock clock_;
  k8sclient::testing::ModelApi api_;
  BlockWitness seen_;
  OwnBlocks own_{api_, clock_, directory_, {.self = {.node = "n1", .instance = "m-me"}, .standby = kStandby}, seen_};

 private:
  [[nodiscard]] ipam::Block NewBlock() const {
    return ipam::NewBlock(pool_, ipam::Prefix::Parse("10.55.0.0/26").value(), "n1");
  }
  [[nodiscard]] ipam::BlockView Named() const { return std::make_shared<const ipam::Block>(NewBlock()); }
};

}  // namespace berth::agent
