// SPDX-License-Identifier: Apache-2.0
// Tests OwnBlocks: it restores entries that others removed from this node's blocks, and not the entries that this node
// freed.
#include <chrono>
#include <set>
#include <string>
#include <thread>
#include <vector>

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
using k8sclient::testing::ApiFault;
using nlohmann::json;

class RestoreTest : public OwnBlocksTest {
 protected:
  void TakeOut(int number) {
    ASSERT_TRUE(api_.Change(kBlocks, kName, [&](json& block) {
      const json before = block["allocations"];
      for (const auto& [offset, text] : before.items()) {
        if (ipam::AttachmentOf(text.get_ref<const std::string&>()) == TestAttachment(number))
          block["allocations"].erase(offset);
      }
      block["used"] = block["allocations"].size();
    }));
  }
};

// A container still runs although somebody deleted its pod by force. After some time the controller frees the address.
class FreedInUseTest : public RestoreTest {
 protected:
  static std::string HeldText(int number) {
    ipam::HeldEntry entry = EntryOf(number);
    entry.netns = "cni-" + std::to_string(number);
    return ipam::FormatEntry(entry).value();
  }
  static std::string MarkOf(int number) {
    const ipam::CoolingEntry mark{.until_ms = 99999999, .forget = TestAttachment(number), .freed = HeldText(number)};
    return ipam::FormatEntry(mark).value();
  }
  // Frees the address like the controller.
  void Free(int number) {
    ASSERT_TRUE(api_.Change(kBlocks, kName, [&](json& block) {
      for (auto& [offset, text] : block["allocations"].items()) {
        if (text == HeldText(number)) text = MarkOf(number);
      }
    }));
  }
  [[nodiscard]] std::string StoredAt(ipam::BlockOffset offset) const { return agent_core::TextAt(*Stored(), offset); }

  std::set<std::string> netns_ = {"cni-1", "cni-2"};
  OwnBlocks agent_{api_,
                   clock_,
                   NewDirectory(),
                   {.self = {.node = "n1",
                             .instance = "m-new",
                             .may_have_netns = [this](const std::string& name) { return netns_.contains(name); }},
                    .standby = kStandby},
                   seen_};
};

TEST_F(FreedInUseTest, AnAddressIsKeptWhileItsContainersNetworkNamespaceIsThere) {
  MakeBlock();
  Write({{1, HeldText(1)}, {2, HeldText(2)}, {3, HeldText(3)}});
  ASSERT_TRUE(Fence(agent_).has_value());
  for (const int number : {1, 3}) Free(number);
  agent_.Observe(Stored(), Soon());
  EXPECT_EQ(StoredAt(1), HeldText(1));
  EXPECT_EQ(StoredAt(3), MarkOf(3)) << "its network namespace is gone";
  EXPECT_THAT(seen_.in_use, testing::ElementsAre(HeldText(1)));
  EXPECT_THAT(seen_.freed, testing::ElementsAre(HeldText(3)));
  EXPECT_TRUE(agent_.Holds(TestAttachment(1)));
  EXPECT_FALSE(agent_.Holds(TestAttachment(3)));
  netns_.erase("cni-1");
  Free(1);
  agent_.Observe(Stored(), Soon());
  EXPECT_EQ(StoredAt(1), MarkOf(1)) << "it is gone by now";
  EXPECT_THAT(seen_.in_use, testing::SizeIs(1));
}

// A takeover starts again if a later step failed. If the note were deleted, the address would be forgotten when the
// process ends, and another pod could get it.
TEST_F(RestoreTest, ANoteThatIsTakenOverTwiceIsKeptUntilItsEntryIsWritten) {
  PutBlock();
  const node::HandedOut note{
      .attachment = TestAttachment(1), .block = kName, .uid = Stored()->uid, .offset = 5, .entry = TextOf(1)};
  ASSERT_TRUE(directory_.NoteHandedOut(note).has_value());
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(Fence(own_).has_value());
    EXPECT_EQ(directory_.ReadHandedOut(), std::vector{note});
    EXPECT_TRUE(own_.HandedOut().contains(TestAttachment(1)));
    EXPECT_TRUE(Stored()->standby.contains(5));
  }
  WriteWhatIsLeft();
  EXPECT_TRUE(IsStored(1));
  EXPECT_EQ(directory_.ReadHandedOut(), std::vector<node::HandedOut>());
}

