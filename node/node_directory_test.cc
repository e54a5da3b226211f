// SPDX-License-Identifier: Apache-2.0
// NodeDirectory: how the processes of one node share locks, notes, and versions of API servers.
#include "node/node_directory.h"

#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <stop_token>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

namespace berth::node {
namespace {

class NodeDirectoryTest : public testing::Test {
 protected:
  ~NodeDirectoryTest() override { std::filesystem::remove_all(path_); }
  // A process that reaches the API server by the URL `server`.
  [[nodiscard]] NodeDirectory At(std::string_view server) const {
    return NodeDirectory::Open(path_, "n1", server).value();
  }

  const std::string path_ =
      std::filesystem::temp_directory_path() / ("berth-directory-test." + std::to_string(getpid()));
  const NodeDirectory a_ = At("https://a");
  const NodeDirectory b_ = At("https://b");
};

TEST_F(NodeDirectoryTest, IsTheSameForEveryUrlOfTheApiServer) { EXPECT_EQ(a_.path(), b_.path()); }

TEST_F(NodeDirectoryTest, OneProcessAtATimeHoldsTheLock) {
  HeldFile held = a_.Lock(0).value();
  EXPECT_EQ(b_.Lock(BootTimeNow()).error().code, ErrorCode::kTimeout);
  EXPECT_EQ(b_.LockShared().error().code, ErrorCode::kTimeout);
  held.Close();
  EXPECT_TRUE(b_.Lock(0).has_value());
}

TEST_F(NodeDirectoryTest, TheLockIsSharedByAgents) {
  HeldFile older = a_.LockShared().value();
  HeldFile newer = b_.LockShared().value();
  older.Close();
  EXPECT_FALSE(a_.Lock(0).has_value());
  newer.Close();
  EXPECT_TRUE(a_.Lock(0).has_value());
}

TEST_F(NodeDirectoryTest, OneInstanceOwnsTheNode) {
  ASSERT_TRUE(a_.BecomeNodeOwner("first"));
  EXPECT_TRUE(b_.HoldNodeOwnership("first"));
  ASSERT_TRUE(b_.BecomeNodeOwner("second"));
  EXPECT_EQ(a_.HoldNodeOwnership("first").error().code, ErrorCode::kUnavailable);
}

TEST_F(NodeDirectoryTest, IfTheFileOfTheOwnerIsRemovedTheOwnerIsUnknown) {
  ASSERT_TRUE(a_.BecomeNodeOwner("first"));
  EXPECT_FALSE(a_.IsLost());
  std::filesystem::remove(a_.path() + "/creator");
  EXPECT_EQ(a_.HoldNodeOwnership("first").error().code, ErrorCode::kIo);
  EXPECT_TRUE(a_.IsLost());
}

TEST_F(NodeDirectoryTest, ARemovedFolderOfFilesIsALoss) {
  for (const char* const folder : {"intents", "handed-out", "deleted", "running"}) {
    const auto directory = NodeDirectory::Open(a_.path() + "/" + folder, "n1", "s");
    ASSERT_TRUE(directory.has_value() && directory->BecomeNodeOwner("first"));
    std::filesystem::remove_all(directory->path() + "/" + folder);
    EXPECT_TRUE(directory->IsLost()) << folder;
  }
}

TEST_F(NodeDirectoryTest, AnAddCountsAsRunningUntilItsEndIsBeforeTheAskedTime) {
  const ipam::Attachment attachment = "0123456789ab-aaaaaaaaaaaaaaaa";
  const std::set<ipam::Attachment> its = {attachment};
  const std::set<ipam::Attachment> none = {};
  HeldFile running = a_.HoldRunning(attachment).value();
  const BootNanos later = BootTimeNow() + kNanosPerSecond;
  EXPECT_EQ(a_.ReadRunning(later).value(), its) << "its process lives";
  const BootNanos before_end = BootTimeNow();
  NodeDirectory::NoteEnd(running);
  running.Close();
  EXPECT_EQ(a_.ReadRunning(before_end).value(), its);
  EXPECT_EQ(a_.ReadRunning(later).value(), none);
}

// The ADD's process was killed before it called NoteEnd, and its caller may have the answer.
TEST_F(NodeDirectoryTest, AnAddThatWasKilledCountsFromItsBeginning) {
  const ipam::Attachment attachment = "0123456789ab-aaaaaaaaaaaaaaaa";
  const BootNanos before = BootTimeNow();
  a_.HoldRunning(attachment).value().Close();
  EXPECT_EQ(a_.ReadRunning(before).value(), std::set<ipam::Attachment>{attachment});
  EXPECT_EQ(a_.ReadRunning(BootTimeNow() + 1).value(), std::set<ipam::Attachment>{});
}

// The container ended, and the runtime sent no DEL.
TEST_F(NodeDirectoryTest, AnAddThatEndedLongAgoGoesWithTheMarksOfDels) {
  constexpr BootNanos kHour = 3600 * kNanosPerSecond;
  const ipam::Attachment ended = "0123456789ab-aaaaaaaaaaaaaaaa";
  const ipam::Attachment lives = "0123456789ab-bbbbbbbbbbbbbbbb";
  const ipam::Attachment ended_now = "0123456789ab-cccccccccccccccc";
  HeldFile old = a_.HoldRunning(ended).value();
  const HeldFile held = a_.HoldRunning(lives).value();
  // Use a time in the future, like one from before a reboot: this machine may run for less than an hour, so no time in
  // the past is old enough.
  const timespec time{.tv_sec = (BootTimeNow() + kHour) / kNanosPerSecond, .tv_nsec = 0};
  for (const int descriptor : {old.descriptor(), held.descriptor()}) {
    ASSERT_EQ(futimens(descriptor, std::array{time, time}.data()), 0);
  }
  old.Close();
  a_.HoldRunning(ended_now).value().Close();
  ASSERT_TRUE(a_.MarkDeleted("0123456789ab-dddddddddddddddd", BootTimeNow()));
  const auto is_there = [this](const ipam::Attachment& one) {
    return std::filesystem::exists(a_.path() + "/running/" + one);
  };
  EXPECT_FALSE(is_there(ended));
  EXPECT_TRUE(is_there(lives));
  EXPECT_TRUE(is_there(ended_now));
}

TEST_F(NodeDirectoryTest, AnAddThatEndedNoLongerCountsOnceItIsForgotten) {
  const ipam::Attachment attachment = "0123456789ab-aaaaaaaaaaaaaaaa";
  const BootNanos before = BootTimeNow();
  a_.HoldRunning(attachment).value().Close();
  a_.ForgetRunning(attachment);
  EXPECT_EQ(a_.ReadRunning(before).value(), std::set<ipam::Attachment>{});
}

// A runtime uses a container ID again at once. The ADD of the new container runs while the DEL of the earlier one does.
TEST_F(NodeDirectoryTest, AnAddThatRunsStillCountsAfterADelOfAnEarlierContainer) {
  const ipam::Attachment attachment = "0123456789ab-aaaaaaaaaaaaaaaa";
  const HeldFile running = a_.HoldRunning(attachment).value();
  b_.ForgetRunning(attachment);
  EXPECT_EQ(a_.ReadRunning(BootTimeNow()).value(), std::set<ipam::Attachment>{attachment});
}

TEST_F(NodeDirectoryTest, AnAddThatRunsCountsHoweverManyDelsOfEarlierContainersComeAtOnce) {
  const ipam::Attachment attachment = "0123456789ab-aaaaaaaaaaaaaaaa";
  const auto forget = [&](const std::stop_token& stop) {
    while (!stop.stop_requested()) b_.ForgetRunning(attachment);
  };
  const std::array<std::jthread, 2> dels = {std::jthread(forget), std::jthread(forget)};
  for (int i = 0; i < 20'000; ++i) {
    const HeldFile running = a_.HoldRunning(attachment).value();
    ASSERT_EQ(a_.ReadRunning(BootTimeNow()).value(), std::set<ipam::Attachment>{attachment}) << i;
  }
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

// The version of the object may be older than a write of this node whose version is unknown.
TEST_F(NodeDirectoryTest, RaiseVersionLeavesAnUnknownVersionUnknown) {
  a_.WriteVersion("107");
  a_.RaiseVersion("109");
  EXPECT_EQ(a_.ReadVersion(), "109");
  a_.WriteVersion("");
  a_.RaiseVersion("109");
  EXPECT_EQ(a_.ReadVersion(), "");
}

TEST_F(NodeDirectoryTest, AVersionOfAnotherApiServerCountsAsUnknownAndGivesWay) {
  a_.WriteVersion("107");
  EXPECT_EQ(b_.ReadVersion(), "");
  b_.WriteVersion("5");
  EXPECT_EQ(b_.ReadVersion(), "5");
  EXPECT_EQ(a_.ReadVersion(), "");
}

HandedOut Sample() {
  return {.attachment = "26992702a01b-0123456789abcdef",
          .block = "10.55.0.0-26",
          .uid = "b",
          .offset = 7,
          .entry = "ns/pod u 26992702a01b-0123456789abcdef i=eth0 t=1"};
}

TEST_F(NodeDirectoryTest, ANoteOfAnAddressIsKeptUntilItIsForgotten) {
  const HandedOut one = Sample();
  ASSERT_TRUE(a_.NoteHandedOut(one).has_value());
  EXPECT_EQ(b_.ReadHandedOut(), std::vector{one});
  std::string text;
  std::ifstream file(a_.path() + "/handed-out/" + one.attachment + "." + one.block);
  std::getline(file, text);
  EXPECT_EQ(text,
            R"({"attachment":"26992702a01b-0123456789abcdef","block":"10.55.0.0-26",)"
            R"("entry":"ns/pod u 26992702a01b-0123456789abcdef i=eth0 t=1","offset":7,"uid":"b"})")
      << "an agent of another version reads the file";
  a_.ForgetHandedOut(one.attachment, one.block);
  EXPECT_TRUE(b_.ReadHandedOut()->empty());
}

// The DEL may have failed, so the container may still have the address.
TEST_F(NodeDirectoryTest, ADelKeepsTheNoteOfAnAddress) {
  const HandedOut one = Sample();
  ASSERT_TRUE(a_.NoteHandedOut(one).has_value());
  ASSERT_TRUE(a_.MarkDeleted(one.attachment, BootTimeNow()).has_value());
  EXPECT_EQ(a_.ReadHandedOut(), std::vector{one});
}

TEST_F(NodeDirectoryTest, AnIntentNamesABlockAndLeavesOutItsEntries) {
  const ipam::Attachment attachment = "0123456789ab-aaaaaaaaaaaaaaaa";
  ipam::Pool pool;
  pool.name = "p1";
  pool.uid = "uid-of-p1";
  ipam::Block block = ipam::NewBlock(pool, *ipam::Prefix::Parse("10.55.0.0/26"), "n1");
  block.resource_version = "7";
  block.allocations[3] = "! r";
  ASSERT_TRUE(a_.OpenIntent(attachment, block).has_value());
  const auto intents = a_.ReadIntents(attachment).value();
  ASSERT_EQ(intents.size(), 1U);
  EXPECT_EQ(intents[0].block.name, block.name);
  EXPECT_EQ(intents[0].block.node, "n1");
  EXPECT_EQ(intents[0].block.resource_version, "7");
  EXPECT_TRUE(intents[0].block.allocations.empty());
}

// A file that cannot be read, for example because the process has too many open files, is not a missing file. In these
// tests a symbolic link stands for such a file.
class UnreadableFileTest : public NodeDirectoryTest {
 protected:
  void PutUnreadable(const std::string& name) const {
    std::filesystem::create_symlink("nowhere", a_.path() + "/" + name);
  }
  // True: the result is an error that names the file.
  template <typename T>
  static bool IsErrorAbout(const Expected<T>& read, const std::string& name) {
    return !read && read.error().code == ErrorCode::kIo && read.error().message.find(name) != std::string::npos;
  }

  const ipam::Attachment attachment_ = "0123456789ab-aaaaaaaaaaaaaaaa";
};

TEST_F(UnreadableFileTest, AnIntentIsNotClosed) {
  ipam::Block block;
  block.name = "10.55.0.0-26";
  PutUnreadable("intents/" + attachment_ + ".10.55.0.0-26");
  EXPECT_TRUE(IsErrorAbout(a_.ReadIntents(attachment_ + "."), "10.55.0.0-26"));
  EXPECT_TRUE(IsErrorAbout(a_.ReadIntent(attachment_, block), "10.55.0.0-26"));
}

TEST_F(UnreadableFileTest, AMarkOfADelRefusesTheAddsThatStartedBeforeTheNextDelReplacesIt) {
  PutUnreadable("deleted/" + attachment_);
  EXPECT_TRUE(IsErrorAbout(a_.DeletedAt(attachment_), attachment_));
  const BootNanos before = BootTimeNow();
  EXPECT_TRUE(a_.MarkDeleted(attachment_, 1).has_value());
  const auto marked = a_.DeletedAt(attachment_);
  ASSERT_TRUE(marked.has_value() && marked->has_value());
  EXPECT_GE(**marked, before);
}

TEST_F(UnreadableFileTest, AMarkOfADelIsNotRemovedAsOld) {
  PutUnreadable("deleted/" + attachment_);
  ASSERT_TRUE(a_.MarkDeleted("0123456789ab-bbbbbbbbbbbbbbbb", BootTimeNow()));
  EXPECT_TRUE(std::filesystem::is_symlink(a_.path() + "/deleted/" + attachment_));
}

TEST_F(UnreadableFileTest, AnAddMayStillRun) {
  PutUnreadable("running/" + attachment_);
  EXPECT_TRUE(IsErrorAbout(a_.ReadRunning(0), attachment_));
}

TEST_F(UnreadableFileTest, TheOwnerOfTheNodeIsNobodyUntilAnAgentTakesOver) {
  PutUnreadable("creator");
  EXPECT_EQ(a_.HoldNodeOwnership("first").error().code, ErrorCode::kUnavailable);
  ASSERT_TRUE(a_.BecomeNodeOwner("second").has_value());
  EXPECT_TRUE(a_.HoldNodeOwnership("second").has_value());
}

TEST_F(UnreadableFileTest, TheTimeOfTheLastCleaningIsReplaced) {
  PutUnreadable("forgot");
  ASSERT_TRUE(a_.MarkDeleted(attachment_, BootTimeNow()));
  EXPECT_FALSE(std::filesystem::is_symlink(a_.path() + "/forgot"));
}

TEST_F(NodeDirectoryTest, AMissingFolderOfNotesIsAnErrorAndNotAnEmptyList) {
  std::filesystem::remove_all(a_.path() + "/handed-out");
  EXPECT_FALSE(a_.ReadHandedOut().has_value());
}

TEST_F(NodeDirectoryTest, ANoteOfAnAddressThatCannotBeReadIsAnError) {
  for (const char* text : {"",
                           "[]",
                           R"({"attachment": "x", "offset": -1})",
                           R"({"attachment": "x", "block": "b", "uid": "u", "offset": -1, "entry": "e"})",
                           R"({"attachment": "x", "block": "b", "uid": "u", "offset": 7.5, "entry": "e"})",
                           R"({"attachment": "x", "block": "b", "uid": 1, "offset": 7, "entry": "e"})"}) {
    std::ofstream(a_.path() + "/handed-out/x.y") << text;
    const auto read = a_.ReadHandedOut();
    ASSERT_FALSE(read.has_value()) << text;
    EXPECT_NE(read.error().message.find("handed-out/x.y"), std::string::npos) << read.error().message;
  }
}

}  // namespace
}  // namespace berth::node
