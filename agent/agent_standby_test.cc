// SPDX-License-Identifier: Apache-2.0
// Tests ADDs that are answered with an address on standby before the entry is written (docs/adr/0008), while writes
// fail or lose their answers, and while the agent dies or is replaced.
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "agent/agent.h"
#include "agent/standby_test_setup.h"

namespace berth::agent {
namespace {

using k8sclient::Method;
using k8sclient::Request;
using nlohmann::json;

TEST_F(StandbyTest, AnAddIsAnsweredBeforeItIsWritten) {
  StartWithStandby();
  HoldPatches();
  EXPECT_TRUE(Add("c1").ok);
  EXPECT_FALSE(IsWritten("c1"));
  Go();
  AwaitWritten("c1");
}

TEST_F(StandbyTest, TheAddressWasOnStandbyInTheApiServer) {
  StartWithStandby();
  const std::vector<int> standby = Standby();
  HoldPatches();
  std::set<std::string> expected;
  for (const int offset : standby) expected.insert("10.55.0." + std::to_string(offset));
  const std::string cidr = AddressIn(Add("c1"));
  const std::string block = api_.Objects(kBlocks)[0]["spec"]["cidr"];
  const auto base = ipam::Prefix::Parse(block).value();
  const auto address = ipam::Address::Parse(cidr.substr(0, cidr.find('/'))).value();
  EXPECT_NE(std::ranges::find(standby, static_cast<int>(base.OffsetOf(address))), standby.end());
  Go();
}

TEST_F(StandbyTest, ConsecutiveAddsGetDifferentAddresses) {
  StartWithStandby();
  HoldPatches();
  std::set<std::string> addresses;
  for (std::size_t i = 1; i <= kStandbyOfAgent; ++i) addresses.insert(AddressIn(Add("c" + std::to_string(i))));
  EXPECT_EQ(addresses.size(), kStandbyOfAgent);
  Go();
}

TEST_F(StandbyTest, AddsBehindTheFirstOfABlockAreAnsweredWithItsPatch) {
  StartStandbyAgent();
  std::atomic<int> patches = 0;
  std::atomic<bool> are_answered = false;
  api_.SetFaults([&](const Request& request) {
    if (request.method != Method::kPatch) return ApiFault::kNone;
    is_held_ = true;
    if (++patches == 1)
      may_go_.wait(false);
    else
      Await([&] { return are_answered.load(); }, "the ADDs are answered");
    return ApiFault::kNone;
  });
  // These ADDs are few enough that the next patch is not sent at once: no ADD may get into that patch.
  std::array<Reply, 1 + (kStandbyOfAgent + 1) / 2> replies;
  std::vector<std::jthread> callers;
  for (std::size_t i = 0; i < replies.size(); ++i) {
    callers.emplace_back([&, i] { replies.at(i) = AddWithin("c" + std::to_string(i + 1), 20); });
    Await([this] { return is_held_.load(); }, "the first patch is sent");
  }
  // Give all ADDs time to queue behind the first patch. An ADD after this patch would get its address without waiting.
  static_cast<void>(k8sclient::RealClock().Sleep(std::chrono::milliseconds(100), {}));
  may_go_ = true;
  may_go_.notify_all();
  callers.clear();
  are_answered = true;
  EXPECT_TRUE(std::ranges::all_of(replies, &Reply::ok));
  api_.SetFaults(nullptr);
}

TEST_F(StandbyTest, AnAddWaitsForItsWriteIfAllStandbyIsHandedOut) {
  StartWithStandby();
  HoldPatches();
  for (std::size_t i = 1; i <= kStandbyOfAgent; ++i) ASSERT_TRUE(Add("c" + std::to_string(i)).ok);
  // The agent's flusher thread sends the patch; this thread only waits.
  Await([this] { return is_held_.load(); }, "the patch is sent");
  EXPECT_FALSE(AddWithin("one-more", 1).ok);
  Go();
}

TEST_F(StandbyTest, TheSameAddAgainGetsTheSameAnswer) {
  StartWithStandby();
  HoldPatches();
  const std::string first = Add("c1").body;
  EXPECT_EQ(Add("c1").body, first);
  Go();
}

TEST_F(StandbyTest, ABlockWithoutHeldAddressHasNoStandby) {
  StartWithStandby();
  ASSERT_TRUE(Del("c0").ok);
  ASSERT_TRUE(Del("c00").ok);
  Await([this] { return Held().empty(); }, "the DELs are written");
  EXPECT_TRUE(Standby().empty());
}

TEST_F(StandbyTest, ADelOfAnUnwrittenAddressLeavesNoEntryAndNoNote) {
  StartWithStandby();
  HoldPatches();
  ASSERT_TRUE(Add("c1").ok);
  ASSERT_TRUE(Del("c1").ok);
  Go();
  Await([this] { return Debug()["journal"].empty(); }, "the DEL is written");
  EXPECT_FALSE(IsWritten("c1"));
  EXPECT_EQ(Notes(), 0U);
}

TEST_F(StandbyTest, RemovesTheNoteOfAWrittenAddress) {
  StartWithStandby();
  ASSERT_TRUE(Add("c1").ok);
  AwaitAllWritten();
  Await([this] { return Notes() == 0; }, "the note is gone");
}

TEST_F(StandbyTest, TheNextAgentWritesWhatAKilledAgentHandedOut) {
  StartWithStandby();
  FaultPatches(ApiFault::kUnavailable);
  const std::string address = AddressIn(Add("c1"));
  KillAgent();
  ASSERT_FALSE(IsWritten("c1"));
  StartStandbyAgent();
  EXPECT_EQ(AddressIn(Add("c1")), address);
  AwaitWritten("c1");
  Await([this] { return Notes() == 0; }, "the note is gone");
}

TEST_F(StandbyTest, ANoteOfAnAddressOutsideItsBlockDoesNotEndTheAgent) {
  StartWithStandby();
  const auto blocks = api_.Objects(std::string(crds::kBlocksPath));
  ASSERT_EQ(blocks.size(), 1U);
  const json& meta = blocks.front()["metadata"];
  KillAgent();
  const auto directory = node::NodeDirectory::Open(run_dir(), "n1", "https://api");
  ASSERT_TRUE(directory->NoteHandedOut({.attachment = AttachmentOfContainer("c1"),
                                        .block = meta["name"],
                                        .uid = meta["uid"],
                                        .offset = 255,
                                        .entry = "s=1"}));
  StartStandbyAgent();
  EXPECT_TRUE(Add("c2").ok);
  EXPECT_EQ(Notes(), 0U);
}

// The next agent must serve all other pods, and must not give them the address.
TEST_F(StandbyTest, ARefusedEntryOfAKilledAgentDoesNotStopTheNextAgent) {
  StartWithStandby();
  const auto refuse = [](const Request& request) {
    const bool is_refused =
        request.method == Method::kPatch && request.body.find(AttachmentOfContainer("c1")) != std::string::npos;
    return is_refused ? ApiFault::kInvalid : ApiFault::kNone;
  };
  api_.SetFaults(refuse);
  const std::string address = AddressIn(Add("c1"));
  agent_.reset();
  StartStandbyAgent();
  std::set<std::string> others;
  for (int i = 2; i < 20; ++i) others.insert(AddressIn(Add("c" + std::to_string(i))));
  EXPECT_EQ(others.size(), 18U);
  EXPECT_FALSE(others.contains(address));
  api_.SetFaults(nullptr);
  AwaitWritten("c1");
}

TEST_F(StandbyTest, AnAddressWithoutANoteIsWrittenBeforeTheAnswer) {
  StartWithStandby();
  RefuseNoteOf("c1");
  ASSERT_TRUE(Add("c1").ok);
  EXPECT_TRUE(IsWritten("c1"));
}

TEST_F(StandbyTest, AnswersNoAddressThatIsNeitherNotedNorWritten) {
  StartWithStandby();
  RefuseNoteOf("c1");
  FaultPatches(ApiFault::kUnavailable);
  EXPECT_FALSE(AddWithin("c1", 1).ok);
  EXPECT_FALSE(AddWithin("c1", 1).ok);
  api_.SetFaults(nullptr);
  ASSERT_TRUE(Add("c2").ok);
  EXPECT_FALSE(IsWritten("c1")) << "also without a DEL";
}

TEST_F(StandbyTest, TheNextAgentDoesNotWriteAnAddressThatADelFreed) {
  StartWithStandby();
  FaultPatches(ApiFault::kUnavailable);
  ASSERT_TRUE(Add("c1").ok);
  ASSERT_TRUE(Del("c1").ok);
  KillAgent();
  StartStandbyAgent();
  Await([this] { return agent_->IsReady() && Debug()["journal"].empty(); }, "the next agent is through");
  EXPECT_FALSE(IsWritten("c1"));
  EXPECT_EQ(Notes(), 0U);
}

TEST_F(StandbyTest, TheNextAgentTakesAddressesOffStandby) {
  StartWithStandby();
  KillAgent();
  StartStandbyAgent();
  Await([this] { return agent_->IsReady(); }, "the next agent is ready");
  EXPECT_TRUE(Standby().empty());
}

TEST_F(StandbyTest, AfterAFailedWriteAddsWaitForTheirWrites) {
  StartWithStandby();
  FaultPatches(ApiFault::kUnavailable);
  ASSERT_TRUE(Add("c1").ok);
  int number = 1;
  Await([&] { return !AddWithin("c" + std::to_string(++number), 1).ok; }, "an ADD fails");
  EXPECT_LE(number, static_cast<int>(kStandbyOfAgent) + 1);
  Go();
  AwaitWritten("c1");
}

TEST_F(StandbyTest, WritesAddressesHandedOutInAnOutageAfterIt) {
  StartWithStandby();
  // No write fails before both ADDs are answered, because after a failed write each ADD waits for its write.
  std::atomic<bool> are_answered = false;
  const auto fail = [&are_answered](const Request&) { return are_answered.wait(false), ApiFault::kUnavailable; };
  api_.SetFaults(fail);
  EXPECT_TRUE(Add("c1").ok && Add("c2").ok);
  are_answered = true;
  are_answered.notify_all();
  ASSERT_TRUE(Del("c2").ok);
  api_.SetFaults(nullptr);
  AwaitWritten("c1");
  Await([this] { return Debug()["journal"].empty(); }, "the DEL is written");
  EXPECT_FALSE(IsWritten("c2"));
}

struct LossCase {
  const char* name;
  ApiFault fault;
};
class StandbyLoss : public StandbyTest, public testing::WithParamInterface<LossCase> {};

TEST_P(StandbyLoss, OfTheAnswerNeitherLeaksNorDoubles) {
  StartWithStandby();
  FailPatches({GetParam().fault});
  const std::string address = AddressIn(Add("c1"));
  AwaitAllWritten();
  api_.ReleaseLateWrites();
  EXPECT_EQ(AddressIn(Add("c1")), address);
  EXPECT_TRUE(IsWritten("c1"));
  ASSERT_TRUE(Del("c1").ok);
  Await([this] { return !IsWritten("c1"); }, "the DEL is written");
}

TEST_P(StandbyLoss, OfTheAnswerBeforeADelLeavesNothing) {
  StartWithStandby();
  FailPatches({GetParam().fault});
  ASSERT_TRUE(Add("c1").ok);
  ASSERT_TRUE(Del("c1").ok);
  Await([this] { return Debug()["journal"].empty() && Debug()["handedOut"].empty(); }, "all is written");
  api_.ReleaseLateWrites();
  EXPECT_FALSE(IsWritten("c1"));
}

INSTANTIATE_TEST_SUITE_P(Table, StandbyLoss,
                         testing::Values(LossCase{"AfterTheCommit", ApiFault::kLostAfterCommit},
                                         LossCase{"BeforeALateCommit", ApiFault::kLateCommit},
                                         LossCase{"NothingHappened", ApiFault::kUnavailable}),
                         [](const auto& c) { return std::string(c.param.name); });

TEST_F(StandbyTest, AnAgentThatWasReplacedHandsOutNothing) {
  StartWithStandby();
  const auto newer = MakeAgentOf(watched_, {.standby = kStandbyOfAgent});
  newer->Start();
  Await([&] { return newer->IsReady(); }, "the newer agent is ready");
  EXPECT_FALSE(Add("c1").ok);
}

TEST_F(StandbyTest, TheNewerAgentWritesWhatTheOlderAgentHandedOut) {
  StartWithStandby();
  HoldPatches();
  const std::string address = AddressIn(Add("c1"));
  const auto newer = MakeAgentOf(watched_, {.standby = kStandbyOfAgent});
  newer->Start();
  Go();
  EXPECT_EQ(AddressIn(newer->Handle(Body("ADD", "c1"))), address);
  EXPECT_NE(AddressIn(newer->Handle(Body("ADD", "c2"))), address);
}

TEST_F(StandbyTest, WhatWasHandedOutOfABlockThatIsBeingDeletedIsWrittenAndNothingElseIsOnStandby) {
  StartWithStandby();
  HoldPatches();
  ASSERT_TRUE(Add("c1").ok);
  const std::string name = api_.Objects(kBlocks)[0]["metadata"]["name"];
  ASSERT_TRUE(api_.Call({.method = Method::kDelete, .path = kBlocks + "/" + name}, {})->ok());
  Go();
  AwaitWritten("c1");
  Await([this] { return Standby().empty(); }, "nothing is on standby");
}

TEST_F(StandbyTest, AddressesThatThePoolNoLongerAssignsLeaveStandby) {
  StartWithStandby();
  const json block = api_.Objects(kBlocks)[0];
  const auto base = ipam::Prefix::Parse(block["spec"]["cidr"].get<std::string>()).value();
  const int offset = Standby().front();
  const std::string withheld = base.At(static_cast<std::uint32_t>(offset)).ToString();
  ASSERT_TRUE(
      api_.Change(std::string(crds::kPoolsPath), "p1", [&](json& pool) { pool["status"]["withheld"] = {withheld}; }));
  Await(
      [&] {
        const std::vector<int> standby = Standby();
        return std::ranges::find(standby, offset) == standby.end();
      },
      "the address is not on standby");
}

// The other entries are written, and no other pod gets the refused address.
TEST_F(StandbyTest, ARefusedEntryDoesNotStopOtherEntries) {
  StartWithStandby();
  api_.SetFaults([](const Request& request) {
    const bool is_refused =
        request.method == Method::kPatch && request.body.find(AttachmentOfContainer("c1")) != std::string::npos;
    return is_refused ? ApiFault::kInvalid : ApiFault::kNone;
  });
  const std::string address = AddressIn(Add("c1"));
  ASSERT_TRUE(Add("c2").ok);
  AwaitWritten("c2");
  std::set<std::string> others;
  for (int i = 3; i < 20; ++i) others.insert(AddressIn(Add("c" + std::to_string(i))));
  EXPECT_EQ(others.size(), 17U);
  EXPECT_FALSE(others.contains(address));
  EXPECT_FALSE(IsWritten("c1"));
  api_.SetFaults(nullptr);
  AwaitWritten("c1");
}

TEST_F(StandbyTest, ARefusedAddDoesNotHarmHandedOutAddresses) {
  StartWithStandby();
  api_.SetFaults([this](const Request& request) {
    if (request.method != Method::kPatch) return ApiFault::kNone;
    if (request.body.find(AttachmentOfContainer("bad")) != std::string::npos) return ApiFault::kInvalid;
    return may_go_ ? ApiFault::kNone : ApiFault::kUnavailable;
  });
  ASSERT_TRUE(Add("c1").ok);
  // After the first failed patch, each ADD waits for its own write.
  int number = 1;
  Await([&] { return !AddWithin("c" + std::to_string(++number), 1).ok; }, "an ADD fails");
  const Reply refused = Add("bad");
  EXPECT_FALSE(refused.ok);
  EXPECT_NE(refused.body.find("422"), std::string::npos) << refused.body;
  may_go_ = true;
  AwaitWritten("c1");
}

// Like an API server whose CRD does not know the field `standby`.
class PruningApi final : public k8sclient::Api {
 public:
  explicit PruningApi(k8sclient::Api& inner) : inner_(inner) {}
  Expected<k8sclient::Response> Call(const Request& request, const k8sclient::CallOptions& options) override {
    Request pruned = request;
    json body = json::parse(request.body, nullptr, false);
    if (body.is_object() && body.erase("standby") > 0) pruned.body = body.dump();
    return inner_.Call(pruned, options);
  }
  Expected<k8sclient::Response> Watch(const Request& request, const k8sclient::WatchOptions& options,
                                      const k8sclient::WatchSink& sink) override {
    return inner_.Watch(request, options, sink);
  }

