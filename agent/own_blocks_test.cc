// SPDX-License-Identifier: Apache-2.0
// Tests OwnBlocks: which versions it believes when lists are late and when the API server loses data.
#include "agent/own_blocks.h"

#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "agent/own_blocks_test_setup.h"
#include "ipam/engine_test_setup.h"
#include "k8sclient/testing/model_api.h"

namespace berth::agent {
namespace {

using ipam::BlockView;
using ipam::TestAttachment;
using k8sclient::Method;
using k8sclient::testing::ApiFault;
using k8sclient::testing::FakeClock;
using k8sclient::testing::ModelApi;
using std::chrono::seconds;

TEST_F(OwnBlocksTest, AnEarlierBlockOfThatNameInAListThatLagsIsNotBelieved) {
  const BlockView earlier = MakeBlock();
  RemoveBlock();
  own_.ObserveGone(kName, earlier->uid, Soon());
  MakeBlock();
  ASSERT_TRUE(Add(1).has_value());
  ASSERT_NE(HandOut(2), nullptr);
  own_.Observe(earlier, Soon());
  EXPECT_TRUE(Holds(1));
  EXPECT_TRUE(Holds(2));
  EXPECT_TRUE(seen_.lost.empty());
  WriteWhatIsLeft();
  EXPECT_TRUE(IsStored(2));
}

TEST_F(OwnBlocksTest, ALaterBlockOfThatNameIsBelieved) {
  MakeBlock();
  ASSERT_TRUE(Add(1).has_value());
  ASSERT_TRUE(api_.Change(kBlocks, kName, [](nlohmann::json& block) { block["metadata"]["uid"] = "another"; }));
  own_.Observe(Stored(), Soon());
  EXPECT_FALSE(Holds(1));
}

// Otherwise a call could last as long as the calls whose changes it sends.
TEST_F(OwnBlocksTest, ACallerWhoseDeadlineHasPassedSendsNoPatch) {
  MakeBlock();
  const int before = api_.CountOf(Method::kPatch);
  const auto edited =
      own_.Edit(Stored(), {.what = ipam::SetEntries{{{1, TextOf(1)}}}}, std::chrono::steady_clock::now());
  ASSERT_FALSE(edited.has_value());
  EXPECT_EQ(edited.error().code, ErrorCode::kTimeout);
  EXPECT_EQ(api_.CountOf(Method::kPatch), before);
}

TEST_F(OwnBlocksTest, KeepsAWrittenHandedOutEntryIfTheNextPatchIsRefused) {
  MakeBlock();
  ASSERT_TRUE(Add(1).has_value());
  const ipam::BlockOffset first = ipam::Find(*Stored(), ipam::TestAttachment(1)).value();
  constexpr std::chrono::seconds kWithin{60};
  ASSERT_NE(HandOut(2), nullptr);
  api_.SetFaults([](const k8sclient::Request& request) {
    return request.method == Method::kPatch ? ApiFault::kLostAfterCommit : ApiFault::kUnavailable;
  });
  const SteadyTime soon = std::chrono::steady_clock::now() + kWithin;
  EXPECT_FALSE(own_.Edit(Stored(), {}, soon).has_value());
  ASSERT_TRUE(IsStored(2));
  int patches = 0;
  api_.SetFaults([&patches](const k8sclient::Request& request) {
    return request.method == Method::kPatch && ++patches == 1 ? ApiFault::kInvalid : ApiFault::kNone;
  });
  int without = 0;
  api_.OnStore([&without](const std::string&, const nlohmann::json&, const nlohmann::json& after) {
    if (!after["allocations"].dump().contains(TextOf(2))) ++without;
  });
  Write({{first, ""}});
  EXPECT_FALSE(IsStored(1));
  EXPECT_EQ(without, 0);
}

// An answered DEL may wait behind a failing batch, and only the agent's journal knows of the DEL.
// The process starts again with its files. If it went on, all later calls would wait for a batch that nobody sends.
TEST_F(OwnBlocksTest, AnExceptionInABatchEndsTheProcess) {
  MakeBlock();
  api_.SetFaults([](const k8sclient::Request&) -> k8sclient::testing::ApiFault { throw std::runtime_error("a bug"); });
  EXPECT_DEATH(static_cast<void>(Add(1)), "a bug");
}

TEST_F(OwnBlocksTest, EachFailedRequestIsNoted) {
  MakeBlock();
  api_.SetFaults([](const k8sclient::Request&) { return ApiFault::kUnavailable; });
  EXPECT_FALSE(Add(1).has_value());
  EXPECT_EQ(seen_.failed_requests, 1);
}

// If an ADD took the second answer for a refusal, it would take an address of another block, and hold two addresses.
TEST_F(OwnBlocksTest, AChangeThatMayHaveLandedIsUnknownIfTheNextPatchIsRefused) {
  for (const ApiFault refusal : {ApiFault::kForbidden, ApiFault::kInvalid}) {
    const int number = static_cast<int>(refusal);
    if (Stored() == nullptr) MakeBlock();
    int patches = 0;
    api_.SetFaults([&](const k8sclient::Request& request) {
      if (request.method == Method::kPatch) return ++patches == 1 ? ApiFault::kLostAfterCommit : refusal;
      api_.Change(kBlocks, kName, [](nlohmann::json& block) { block["agent"] = "other-1.1"; });
      return ApiFault::kNone;
    });
    std::optional<ErrorCode> other;
    const auto note = [&other](const auto& written) {
      if (!written) other = written.error().code;
    };
    own_.EditDeferred(
        Stored(), {.attachment = ipam::TestAttachment(60), .what = ipam::SetEntries{{{60, TextOf(60)}}}}, note);
    const auto added = Add(number);
    ASSERT_TRUE(IsStored(number));
    ASSERT_GT(patches, 1);
    EXPECT_EQ(added.error().code, ErrorCode::kUnknownOutcome) << number;
    EXPECT_EQ(other, ErrorCode::kUnknownOutcome) << number;
  }
}

TEST_F(OwnBlocksTest, ShowsADeferredChangeWhileItsPatchIsUnderWay) {
  MakeBlock();
  ASSERT_TRUE(Add(1).has_value());
  own_.EditDeferred(Stored(), Release(1), [](const auto&) {});
  int patches = 0;
  api_.SetFaults([&](const k8sclient::Request& request) {
    if (request.method != Method::kPatch) return k8sclient::testing::ApiFault::kNone;
    ++patches;
    EXPECT_FALSE(ipam::Find(*own_.Snapshot().front(), TestAttachment(1)));
    return k8sclient::testing::ApiFault::kNone;
  });
  ASSERT_TRUE(Add(2).has_value());
  EXPECT_EQ(patches, 1);
  EXPECT_FALSE(IsStored(1));
}

TEST_F(OwnBlocksTest, NoAddFailsAsExhaustedWhileItsPatchMayLand) {
  MakeBlock();
  std::map<ipam::BlockOffset, std::string> full;
  for (int i = 0; i < 64; ++i) full[static_cast<ipam::BlockOffset>(i)] = TextOf(100 + i);
  Write(full);
  int patches = 0;
  api_.SetFaults([&](const k8sclient::Request& request) {
    if (request.method != Method::kPatch) return ApiFault::kNone;
    return ++patches == 1 ? ApiFault::kLateCommit : ApiFault::kInvalid;
  });
  own_.EditDeferred(
      Stored(), {.attachment = ipam::TestAttachment(107), .what = ipam::SetEntries{{{7, ""}}}}, [](const auto&) {});
  // The patch with both changes is in doubt, the next patch is refused, and then each change is tried alone.
  EXPECT_EQ(Add(1).error().code, ErrorCode::kUnknownOutcome);
}

TEST_F(OwnBlocksTest, AFenceThatWasSeenIsNotWrittenAgain) {
  MakeBlock();
  int patches = 0;
  api_.SetFaults([&](const k8sclient::Request& request) {
    const bool is_lost = request.method == Method::kPatch && ++patches == 1;
    return is_lost ? ApiFault::kLostAfterCommit : ApiFault::kNone;
  });
  ASSERT_TRUE(
      own_.Edit(Stored(),
                {.attachment = ipam::TestAttachment(1), .what = ipam::SetEntries{{{7, TextOf(1)}}}, .fence = true},
                Soon()));
  EXPECT_EQ(patches, 1);
}

TEST_F(OwnBlocksTest, ARolledBackCrdIsNoticedByABlockThatNobodyWrites) {
  MakeBlock();
  ASSERT_TRUE(Add(1).has_value());
  ASSERT_FALSE(Stored()->standby.empty());
  api_.DropField("standby");
  clock_.Advance(std::chrono::minutes(1));
  own_.ProveStandby(Soon());
  EXPECT_EQ(seen_.not_kept, 1);
  EXPECT_EQ(HandOut(2), nullptr);
}

TEST_F(OwnBlocksTest, ARolledBackCrdIsNoticedByAWrite) {
  MakeBlock();
  ASSERT_TRUE(Add(1).has_value());
  api_.DropField("standby");
  clock_.Advance(std::chrono::minutes(1));
  ASSERT_TRUE(Add(2).has_value());
  EXPECT_EQ(seen_.not_kept, 1);
  EXPECT_EQ(HandOut(3), nullptr);
}

// After 60 s the controller may count the node as gone.
TEST_F(OwnBlocksTest, HandsOutNoStandbyAfterAMinuteWithoutTheApiServer) {
  MakeBlock();
  ASSERT_TRUE(Add(1).has_value());
  api_.SetFaults([](const k8sclient::Request&) { return k8sclient::testing::ApiFault::kUnavailable; });
  clock_.Advance(seconds(59));
  own_.ProveStandby(Soon());
  EXPECT_NE(HandOut(2), nullptr);
  clock_.Advance(seconds(1));
  own_.ProveStandby(Soon());
  EXPECT_EQ(HandOut(3), nullptr);
  EXPECT_EQ(seen_.not_kept, 0);
  api_.SetFaults(nullptr);
  own_.ProveStandby(Soon());
  EXPECT_NE(HandOut(3), nullptr);
}

// The time of a suspend counts as time without an answer of the API server.
TEST_F(OwnBlocksTest, HandsOutNoStandbyAfterASuspendUntilAProof) {
  MakeBlock();
  ASSERT_TRUE(Add(1).has_value());
  clock_.Suspend(std::chrono::minutes(1));
  EXPECT_EQ(HandOut(2), nullptr);
  own_.ProveStandby(Soon());
  EXPECT_NE(HandOut(2), nullptr);
}

// A proof is as old as its request.
TEST_F(OwnBlocksTest, AProofThatArrivesAfterASleepIsLate) {
  MakeBlock();
  api_.OnStore([this](const auto&...) { clock_.Suspend(std::chrono::minutes(1)); });
  ASSERT_TRUE(Add(1).has_value());
  EXPECT_EQ(HandOut(2), nullptr);
}

// The other block may belong to another node meanwhile, because the controller frees one block after another.
TEST_F(OwnBlocksTest, AfterASuspendEachBlockNeedsItsOwnProof) {
  MakeBlock();
  ASSERT_TRUE(Add(1).has_value());
  const ipam::Block second = ipam::NewBlock(pool_, ipam::Prefix::Parse("10.55.0.64/26").value(), "n1");
  const auto made = api_.Call({.method = Method::kPost, .path = kBlocks, .body = crds::BlockToJson(second).dump()}, {});
  const auto seen = std::make_shared<const ipam::Block>(crds::ParseBlock(nlohmann::json::parse(made->body)).value());
  ASSERT_TRUE(own_.Fence(seen, Soon()).has_value());
  ipam::Change first = Taking(6);
  first.may_take_standby = false;
  ASSERT_TRUE(own_.Edit(seen, first, Soon()).has_value());
  const auto hand_out = [&](int number) { return own_.HandOut(seen, Taking(number)); };
  ASSERT_NE(hand_out(2), nullptr);
  clock_.Suspend(std::chrono::minutes(6));
  ASSERT_TRUE(Add(3).has_value());
  EXPECT_NE(HandOut(4), nullptr);
  EXPECT_EQ(hand_out(5), nullptr);
}

// Otherwise the block would be read every second until another source shows the version.
TEST_F(OwnBlocksTest, AReadThatFindsANewerVersionOfABlockTellsOfIt) {
  MakeBlock();
  ASSERT_TRUE(Add(1).has_value());
  ASSERT_TRUE(api_.Change(kBlocks, kName, [](nlohmann::json& block) { block["free"] = 7; }));
  clock_.Advance(std::chrono::minutes(1));
  own_.ProveStandby(Soon());
  EXPECT_EQ(own_.Snapshot().at(0)->resource_version, Stored()->resource_version);
  own_.ProveStandby(Soon());
  const int before = api_.CountOf(Method::kGet);
  own_.ProveStandby(Soon());
  EXPECT_EQ(api_.CountOf(Method::kGet), before);
}

TEST_F(OwnBlocksTest, StandbyIsProvedOnceAMinuteAndNotMoreOften) {
  MakeBlock();
  ASSERT_TRUE(Add(1).has_value());
  const int before = api_.CountOf(Method::kGet);
  own_.ProveStandby(Soon());
  EXPECT_EQ(api_.CountOf(Method::kGet), before);
  clock_.Advance(std::chrono::minutes(1));
  own_.ProveStandby(Soon());
  own_.ProveStandby(Soon());
  EXPECT_EQ(api_.CountOf(Method::kGet), before + 1);
  EXPECT_NE(HandOut(2), nullptr);
}

// The other agent runs on another machine, with files of its own.
class ForeignAgentTest : public OwnBlocksTest {
 protected:
  void SetUp() override {
    MakeBlock();
    ASSERT_TRUE(Add(1).has_value());
  }
  void WriteAgent(const std::string& agent) {
    ASSERT_TRUE(api_.Change(kBlocks, kName, [&](nlohmann::json& block) { block["agent"] = agent; }));
    own_.Observe(Stored(), Soon());
  }
  [[nodiscard]] std::string AgentOf(const OwnBlocks& agent) const {
    return Stored()->agent.starts_with(agent.instance()) ? "it" : Stored()->agent;
  }