// Two threads take in one block that the agent did not know. While the slower thread has old notes, a DEL of a pod is
// written, and another pod gets the address.
TEST_F(RestoreTest, ANoteIsNotResumedAgainAfterItsAddressWasFreed) {
  PutBlock();
  const node::HandedOut note{
      .attachment = TestAttachment(1), .block = kName, .uid = Stored()->uid, .offset = 5, .entry = TextOf(1)};
  ASSERT_TRUE(directory_.NoteHandedOut(note).has_value());
  ASSERT_TRUE(Fence(own_).has_value());
  WriteWhatIsLeft();
  ASSERT_TRUE(IsStored(1));
  ASSERT_TRUE(own_.Edit(Stored(), Release(1), Soon()).has_value());
  ASSERT_TRUE(directory_.NoteHandedOut(note).has_value());  // the slower thread has read this note
  ASSERT_TRUE(Fence(own_).has_value());
  EXPECT_FALSE(Holds(1));
}

TEST_F(FreedInUseTest, AnAgentThatStartsKeepsWhatWasFreedBefore) {
  MakeBlock();
  Write({{1, HeldText(1)}});
  Free(1);
  ASSERT_TRUE(Fence(agent_).has_value());
  EXPECT_TRUE(agent_.Holds(TestAttachment(1)));
  EXPECT_THAT(seen_.in_use, testing::ElementsAre(HeldText(1)));
  ASSERT_TRUE(Add(4, &agent_).has_value());
  EXPECT_EQ(StoredAt(1), HeldText(1));
}

TEST_F(FreedInUseTest, NobodyGetsAnAddressThatIsKeptThoughItCannotBeWritten) {
  MakeBlock();
  Write({{1, HeldText(1)}});
  ASSERT_TRUE(Fence(agent_).has_value());
  Free(1);
  api_.SetFaults([](const k8sclient::Request& request) {
    return request.method == Method::kPatch ? ApiFault::kUnavailable : ApiFault::kNone;
  });
  agent_.Observe(Stored(), Soon());
  const auto shown = agent_.Snapshot();
  ASSERT_EQ(shown.size(), 1U);
  EXPECT_EQ(agent_core::TextAt(*shown[0], 1), HeldText(1));
}

TEST_F(FreedInUseTest, ADelFreesARestoredAddress) {
  MakeBlock();
  Write({{1, HeldText(1)}});
  ASSERT_TRUE(Fence(agent_).has_value());
  Free(1);
  // The container's DEL comes before the agent has seen the cooling entry.
  ASSERT_TRUE(agent_.Edit(Stored(), Release(1), Soon()).has_value());
  EXPECT_EQ(StoredAt(1), "");
  EXPECT_THAT(seen_.in_use, testing::IsEmpty()) << "nobody has to end that container";
}

TEST_F(FreedInUseTest, DoesNotRestoreAnEntryThatAPersonReleased) {
  MakeBlock();
  Write({{1, HeldText(1)}});
  ASSERT_TRUE(Fence(agent_).has_value());
  ASSERT_TRUE(api_.Change(
      kBlocks, kName, [&](json& block) { block["allocations"]["1"] = "~ t=99999999 f=" + TestAttachment(1); }));
  agent_.Observe(Stored(), Soon());
  EXPECT_FALSE(agent_.Holds(TestAttachment(1)));
}

class BackupOfAnEarlierRunTest : public RestoreTest, public testing::WithParamInterface<bool> {};

// The earlier run had an address on standby when the backup was taken, and handed it out since: no other pod may get
// it.
TEST_P(BackupOfAnEarlierRunTest, AnEntryThatWasOnStandbyInTheBackupIsRestored) {
  const bool versions_go_on = GetParam();
  MakeBlock();
  BlockWitness unused;
  OwnBlocks earlier(
      api_, clock_, NewDirectory(), {.self = {.node = "n1", .instance = "m-before"}, .standby = kStandby}, unused);
  ASSERT_TRUE(Fence(earlier).has_value());
  ASSERT_TRUE(Add(1, &earlier).has_value());
  const auto backup = api_.TakeBackup();
  const json old = api_.Objects(kBlocks)[0];
  ASSERT_NE(HandOut(2, &earlier), nullptr);
  earlier.WriteHandedOut();
  ASSERT_TRUE(Add(3, &earlier).has_value());
  OwnBlocks own(
      api_, clock_, NewDirectory(), {.self = {.node = "n1", .instance = "m-now"}, .standby = kStandby}, seen_);
  ASSERT_TRUE(Fence(own).has_value());
  ASSERT_TRUE(IsStored(2));
  if (versions_go_on) {
    ASSERT_TRUE(api_.Change(kBlocks, kName, [&](json& block) {
      json restored = old;
      restored["metadata"] = block["metadata"];
      block = restored;
    }));
    own.Observe(Stored(), Soon());
  } else {
    api_.Restore(*backup);
    ASSERT_FALSE(Add(9, &own).has_value());
  }
  ASSERT_TRUE(Add(4, &own).has_value() || Add(4, &own).has_value());
  EXPECT_TRUE(IsStored(2));
}

