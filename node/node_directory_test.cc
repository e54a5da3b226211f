// SPDX-License-Identifier: Apache-2.0
// Processes of one node that leave something for one another: locks, versions of several API servers, agents.
#include "node/node_directory.h"

#include <filesystem>
#include <fstream>
#include <map>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

namespace berth::node {
namespace {

class NodeDirectoryTest : public testing::Test {
 protected:
  ~NodeDirectoryTest() override { std::filesystem::remove_all(path_); }
  // A process that reaches the API server by that name.
  [[nodiscard]] NodeDirectory At(std::string_view server) const {
    return NodeDirectory::Open(path_, "n1", server).value();
  }

  const std::string path_ =
      std::filesystem::temp_directory_path() / ("berth-directory-test." + std::to_string(getpid()));
  const NodeDirectory a_ = At("https://a");
  const NodeDirectory b_ = At("https://b");
};

TEST_F(NodeDirectoryTest, IsTheSameByWhateverNameTheApiServerIsReached) { EXPECT_EQ(a_.path(), b_.path()); }

TEST_F(NodeDirectoryTest, TheLockIsHadByOneAtATime) {
  HeldFile held = a_.TryLock().value();
  EXPECT_TRUE(held.is_open());
  EXPECT_FALSE(b_.TryLock()->is_open());
  EXPECT_EQ(b_.Lock(BootTimeNow()).error().code, ipam::ErrorCode::kTimeout);
  held.Close();
  EXPECT_TRUE(b_.TryLock()->is_open());
}

TEST_F(NodeDirectoryTest, AVersionIsKept) {
  EXPECT_EQ(a_.ReadVersion(), "");
  a_.WriteVersion("107");
  EXPECT_EQ(a_.ReadVersion(), "107");
}

TEST_F(NodeDirectoryTest, AVersionIsNotSetBack) {
  a_.WriteVersion("107");
  a_.WriteVersion("105");
  EXPECT_EQ(a_.ReadVersion(), "107");
}

TEST_F(NodeDirectoryTest, AVersionCanBeForgotten) {
  a_.WriteVersion("107");
  a_.WriteVersion("");
  EXPECT_EQ(a_.ReadVersion(), "");
  a_.WriteVersion("105");
  EXPECT_EQ(a_.ReadVersion(), "105");
}

TEST_F(NodeDirectoryTest, AVersionOfAnotherApiServerCountsAsUnknownAndGivesWay) {
  a_.WriteVersion("107");
  EXPECT_EQ(b_.ReadVersion(), "");
  b_.WriteVersion("5");
  EXPECT_EQ(b_.ReadVersion(), "5");
  EXPECT_EQ(a_.ReadVersion(), "");
}

TEST_F(NodeDirectoryTest, TheLastWriteIsAnotherOneAfterEachChange) {
  a_.WriteVersion("107");
  const std::string before = b_.LastWrite();
  EXPECT_NE(before, "");
  a_.WriteVersion("108");
  EXPECT_NE(b_.LastWrite(), before);
}

TEST_F(NodeDirectoryTest, TheLastWriteDoesNotComeBackWithTheVersion) {
  a_.WriteVersion("107");
  const std::string before = a_.LastWrite();
  b_.WriteVersion("108");
  a_.WriteVersion("107");
  const std::string after = a_.LastWrite();
  EXPECT_NE(after, before);
  a_.WriteVersion("");
  a_.WriteVersion("107");
  EXPECT_NE(a_.LastWrite(), after);
}

TEST_F(NodeDirectoryTest, AnAgentLivesUntilTheLastOneIsGone) {
  EXPECT_FALSE(a_.HasAgent());
  HeldFile older = a_.HoldAgent().value();
  HeldFile newer = b_.HoldAgent().value();
  EXPECT_TRUE(a_.HasAgent());
  older.Close();
  EXPECT_TRUE(a_.HasAgent());
  newer.Close();
  EXPECT_FALSE(a_.HasAgent());
}

TEST_F(NodeDirectoryTest, AnAgentIsToBeFencedOnce) {
  EXPECT_EQ(a_.UnfencedCreator(), "");
  ASSERT_TRUE(a_.BecomeCreator("first").has_value());
  EXPECT_EQ(b_.UnfencedCreator(), "first");
  b_.NoteFenced("first");
  EXPECT_EQ(a_.UnfencedCreator(), "");
  ASSERT_TRUE(a_.BecomeCreator("second").has_value());
  EXPECT_EQ(a_.UnfencedCreator(), "second");
}

TEST_F(NodeDirectoryTest, AnAddHasRunUntilItIsForgotten) {
  EXPECT_FALSE(a_.HasRun("x-y"));
  ASSERT_TRUE(a_.HoldRunning("x-y")->is_open());
  EXPECT_TRUE(b_.HasRun("x-y"));
  b_.ForgetRunning("x-y");
  EXPECT_FALSE(a_.HasRun("x-y"));
}

HandedOut Sample() {
  return {.attachment = "26992702a01b-0123456789abcdef",
          .block = "10.55.0.0-26",
          .block_uid = "b",
          .offset = 7,
          .entry = "ns/pod u 26992702a01b-0123456789abcdef i=eth0 t=1"};
}

TEST_F(NodeDirectoryTest, WhatWasHandedOutIsKeptUntilItIsForgotten) {
  const HandedOut one = Sample();
  ASSERT_TRUE(a_.NoteHandedOut(one).has_value());
  EXPECT_EQ(b_.ReadHandedOut(), std::vector{one});
  a_.ForgetHandedOut(one.attachment, one.block);
  EXPECT_TRUE(b_.ReadHandedOut()->empty());
}

TEST_F(NodeDirectoryTest, OfAnAttachmentAllIsForgottenAtOnce) {
  HandedOut one = Sample();
  ASSERT_TRUE(a_.NoteHandedOut(one).has_value());
  one.block = "2001-db8---122";
  ASSERT_TRUE(a_.NoteHandedOut(one).has_value());
  a_.ForgetHandedOut(one.attachment);
  EXPECT_TRUE(a_.ReadHandedOut()->empty());
}

// A DEL of it may have failed: the address is the container's still.
TEST_F(NodeDirectoryTest, WhatWasHandedOutBeforeADelIsKept) {
  const HandedOut one = Sample();
  ASSERT_TRUE(a_.NoteHandedOut(one).has_value());
  ASSERT_TRUE(a_.MarkDeleted(one.attachment, BootTimeNow()).has_value());
  EXPECT_EQ(a_.ReadHandedOut(), std::vector{one});
}

TEST_F(NodeDirectoryTest, NotesThatCannotBeReadAreNotNoNotes) {
  std::filesystem::remove_all(a_.path() + "/handed-out");
  EXPECT_FALSE(a_.ReadHandedOut().has_value());
}

TEST_F(NodeDirectoryTest, ANoteOfAnAddressThatCannotBeReadIsAnError) {
  std::ofstream(a_.path() + "/handed-out/x.y") << R"({"attachment": "x", "offset": -1})";
  const auto read = a_.ReadHandedOut();
  ASSERT_FALSE(read.has_value());
  EXPECT_NE(read.error().message.find("handed-out/x.y"), std::string::npos) << read.error().message;
}

struct WriteCase {
  const char* name;
  std::map<ipam::BlockOffset, std::string> before;
  const char* uid;
  std::map<ipam::BlockOffset, std::string> want;
};
class WriteHandedOutTest : public testing::TestWithParam<WriteCase> {};

TEST_P(WriteHandedOutTest, PutsTheEntryWhereItBelongs) {
  ipam::Block block;
  block.cidr = ipam::Prefix::Parse("10.55.0.0/26").value();
  block.uid = GetParam().uid;
  block.allocations = GetParam().before;
  block.standby = {7, 8};
  WriteHandedOut(block, {Sample()});
  EXPECT_EQ(block.allocations, GetParam().want);
  EXPECT_TRUE(block.standby.empty());
}

const WriteCase kWriteCases[] = {
    {"IntoItsBlock", {}, "b", {{7, Sample().entry}}},
    {"NotIntoAnotherBlockOfThatName", {}, "c", {}},
    {"NotWhereTheAttachmentIsAlready", {{9, Sample().entry}}, "b", {{9, Sample().entry}}},
    {"NotOverAnotherEntry", {{7, "?"}}, "b", {{7, "?"}}},
};
INSTANTIATE_TEST_SUITE_P(Table, WriteHandedOutTest, testing::ValuesIn(kWriteCases),
                         [](const auto& c) { return std::string(c.param.name); });

}  // namespace
}  // namespace berth::node