 private:
  k8sclient::Api& inner_;
};

TEST_F(StandbyTest, WithACrdThatDropsTheFieldEveryAddWaitsForItsWrite) {
  PruningApi pruning(watched_);
  StartStandbyAgent(&pruning);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(Add("c" + std::to_string(i)).ok);
  FaultPatches(ApiFault::kUnavailable);
  EXPECT_FALSE(AddWithin("one-more", 1).ok);
  agent_.reset();
}

TEST_F(StandbyTest, AGcFreesAnUnwrittenAddress) {
  StartWithStandby();
  HoldPatches();
  Reply added = Add("c1");
  ASSERT_TRUE(added.ok);
  added = {};  // the answer was delivered: no ADD runs
  // GC leaves addresses alone that were taken in the same millisecond.
  const auto then = k8sclient::RealClock().WallNow();
  Await([&] { return k8sclient::RealClock().WallNow() > then + std::chrono::milliseconds(1); }, "time goes on");
  auto body = json::parse(Body("GC", ""));
  body["containerID"] = "";
  body["ifname"] = "";
  body["config"]["cni.dev/valid-attachments"] = json::array();
  std::jthread collecting([&] { EXPECT_TRUE(agent_->Handle(body.dump()).ok); });
  Go();
  collecting.join();
  AwaitAllWritten();
  EXPECT_TRUE(Held().empty());
  EXPECT_EQ(Notes(), 0U);
}

}  // namespace
}  // namespace berth::agent