INSTANTIATE_TEST_SUITE_P(Table, BackupOfAnEarlierRunTest, testing::Bool(), [](const auto& versions_go_on) {
  return std::string(versions_go_on.param ? "VersionsGoOn" : "VersionsGoBack");
});

TEST_F(RestoreTest, DoesNotRestoreAnEntryThatItMadeCoolWithALostAnswer) {
  MakeBlock();
  Write({{1, TextOf(1)}, {2, TextOf(2)}});
  bool is_lost = false;
  api_.SetFaults([&is_lost](const k8sclient::Request& request) {
    const bool loses = request.method == Method::kPatch && !std::exchange(is_lost, true);
    return loses ? ApiFault::kLostAfterCommit : ApiFault::kNone;
  });
  Write({{1, "~ t=99999999999999"}});
  ASSERT_TRUE(is_lost);
  EXPECT_THAT(seen_.vanished, testing::IsEmpty());
  ASSERT_TRUE(Add(5).has_value());
  EXPECT_FALSE(IsStored(1));
}

TEST_F(RestoreTest, AnEntryThatCouldNotBeRestoredAtOnceIsRestoredWithoutAnotherChange) {
  MakeBlock();
  Write({{1, TextOf(1)}});
  TakeOut(1);
  api_.SetFaults([](const k8sclient::Request& request) {
    return request.method == Method::kPatch ? ApiFault::kUnavailable : ApiFault::kNone;
  });
  own_.Observe(Stored(), Soon());
  ASSERT_FALSE(IsStored(1));
  api_.SetFaults(nullptr);
  const std::jthread flusher([this] { own_.RunFlusher(); });
  own_.WriteHandedOut();
  own_.AwaitDeferred(Soon());
  EXPECT_TRUE(IsStored(1));
  own_.Stop();
}

// The older agent's edit runs after the older agent has seen the newer agent's version, and before it learns that it
// was replaced.
TEST_F(RestoreTest, AReplacedAgentDoesNotRestoreWhatItsSuccessorFreed) {
  MakeBlock();
  BlockWitness seen;
  OwnBlocks older(api_, clock_, NewDirectory(), {.self = {.node = "n1", .instance = "m-older"}}, seen);
  ASSERT_TRUE(Fence(older).has_value());
  ASSERT_TRUE(Add(1, &older).has_value());
  OwnBlocks newer(api_, clock_, NewDirectory(), {.self = {.node = "n1", .instance = "m-newer"}}, seen_);
  ASSERT_TRUE(Fence(newer).has_value());
  ASSERT_TRUE(newer.Edit(Stored(), Release(1), Soon()).has_value());
  seen.is_replaced = true;
  seen.meanwhile = [&] { static_cast<void>(Add(3, &older)); };
  older.Observe(Stored(), Soon());
  EXPECT_FALSE(IsStored(1));
}

TEST_F(RestoreTest, RestoresEntriesOfABlockThatIsBeingDeleted) {
  MakeBlock();
  Write({{1, TextOf(1)}, {2, TextOf(2)}});
  ASSERT_TRUE(api_.Call({.method = Method::kDelete, .path = kBlocks + "/" + kName}, {})->ok());
  own_.Observe(Stored(), Soon());
  TakeOut(1);
  TakeOut(2);
  own_.Observe(Stored(), Soon());
  WriteWhatIsLeft();
  for (const int number : {1, 2}) EXPECT_TRUE(IsStored(number)) << number;
}

}  // namespace
}  // namespace berth::agent
