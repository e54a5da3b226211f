// SPDX-License-Identifier: Apache-2.0
// Somebody removes files of /run/berth while the agent runs.
#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <mutex>
#include <set>
#include <string>
#include <system_error>
#include <vector>

#include "agent/agent.h"
#include "agent/standby_test_setup.h"
#include "cni/attachment.h"
#include "node/node_directory.h"

namespace berth::agent {
namespace {

class AgentFilesTest : public AgentTest {
 protected:
  void RemoveFilesUntilTheAgentEnds() const {
    Await(
        [this] {
          std::error_code busy;  // the agent may write a file meanwhile
          std::filesystem::remove_all(run_dir(), busy);
          return replaced_ == 1;
        },
        "it gives way");
  }
};

// In a removed folder, no other process would find the agent's files, nor wait for its locks.
TEST_F(AgentFilesTest, AnAgentWhoseFilesAreRemovedEndsAndTheNextServes) {
  StartAgent();
  ASSERT_TRUE(Add("c1").ok);
  RemoveFilesUntilTheAgentEnds();
  agent_.reset();
  StartAgent();
  EXPECT_TRUE(Add("c2").ok);
  EXPECT_EQ(Held().size(), 2U);
}

TEST_F(AgentFilesTest, AnAgentWhoseFilesAreRemovedWhileItLoadsEnds) {
  api_.SetFaults([](const k8sclient::Request&) { return ApiFault::kUnavailable; });
  StartAgent();
  const std::string owner = run_dir() + "/nodes/n1/creator";
  Await([&] { return std::filesystem::exists(owner); }, "the agent has taken over the node");
  RemoveFilesUntilTheAgentEnds();
}

// A DEL whose write gets no answer may take 20 s. The agent looks for its files after each such DEL.
TEST_F(AgentFilesTest, AnAgentNoticesRemovedFilesBetweenTwoDelsInDoubt) {
  StartAgent();
  const std::vector<std::string> pods = {"c1", "c2", "c3"};
  for (const std::string& pod : pods) ASSERT_TRUE(Add(pod, "shared").ok);
  api_.SetFaults([](const k8sclient::Request&) { return ApiFault::kUnavailable; });
  for (const std::string& pod : pods) EXPECT_TRUE(Del(pod).ok);
  std::mutex mutex;
  std::set<std::string> tried;  // offsets of the addresses
  api_.SetFaults([&](const k8sclient::Request& request) {
    if (request.method != k8sclient::Method::kPatch || !request.path.contains("10.66.0.0")) return ApiFault::kNone;
    const std::scoped_lock lock(mutex);
    std::filesystem::remove(run_dir() + "/nodes/n1/handed-out");
    const nlohmann::json patch = nlohmann::json::parse(request.body);
    const std::string offset = patch["allocations"].items().begin().key();
    return tried.insert(offset).second ? ApiFault::kLateCommit : ApiFault::kInvalid;
  });
  Await([this] { return replaced_ == 1; }, "the agent ends");
  api_.SetFaults(nullptr);
  const std::scoped_lock lock(mutex);
  EXPECT_EQ(tried.size(), 1U);
}

// One address is not written when the files go. The agent has to note the address again: otherwise the next agent
// would give the address to another pod.
class RemovedFilesTest : public StandbyTest {
 protected:
  void StartWithUnwrittenAddress() {
    StartWithStandby();
    FaultPatches(ApiFault::kUnavailable);
    ASSERT_TRUE(Add("c1").ok);
  }
  void RemoveFolder() const { RemoveFolder(run_dir()); }
  // Moves the folder away first, so that the agent finds no part of it.
  void RemoveFolder(const std::string& folder) const {
    const std::string moved = run_dir() + "-moved";
    std::filesystem::rename(folder, moved);
    AwaitRemoved(moved);
  }
  // The agent may still write files into a folder that it has open.
  void AwaitRemoved(const std::string& folder) const {
    std::error_code busy;
    Await([&] { return std::filesystem::remove_all(folder, busy) == 0; }, "the folder is removed");
  }
  void ExpectNoted() const {
    const auto notes = node::NodeDirectory::Open(run_dir(), "n1", "s")->ReadHandedOut();
    ASSERT_TRUE(notes.has_value());
    ASSERT_EQ(notes->size(), 1U);
    EXPECT_EQ(notes->front().attachment, cni::MakeAttachment("net", "c1", "eth0"));
  }
};

TEST_F(RemovedFilesTest, AreWrittenAgainIfTheFolderIsGone) {
  StartWithUnwrittenAddress();
  RemoveFolder();
  Await([this] { return replaced_ == 1; }, "the agent ends");
  ExpectNoted();
}

TEST_F(RemovedFilesTest, AreWrittenAgainIfTheAgentIsToldToEndBeforeItNotices) {
  StartWithUnwrittenAddress();
  agent_->BeginStop();
  RemoveFolder();
  agent_->Drain(std::chrono::milliseconds(0));
  ExpectNoted();
}

TEST_F(RemovedFilesTest, AreWrittenAgainIfOnlyTheirOwnFolderIsGone) {
  StartWithUnwrittenAddress();
  RemoveFolder(run_dir() + "/nodes/n1/handed-out");
  Await([this] { return replaced_ == 1; }, "the agent ends");
  ExpectNoted();
}

TEST_F(RemovedFilesTest, AreWrittenAgainIfTheFoldersStay) {
  StartWithUnwrittenAddress();
  for (const char* const file : {"/nodes/n1/creator", "/nodes/n1/creator.lock"}) {
    std::filesystem::remove(run_dir() + file);
  }
  RemoveFolder(run_dir() + "/nodes/n1/handed-out");
  Await([this] { return replaced_ == 1; }, "the agent ends");
  agent_->Drain(std::chrono::milliseconds(0));
  ExpectNoted();
}

// `rm -r` removes the file that names the owner, the agent notices it, and then `rm` goes on.
TEST_F(RemovedFilesTest, AreWrittenOnceMoreWhenTheAgentEnds) {
  StartWithUnwrittenAddress();
  std::filesystem::remove(run_dir() + "/nodes/n1/creator");
  Await([this] { return replaced_ == 1; }, "the agent ends");
  RemoveFolder();
  agent_->Drain(std::chrono::milliseconds(0));
  ExpectNoted();
}

// The successor has read the notes already, and may have given the address to another pod.
TEST_F(RemovedFilesTest, AreNotWrittenForASuccessor) {
  StartWithUnwrittenAddress();
  agent_->BeginStop();
  const std::string of_successor = run_dir() + "-of-successor";
  const auto anew = node::NodeDirectory::Open(of_successor, "n1", "s");
  ASSERT_TRUE(anew->BecomeNodeOwner("successor").has_value());
  // One call exchanges the folders, so the agent cannot notice its loss before the successor's files are there.
  ASSERT_EQ(renameat2(AT_FDCWD, of_successor.c_str(), AT_FDCWD, run_dir().c_str(), RENAME_EXCHANGE), 0);
  AwaitRemoved(of_successor);
  agent_->Drain(std::chrono::milliseconds(0));
  EXPECT_TRUE(anew->ReadHandedOut()->empty());
}

// A replaced agent that owned the node again would end its successor, whose notes would be lost.
TEST_F(RemovedFilesTest, DoNotMakeAReplacedAgentTheOwnerAgain) {
  StartWithUnwrittenAddress();
  const auto directory = node::NodeDirectory::Open(run_dir(), "n1", "s");
  ASSERT_TRUE(directory->BecomeNodeOwner("successor").has_value());
  Await([this] { return replaced_ == 1; }, "the agent ends");
  std::filesystem::remove(run_dir() + "/nodes/n1/creator");
  agent_->Drain(std::chrono::milliseconds(0));
  EXPECT_FALSE(std::filesystem::exists(run_dir() + "/nodes/n1/creator"));
}

TEST_F(RemovedFilesTest, AreForgottenWhereTheyWereWrittenAgain) {
  StartWithStandby();
  HoldPatches();
  ASSERT_TRUE(Add("c1").ok);
  Await([this] { return is_held_.load(); }, "the entry is under way");
  RemoveFolder();
  Await([this] { return replaced_ == 1; }, "the agent ends");
  ExpectNoted();
  Go();
  Await([this] { return IsWritten("c1") && Notes() == 0; }, "the entry is written, and its note is gone");
}

}  // namespace
}  // namespace berth::agent
