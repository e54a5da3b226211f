// SPDX-License-Identifier: Apache-2.0
// Tests OwnBlocks with restored backups: the agent writes what it knows again.
#include <map>
#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "agent/own_blocks.h"
#include "agent/own_blocks_test_setup.h"
#include "ipam/engine_test_setup.h"
#include "k8sclient/testing/model_api.h"

namespace berth::agent {
namespace {

using ipam::TestAttachment;
using k8sclient::Method;
using OwnBlocksBackupTest = OwnBlocksTest;

TEST_F(OwnBlocksBackupTest, RestoresEntriesThatARestoredBackupLacks) {
  MakeBlock();
  ASSERT_TRUE(Add(1).has_value());
  const auto backup = api_.TakeBackup();
  ASSERT_TRUE(Add(2).has_value());
  ASSERT_NE(HandOut(3), nullptr);
  api_.Restore(*backup);
  const auto refused = Add(4);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(CniCode(refused.error().code), 11U) << refused.error().message;
  EXPECT_EQ(HandOut(5), nullptr) << "nothing is handed out before a write succeeded";
  EXPECT_EQ(seen_.went_back, 1);
  WriteWhatIsLeft();
  for (const int number : {1, 2, 3}) EXPECT_TRUE(IsStored(number)) << number;
  EXPECT_TRUE(Add(4).has_value());
  EXPECT_NE(HandOut(5), nullptr);
}

TEST_F(OwnBlocksBackupTest, RestoresEntriesAfterAListWithoutACall) {
  MakeBlock();
  ASSERT_TRUE(Add(1).has_value());
  const auto backup = api_.TakeBackup();
  ASSERT_TRUE(Add(2).has_value());
  constexpr std::uint64_t kBump = 1000;
  api_.Restore(*backup, kBump);
  ASSERT_TRUE(own_.ObserveListed(kName, VersionOf(*Stored()), Soon()).has_value());
  WriteWhatIsLeft();
  EXPECT_TRUE(IsStored(2));
}

TEST_F(OwnBlocksBackupTest, AListThatIsOlderThanTheBlockChangesNothing) {
  MakeBlock();
  const std::uint64_t then = VersionOf(*Stored());
  ASSERT_TRUE(Add(1).has_value());
  const int before = api_.CountOf(Method::kPatch);
  ASSERT_TRUE(own_.ObserveListed(kName, then, Soon()).has_value());
  EXPECT_EQ(api_.CountOf(Method::kPatch), before);
}

// Entries by offset when the backup was taken, and when it was restored.
struct BackupCase {
  const char* name;
  std::map<ipam::BlockOffset, std::string> then;
  std::map<ipam::BlockOffset, std::string> now;
};

class RestoredBackupTest : public OwnBlocksTest, public testing::WithParamInterface<BackupCase> {};

TEST_P(RestoredBackupTest, TheAgentWritesWhatItKnows) {
  MakeBlock();
  Write(GetParam().then);
  const auto backup = api_.TakeBackup();
  Write(GetParam().now);
  api_.Restore(*backup);
  ASSERT_FALSE(Add(9).has_value());
  WriteWhatIsLeft();
  for (const auto& [offset, text] : GetParam().now) EXPECT_EQ(agent_core::TextAt(*Stored(), offset), text) << offset;
}

// Like "etcdutl snapshot restore --bump-revision". The controller has to find entries that were freed since the backup.
TEST_P(RestoredBackupTest, RestoresHeldEntriesIfVersionsGoOn) {
  MakeBlock();
  Write(GetParam().now);
  ASSERT_TRUE(api_.Change(kBlocks, kName, [](nlohmann::json& block) {
    nlohmann::json entries = block.value("allocations", nlohmann::json::object());
    for (const auto& [offset, text] : GetParam().then) {
      entries.erase(std::to_string(offset));
      if (!text.empty()) entries[std::to_string(offset)] = text;
    }
    block["used"] = entries.size();
    block["allocations"] = std::move(entries);
  }));
  own_.Observe(Stored(), Soon());
  WriteWhatIsLeft();
  for (const auto& [offset, text] : GetParam().now) {
    if (ipam::AttachmentOf(text).empty()) continue;
    EXPECT_EQ(agent_core::TextAt(*Stored(), offset), text) << offset;
  }
}

const BackupCase kBackupCases[] = {
    {"HeldThatWasFree", {{1, ""}}, {{1, TextOf(1)}}},
    {"FreeThatWasHeld", {{1, TextOf(1)}}, {{1, ""}}},
    {"CoolingThatWasHeld", {{1, TextOf(1)}}, {{1, "~ t=99999999999999"}}},
    {"HeldThatWasCooling", {{1, "~ t=1"}}, {{1, TextOf(1)}}},
    {"HeldThatWasReserved", {{1, "! tea"}}, {{1, TextOf(1)}}},
    {"HeldByAnotherOne", {{1, TextOf(1)}}, {{1, TextOf(2)}}},
    {"MovedUpwards", {{1, TextOf(1)}, {7, ""}}, {{1, TextOf(2)}, {7, TextOf(1)}}},
    {"MovedDownwards", {{1, ""}, {7, TextOf(1)}}, {{1, TextOf(1)}, {7, TextOf(2)}}},
};
INSTANTIATE_TEST_SUITE_P(Table, RestoredBackupTest, testing::ValuesIn(kBackupCases),
                         [](const auto& c) { return std::string(c.param.name); });

TEST_F(OwnBlocksBackupTest, DoesNotReportEntriesThatAPatchWithALostAnswerRemoved) {
  MakeBlock();
  Write({{1, TextOf(1)}});
  const auto backup = api_.TakeBackup();
  Write({{1, TextOf(2)}});
  api_.Restore(*backup);
  ASSERT_FALSE(Add(9).has_value());
  int patches = 0;
  api_.SetFaults([&patches](const k8sclient::Request& request) {
    const bool is_first = request.method == Method::kPatch && patches++ == 0;
    return is_first ? k8sclient::testing::ApiFault::kLostAfterCommit : k8sclient::testing::ApiFault::kNone;
  });
  WriteWhatIsLeft();
  EXPECT_GT(patches, 0);
  EXPECT_THAT(seen_.vanished, testing::ElementsAre(TextOf(2))) << "by the backup";
  EXPECT_EQ(agent_core::TextAt(*Stored(), 1), TextOf(2));
}

TEST_F(OwnBlocksBackupTest, KeepsAddressesFreeThatTheControllerFreedAfterABackup) {
  MakeBlock();
  Write({{1, TextOf(1)}});
  const auto backup = api_.TakeBackup();
  for (const int number : {2, 3}) ASSERT_TRUE(Add(number).has_value());
  api_.Restore(*backup);
  const std::string freed = "~ t=99999999999999 f=" + TestAttachment(1);
  ASSERT_TRUE(api_.Change(kBlocks, kName, [&freed](nlohmann::json& block) { block["allocations"]["1"] = freed; }));
  ASSERT_FALSE(Add(9).has_value());
  WriteWhatIsLeft();
  EXPECT_EQ(agent_core::TextAt(*Stored(), 1), freed);
  EXPECT_TRUE(IsStored(3));
}

// Each attempt makes one write and one read, and thousands of agents meet the restored API server at once.
TEST_F(OwnBlocksBackupTest, DoesNotRetryAtOnceAfterARestoredBackup) {
  MakeBlock();
  const auto backup = api_.TakeBackup();
  ASSERT_TRUE(Add(1).has_value());
  api_.Restore(*backup);
  const int before = api_.CountOf(Method::kPatch) + api_.CountOf(Method::kGet);
  ASSERT_FALSE(Add(2).has_value());
  EXPECT_EQ(api_.CountOf(Method::kPatch) + api_.CountOf(Method::kGet) - before, 2);
}

TEST_F(OwnBlocksBackupTest, ReportsTheEntriesOfABlockThatTheBackupLacks) {
  const auto backup = api_.TakeBackup();
  MakeBlock();
  ASSERT_TRUE(Add(1).has_value());
  ASSERT_NE(HandOut(2), nullptr);
  api_.Restore(*backup);
  EXPECT_FALSE(Add(3).has_value());
  EXPECT_THAT(seen_.lost, testing::UnorderedElementsAre(testing::HasSubstr("web-1"), testing::HasSubstr("web-2")));
}

TEST_F(OwnBlocksBackupTest, KeepsEntriesThatASuccessorWroteAfterABackup) {
  MakeBlock();
  ASSERT_TRUE(Add(1).has_value());
  const auto backup = api_.TakeBackup();
  for (const int number : {2, 3, 4, 5, 6}) ASSERT_TRUE(Add(number).has_value());
  api_.Restore(*backup);
  BlockWitness successor_seen;
  OwnBlocks successor(api_, clock_, NewDirectory(), {.self = {.node = "n1", .instance = "m-next"}}, successor_seen);
  ASSERT_TRUE(Fence(successor).has_value());
  ASSERT_TRUE(Add(7, &successor).has_value());
  seen_.is_replaced = true;
  ASSERT_FALSE(Add(9).has_value());
  WriteWhatIsLeft();
  EXPECT_TRUE(IsStored(7));
}

TEST_F(OwnBlocksBackupTest, KeepsEntriesThatAForeignAgentWroteAfterABackup) {
  MakeBlock();
  ASSERT_TRUE(Add(1).has_value());
  const auto backup = api_.TakeBackup();
  for (const int number : {2, 3, 4, 5, 6}) ASSERT_TRUE(Add(number).has_value());
  api_.Restore(*backup);
  BlockWitness other_seen;
  OwnBlocks other(api_, clock_, NewDirectory(), {.self = {.node = "n1", .instance = "other-1"}}, other_seen);
  ASSERT_TRUE(Fence(other).has_value());
  ASSERT_TRUE(Add(7, &other).has_value());
  ASSERT_FALSE(Add(9).has_value());
  WriteWhatIsLeft();
  for (const int number : {6, 7}) EXPECT_TRUE(IsStored(number)) << number;
}

}  // namespace
}  // namespace berth::agent