  BlockWitness other_seen_;
  OwnBlocks other_{
      api_, clock_, NewDirectory(), {.self = {.node = "n1", .instance = "other-1"}, .standby = kStandby}, other_seen_};
};

TEST_F(ForeignAgentTest, AnAgentFieldThatSomebodyWroteByHandEndsNoAgent) {
  WriteAgent("x.1");
  EXPECT_THAT(seen_.met, testing::ElementsAre("x.1"));
  EXPECT_EQ(AgentOf(own_), "it") << "written over at once";
  EXPECT_NE(HandOut(2), nullptr);
  EXPECT_TRUE(Add(3).has_value());
}

// After the first fence, the block names this agent only.
TEST_F(ForeignAgentTest, AFenceWritesTwiceAtMostAndItsRepetitionKeepsTheOthersStandby) {
  const ipam::OffsetSet standby = Stored()->standby;
  ASSERT_FALSE(standby.empty());
  api_.SetFaults([](const k8sclient::Request& request) {
    return request.method == Method::kPatch ? ApiFault::kLostAfterCommit : ApiFault::kNone;
  });
  const int before = api_.CountOf(Method::kPatch);
  EXPECT_EQ(Fence(other_).error().code, ErrorCode::kUnknownOutcome);
  EXPECT_EQ(api_.CountOf(Method::kPatch), before + 2);
  api_.SetFaults(nullptr);
  ASSERT_TRUE(Fence(other_).has_value());
  EXPECT_EQ(Stored()->standby, standby);
}

TEST_F(ForeignAgentTest, NothingIsHandedOutBeforeTheFieldIsWrittenOver) {
  api_.SetFaults([](const k8sclient::Request& request) {
    return request.method == Method::kPatch ? k8sclient::testing::ApiFault::kUnavailable
                                            : k8sclient::testing::ApiFault::kNone;
  });
  WriteAgent("x.1");
  EXPECT_EQ(HandOut(2), nullptr);
  api_.SetFaults(nullptr);
  WriteWhatIsLeft();
  EXPECT_NE(HandOut(2), nullptr);
}

TEST_F(ForeignAgentTest, DoesNotOverwriteASuccessorThatTheNodesFilesName) {
  seen_.is_replaced = true;
  WriteAgent("m-successor.1");
  EXPECT_EQ(Stored()->agent, "m-successor.1");
  EXPECT_TRUE(seen_.met.empty());
}

TEST_F(ForeignAgentTest, BothAgentsNameEachOtherAndStopWritingAContestedBlock) {
  ASSERT_TRUE(Fence(other_).has_value());
  for (int i = 0; i < 3; ++i) {
    own_.Observe(Stored(), Soon());
    other_.Observe(Stored(), Soon());
  }
  const int before = api_.CountOf(Method::kPatch);
  for (OwnBlocks* const agent : {&own_, &other_}) {
    EXPECT_EQ(HandOut(3, agent), nullptr) << "nobody would write it";
    const auto refused = Add(2, agent);
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(CniCode(refused.error().code), 11U);
    EXPECT_THAT(refused.error().message, testing::AllOf(testing::HasSubstr("m-me"), testing::HasSubstr("other-1")));
  }
  EXPECT_EQ(api_.CountOf(Method::kPatch), before);
}

TEST_F(ForeignAgentTest, SweepsACoolingEntryThatAForeignAgentLeft) {
  constexpr const char* kOffset = "40";
  const auto write = [&](const std::string& agent, const std::function<void(nlohmann::json&)>& change) {
    ASSERT_TRUE(api_.Change(kBlocks, kName, [&](nlohmann::json& block) {
      block["agent"] = agent;
      change(block);
    }));
  };
  write("other-1.7", [](nlohmann::json& block) { block["standby"] = {std::stoi(kOffset)}; });
  own_.Observe(Stored(), Soon());
  write("other-1.8", [](nlohmann::json& block) {
    block.erase("standby");
    block["allocations"][kOffset] = "~ t=1";
    block["used"] = 2;
  });
  api_.SetFaults([](const k8sclient::Request& request) {
    return request.method == Method::kPatch ? ApiFault::kUnavailable : ApiFault::kNone;
  });
  own_.Observe(Stored(), Soon());
  api_.SetFaults(nullptr);
  EXPECT_TRUE(own_.Edit(Stored(), {.what = ipam::SweepCooled{.now_ms = 1}}, Soon()).has_value());
}

// An agent that could not read another block loads its blocks once more.
TEST_F(ForeignAgentTest, ASecondFenceKeepsEntriesOfTheForeignAgent) {
  const ipam::BlockOffset offset = ipam::Find(*Stored(), ipam::TestAttachment(1)).value();
  ASSERT_TRUE(api_.Change(kBlocks, kName, [&](nlohmann::json& block) {
    block["allocations"] = {{std::to_string(offset), TextOf(2)}};
    block["agent"] = "other-1.7";
  }));
  ASSERT_TRUE(Fence(own_).has_value());
  WriteWhatIsLeft();
  EXPECT_TRUE(IsStored(2));
  EXPECT_TRUE(seen_.vanished.empty());
}

// A contested block does not mean that the API server is away: the agent need not ask whether it is back.
TEST_F(ForeignAgentTest, SendsNoRequestForAContestedBlock) {
  ASSERT_TRUE(Fence(other_).has_value());
  for (int i = 0; i < 3; ++i) {
    own_.Observe(Stored(), Soon());
    other_.Observe(Stored(), Soon());
  }
  ASSERT_FALSE(Add(2, &other_).has_value());
  const int failed_requests = other_seen_.failed_requests;
  other_.WriteHandedOut();
  ASSERT_FALSE(Add(3, &other_).has_value()) << "and takes along what waits";
  EXPECT_EQ(other_seen_.failed_requests, failed_requests);
}

// The foreign agent has not seen this agent's fence, which conflicts with the foreign agent's writes.
TEST_F(ForeignAgentTest, ConflictsWithAForeignAgentDoNotMakeABlockContested) {
  int writes = 5;
  api_.SetFaults([&](const k8sclient::Request& request) {
    if (request.method == Method::kPatch && writes-- > 0) {
      api_.Change(kBlocks, kName, [&](nlohmann::json& block) { block["agent"] = "x.1"; });
    }
    return k8sclient::testing::ApiFault::kNone;
  });
  WriteAgent("x.1");
  EXPECT_EQ(AgentOf(own_), "it") << "written over in the end";
  EXPECT_TRUE(Add(3).has_value());
}

TEST_F(ForeignAgentTest, NeitherAgentGivesAnAddressThatTheOtherHasOnStandby) {
  const ipam::OffsetSet standby = Stored()->standby;
  ASSERT_TRUE(Fence(other_).has_value());
  EXPECT_EQ(Stored()->standby, standby) << "still the first one's";
  EXPECT_EQ(HandOut(2, &other_), nullptr);
  for (int i = 10; i < 80; ++i) static_cast<void>(Add(i, &other_));  // until no address is free
  for (const ipam::BlockOffset offset : standby) EXPECT_FALSE(Stored()->allocations.contains(offset)) << offset;
  own_.Observe(Stored(), Soon());
  WriteWhatIsLeft();
  for (const ipam::BlockOffset offset : standby) EXPECT_TRUE(Stored()->standby.contains(offset)) << offset;
}

TEST_F(ForeignAgentTest, AFenceWhoseAnswerWasLostKeepsWhatTheOtherHasOnStandby) {
  const ipam::OffsetSet standby = Stored()->standby;
  int patches = 0;
  api_.SetFaults([&patches](const k8sclient::Request& request) {
    const bool is_first = request.method == Method::kPatch && patches++ == 0;
    return is_first ? k8sclient::testing::ApiFault::kLostAfterCommit : k8sclient::testing::ApiFault::kNone;
  });
  ASSERT_TRUE(Fence(other_).has_value());
  for (int i = 10; i < 80; ++i) static_cast<void>(Add(i, &other_));  // until no address is free
  for (const ipam::BlockOffset offset : standby) EXPECT_FALSE(Stored()->allocations.contains(offset)) << offset;
}

TEST_F(ForeignAgentTest, ForgetsASilentForeignAgentAfterAMinute) {
  ASSERT_TRUE(Fence(other_).has_value());
  ASSERT_EQ(HandOut(2, &other_), nullptr);
  clock_.Advance(std::chrono::minutes(1));
  other_.WriteHandedOut();
  ASSERT_TRUE(Add(3, &other_).has_value());
  EXPECT_NE(HandOut(2, &other_), nullptr);
}

// As long as both agents run, one of them tries again every 60 s, and no address is handed out twice.
TEST_F(ForeignAgentTest, AnOverwrittenAgentTriesAgainAfterAMinute) {
  ASSERT_TRUE(Fence(other_).has_value());
  for (int i = 0; i < 3; ++i) {
    own_.Observe(Stored(), Soon());
    other_.Observe(Stored(), Soon());
  }
  ASSERT_EQ(AgentOf(own_), "it") << "had the last word";
  clock_.Advance(std::chrono::minutes(1));
  other_.WriteHandedOut();
  EXPECT_TRUE(Add(2, &other_).has_value());
  EXPECT_EQ(HandOut(3, &other_), nullptr) << "the other one may be handing out";
  own_.Observe(Stored(), Soon());
  other_.Observe(Stored(), Soon());
  EXPECT_FALSE(Add(4, &other_).has_value());
}

}  // namespace
}  // namespace berth::agent
