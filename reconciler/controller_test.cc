// SPDX-License-Identifier: Apache-2.0
// The loop against an API server in memory: whole sequences, conflicts, lost answers and outdated views.
#include "reconciler/controller.h"

#include <functional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reconciler/controller_test_setup.h"

namespace berth::reconciler {
namespace {

using k8sclient::testing::ApiFault;

TEST_F(ControllerTest, AcceptsAPool) {
  PutPool("web", {{"subnet", "10.55.0.0/24"}, {"gateway", "10.55.0.1"}});
  Settle();
  EXPECT_EQ(ReadyOf("web"), "True/Accepted");
  EXPECT_EQ(Pool("web")["status"]["withheld"], json::array({"10.55.0.1"}));
  EXPECT_EQ(Pool("web")["metadata"]["finalizers"], json::array({crds::kPoolFinalizer}));
  const json space = Space("default");
  EXPECT_EQ(space["status"]["pools"], 1);
  EXPECT_EQ(space["status"]["accepted"][0]["uid"], Pool("web")["metadata"]["uid"]);
}

TEST_F(ControllerTest, WritesNothingWhenNothingChanges) {
  PutPool("web", {{"subnet", "10.55.0.0/24"}});
  PutPool("bad", {{"subnet", "10.66.0.0/24"}, {"exclude", {"10.66.0.0/24"}}});
  PutReservation("r", {{"addresses", {"10.55.0.9"}}});
  PutBlock("web", "10.55.0.0/26", {{"3", kHeldEntry}});
  Settle();
  const int before = Writes();
  for (int i = 0; i < 50; ++i) {
    clock_.Advance(std::chrono::seconds(5));
    RunPass();
  }
  EXPECT_EQ(Writes(), before);
}

TEST_F(ControllerTest, OfTwoConflictingPoolsTheSecondIsAcceptedOnceTheFirstIsGone) {
  PutPool("a", {{"subnet", "10.55.0.0/24"}});
  PutPool("b", {{"subnet", "10.55.0.0/16"}, {"blockSize", 28}});
  Settle();
  EXPECT_EQ(ReadyOf("a"), "True/Accepted");
  EXPECT_EQ(ReadyOf("b"), "False/BlockSizeConflict");
  Delete(crds::kPoolsPath, "a");
  Settle();
  EXPECT_FALSE(Exists(crds::kPoolsPath, "a"));
  EXPECT_EQ(ReadyOf("b"), "True/Accepted");
}

TEST_F(ControllerTest, ADeletedPoolWaitsForItsLastAddress) {
  PutPool("web", {{"subnet", "10.55.0.0/24"}});
  Settle();
  PutBlock("web", "10.55.0.0/26", {{"3", kHeldEntry}});
  PutBlock("web", "10.55.0.64/26", json::object());
  Delete(crds::kPoolsPath, "web");
  Settle();
  EXPECT_EQ(ReadyOf("web"), "False/Deleting");
  EXPECT_TRUE(Exists(crds::kBlocksPath, "10.55.0.0-26"));
  EXPECT_FALSE(Exists(crds::kBlocksPath, "10.55.0.64-26")) << "it is empty";
  EXPECT_EQ(Space("default")["status"]["pools"], 1);
  SetEntry("10.55.0.0-26", "3", nullptr);
  Settle();
  EXPECT_FALSE(Exists(crds::kBlocksPath, "10.55.0.0-26"));
  EXPECT_FALSE(Exists(crds::kPoolsPath, "web"));
  EXPECT_FALSE(Exists(crds::kSpacesPath, "default")) << "nothing names it any more";
}

TEST_F(ControllerTest, ABlockThatShowsUpOnlyInTheConsistentListKeepsItsPool) {
  PutPool("web", {{"subnet", "10.55.0.0/24"}});
  Settle();
  Delete(crds::kPoolsPath, "web");
  Deliver();
  // The node that claimed the block was faster, and the watch is late.
  PutBlock("web", "10.55.0.0/26", {{"3", kHeldEntry}});
  for (int i = 0; i < 20; ++i) {
    RunPassWithoutNews();
    clock_.Advance(std::chrono::seconds(2));
  }
  EXPECT_TRUE(Exists(crds::kPoolsPath, "web"));
  EXPECT_EQ(Space("default")["status"]["pools"], 1);
}

TEST_F(ControllerTest, ABlockDeletedByHandWaitsForItsLastAddress) {
  PutPool("web", {{"subnet", "10.55.0.0/24"}});
  PutBlock("web", "10.55.0.0/26", {{"3", kHeldEntry}});
  Settle();
  Delete(crds::kBlocksPath, "10.55.0.0-26");
  Settle();
  EXPECT_TRUE(Exists(crds::kBlocksPath, "10.55.0.0-26"));
  SetEntry("10.55.0.0-26", "3", nullptr);
  Settle();
  EXPECT_FALSE(Exists(crds::kBlocksPath, "10.55.0.0-26"));
  EXPECT_EQ(ReadyOf("web"), "True/Accepted");
}

TEST_F(ControllerTest, AnEntryThatComesAtTheLastMomentKeepsTheBlock) {
  PutPool("web", {{"subnet", "10.55.0.0/24"}});
  PutBlock("web", "10.55.0.0/26", json::object());
  Settle();
  Delete(crds::kBlocksPath, "10.55.0.0-26");
  Deliver();
  SetEntry("10.55.0.0-26", "3", kHeldEntry);
  RunPassWithoutNews();
  EXPECT_TRUE(Exists(crds::kBlocksPath, "10.55.0.0-26"));
}

TEST_F(ControllerTest, AReservedAddressIsWithheldAndHasAnEntryUntilTheReservationIsDeleted) {
  PutPool("web", {{"subnet", "10.55.0.0/24"}});
  PutBlock("web", "10.55.0.0/26", {{"3", kHeldEntry}});
  PutReservation("r", {{"addresses", {"10.55.0.3-10.55.0.5"}}});
  Settle();
  EXPECT_EQ(EntryAt("10.55.0.0-26", "3"), kHeldEntry);
  EXPECT_EQ(EntryAt("10.55.0.0-26", "4"), "! r");
  EXPECT_EQ(Pool("web")["status"]["withheld"], json::array({"10.55.0.3-10.55.0.5"}));
  SetEntry("10.55.0.0-26", "3", nullptr);
  Settle();
  EXPECT_EQ(EntryAt("10.55.0.0-26", "3"), "! r") << "it follows when the address is given back";
  Delete(crds::kReservationsPath, "r");
  Settle();
  EXPECT_EQ(EntryAt("10.55.0.0-26", "4"), "");
  EXPECT_EQ(Pool("web")["status"]["withheld"], json::array());
  EXPECT_EQ(Space("default")["status"]["withheld"], json::array());
}

TEST_F(ControllerTest, AReservedEntryIsRemovedFromABlockThatItsNodeChangesAllTheTime) {
  PutPool("web", {{"subnet", "10.55.0.0/24"}});
  PutBlock("web", "10.55.0.0/26", json::object());
  PutReservation("r", {{"addresses", {"10.55.0.4"}}});
  Settle();
  Delete(crds::kReservationsPath, "r");
  Deliver();
  for (int i = 0; i < 5 && !EntryAt("10.55.0.0-26", "4").empty(); ++i) {
    SetEntry("10.55.0.0-26", "9", i % 2 == 0 ? json(kHeldEntry) : json());
    RunPassWithoutNews();
    clock_.Advance(std::chrono::seconds(10));
  }
  EXPECT_EQ(EntryAt("10.55.0.0-26", "4"), "");
}

TEST_F(ControllerTest, APassSpendsAboutTenSecondsOnBlocksIfEachWriteIsSlow) {
  PutPool("web", {{"subnet", "10.55.0.0/16"}});
  for (int i = 0; i < 20; ++i) PutBlock("web", "10.55." + std::to_string(i) + ".0/26", json::object());
  Settle();
  PutReservation("r", {{"addresses", {"10.55.0.0/16"}}});
  server_->SetFaults([&](const k8sclient::Request& request) {
    if (request.method == k8sclient::Method::kPatch && request.path.starts_with(crds::kBlocksPath))
      clock_.Advance(std::chrono::milliseconds(1500));
    return ApiFault::kNone;
  });
  Deliver();
  const auto before = clock_.Now();
  RunPassWithoutNews();
  EXPECT_LT(clock_.Now() - before, std::chrono::seconds(13));
  Settle();
  EXPECT_EQ(EntryAt("10.55.19.0-26", "4"), "! r");
}

TEST_F(ControllerTest, EachPoolGetsItsStatusInOnePassThoughEachWriteIsSlow) {
  constexpr int kPools = 40;
  const auto name = [](int i) { return "p" + std::to_string(i); };
  for (int i = 0; i < kPools; ++i) PutPool(name(i), {{"subnet", "10." + std::to_string(i) + ".0.0/24"}});
  Settle();
  PutReservation("r", {{"addresses", {"10.0.0.0/8"}}});
  server_->SetFaults([&](const k8sclient::Request& request) {
    if (request.method == k8sclient::Method::kPatch) clock_.Advance(std::chrono::milliseconds(1500));
    return ApiFault::kNone;
  });
  RunPass();  // the status of the space
  RunPass();
  for (int i = 0; i < kPools; ++i) EXPECT_NE(Pool(name(i))["status"]["withheld"], json::array()) << i;
}

TEST_F(ControllerTest, AReservationEndsAtItsTime) {
  PutPool("web", {{"subnet", "10.55.0.0/24"}});
  PutBlock("web", "10.55.0.0/26", json::object());
  const auto wall = clock_.WallNow().time_since_epoch() + std::chrono::hours(1);
  const auto end = std::chrono::duration_cast<std::chrono::milliseconds>(wall).count();
  PutReservation("r", {{"addresses", {"10.55.0.4"}}, {"expires", FormatTimestamp(end)}});
  Settle();
  EXPECT_EQ(EntryAt("10.55.0.0-26", "4"), "! r");
  const auto now = clock_.WallNow().time_since_epoch();
  clock_.Advance(std::chrono::duration_cast<std::chrono::milliseconds>(wall - now) - std::chrono::seconds(20));
  EXPECT_LE(RunPass(), clock_.Now() + std::chrono::seconds(20)) << "nothing else would wake it";
  EXPECT_EQ(EntryAt("10.55.0.0-26", "4"), "! r");
  clock_.Advance(std::chrono::seconds(20));
  RunPass();
  EXPECT_EQ(EntryAt("10.55.0.0-26", "4"), "");
}

TEST_F(ControllerTest, AReservationThatAStaleWatchLacksStaysInForce) {
  PutPool("web", {{"subnet", "10.55.0.0/24"}});
  PutBlock("web", "10.55.0.0/26", json::object());
  Settle();
  PutReservation("r", {{"addresses", {"10.55.0.4"}}});
  Settle();
  // The watches of this second leader have shown everything but the reservation.
  Mailbox other_mailbox;
  Controller other(*server_, server_clock_, other_mailbox, metrics_);
  DeliverTo(other_mailbox);
  other_mailbox.Replace(std::map<std::string, SeenReservation>());
  for (int i = 0; i < 5; ++i) static_cast<void>(other.RunPass({}));
  EXPECT_EQ(EntryAt("10.55.0.0-26", "4"), "! r");
  EXPECT_EQ(Pool("web")["status"]["withheld"], json::array({"10.55.0.4"}));
}

TEST_F(ControllerTest, TwoLeadersDoNotAcceptTwoPoolsThatConflict) {
  Mailbox other_mailbox;
  Controller other(*server_, server_clock_, other_mailbox, metrics_);
  PutPool("a", {{"subnet", "10.55.0.0/24"}});
  Settle();
  Delete(crds::kPoolsPath, "a");
  Settle();
  PutPool("b", {{"subnet", "10.55.0.0/24"}});
  for (int i = 0; i < 3; ++i) RunPass();
  DeliverTo(other_mailbox);
  PutPool("c", {{"subnet", "10.55.0.0/24"}, {"blockSize", 28}});
  for (int i = 0; i < 5; ++i) {
    static_cast<void>(other.RunPass({}));
    RunPass();
    DeliverTo(other_mailbox);
    clock_.Advance(std::chrono::seconds(2));
  }
  EXPECT_EQ(Space("default")["status"]["pools"], 1);
}

TEST_F(ControllerTest, ADeletedSpaceStaysAndAcceptsPoolsWhileItHasPools) {
  PutPool("web", {{"subnet", "10.55.0.0/24"}});
  Settle();
  Delete(crds::kSpacesPath, "default");
  Settle();
  EXPECT_EQ(Space("default")["status"]["pools"], 1);
  PutPool("more", {{"subnet", "10.66.0.0/24"}});
  Settle();
  EXPECT_EQ(ReadyOf("more"), "True/Accepted");
}

TEST_F(ControllerTest, ALostSpaceIsCreatedAgainWithItsReadyPools) {
  PutPool("web", {{"subnet", "10.55.0.0/24"}});
  Settle();
  server_->Change(
      std::string(crds::kSpacesPath), "default", [](json& space) { space["metadata"].erase("finalizers"); });
  Delete(crds::kSpacesPath, "default");
  ASSERT_FALSE(Exists(crds::kSpacesPath, "default"));
  PutPool("a-rival", {{"subnet", "10.55.0.0/16"}, {"blockSize", 28}});
  Settle();
  EXPECT_EQ(ReadyOf("web"), "True/Accepted");
  EXPECT_EQ(ReadyOf("a-rival"), "False/BlockSizeConflict");
  EXPECT_EQ(Space("default")["status"]["accepted"][0]["pool"], "web");
}

struct NamedFault {
  const char* name;
  ApiFault fault;
};
const NamedFault kFaults[] = {
    {"Unavailable", ApiFault::kUnavailable},
    {"LostAfterCommit", ApiFault::kLostAfterCommit},
    {"LateCommit", ApiFault::kLateCommit},
    {"Invalid", ApiFault::kInvalid},
    {"Forbidden", ApiFault::kForbidden},
};
// One fault at each request of a sequence, one after another: the end is the same.
class ControllerFaults : public ControllerTest, public testing::WithParamInterface<NamedFault> {};

TEST_P(ControllerFaults, AtAnyRequestOnlyDelayTheResult) {
  int requests = 1;
  for (int at = 0; at < requests; ++at) {
    SCOPED_TRACE("fault at request " + std::to_string(at));
    Reset();
    int number = 0;
    Tell([&] {
      const int mine = number++;
      requests = std::max(requests, number);
      return mine == at ? GetParam().fault : ApiFault::kNone;
    });
    EXPECT_FALSE(Exists(crds::kPoolsPath, "gone"));
    EXPECT_FALSE(Exists(crds::kBlocksPath, "10.66.0.0-26"));
    EXPECT_EQ(ReadyOf("web"), "True/Accepted");
    EXPECT_EQ(EntryAt("10.55.0.0-26", "4"), "! r");
    EXPECT_EQ(EntryAt("10.55.0.0-26", "3"), kHeldEntry);
    EXPECT_EQ(Space("default")["status"]["accepted"].size(), 1U);
  }
  EXPECT_GT(requests, 20);
}

INSTANTIATE_TEST_SUITE_P(Table, ControllerFaults, testing::ValuesIn(kFaults),
                         [](const auto& c) { return std::string(c.param.name); });

TEST_F(ControllerTest, AnUnreachableServerIsNotAskedOnceForEachObject) {
  for (int i = 0; i < 20; ++i) PutPool("p" + std::to_string(i), {{"subnet", "10." + std::to_string(i) + ".0.0/24"}});
  Deliver();
  int requests = 0;
  server_->SetFaults([&](const k8sclient::Request&) {
    ++requests;
    return ApiFault::kUnavailable;
  });
  RunPassWithoutNews();
  EXPECT_EQ(requests, 1);
  RunPassWithoutNews();
  EXPECT_EQ(requests, 1) << "it is given time";
  clock_.Advance(std::chrono::seconds(31));
  RunPassWithoutNews();
  EXPECT_EQ(requests, 2);
}

TEST_F(ControllerTest, DecidesNothingBeforeEveryKindWasListed) {
  PutPool("web", {{"subnet", "10.55.0.0/24"}});
  Mailbox half;
  Controller other(*server_, server_clock_, half, metrics_);
  half.Replace(std::map<std::string, SeenPool>{{"web", ReadPool(Pool("web")).value()}});
  static_cast<void>(other.RunPass({}));
  EXPECT_EQ(Writes(), 0);
}

// A client that may change such an object may have written these, or the API server had a CRD without its rules.
TEST_F(ControllerTest, AnUnreadableObjectDoesNotHoldUpOtherObjects) {
  PutPool("sick", {{"subnet", "10.77.0.0/24"}, {"space", "sick"}});
  PutPool("well", {{"subnet", "10.55.0.0/24"}});
  Settle();
  const auto put = [this](std::string_view kind, const json& object) { server_->Put(std::string(kind), object); };
  put(crds::kBlocksPath, {{"metadata", {{"name", "no name of a block"}}}});
  put(crds::kBlocksPath, {{"metadata", {{"name", "10.66.0.0-26"}}}, {"spec", 5}});
  put(crds::kPoolsPath, {{"metadata", {{"name", "unreadable"}}}, {"spec", {{"subnet", "oops"}}}});
  put(crds::kReservationsPath, {{"metadata", {{"name", "unreadable"}}}, {"spec", {{"addresses", 5}}}});
  server_->Change(std::string(crds::kSpacesPath), "sick", [](json& space) { space["status"]["accepted"] = "oops"; });
  const std::string sick_space = Space("sick").dump();
  PutBlock("well", "10.55.0.0/26", {{"3", kHeldEntry}});
  server_->Change(std::string(crds::kBlocksPath), "10.55.0.0-26", [](json& block) {
    for (int i = 0; i < 4097; ++i) block["metadata"]["annotations"]["a" + std::to_string(i)] = "x";
    for (int i = 0; i < 257; ++i) block["metadata"]["finalizers"].push_back("example.org/f" + std::to_string(i));
  });
  PutPool("newcomer", {{"subnet", "10.88.0.0/24"}});
  PutPool("newcomer-to-sick", {{"subnet", "10.78.0.0/24"}, {"space", "sick"}});
  Settle();
  EXPECT_EQ(ReadyOf("newcomer"), "True/Accepted") << "consistent lists must not fail";
  EXPECT_EQ(Pool("well")["status"]["used"], "1");
  EXPECT_EQ(ReadyOf("sick"), "True/Accepted") << "what the space had accepted stays";
  EXPECT_EQ(ReadyOf("newcomer-to-sick"), "False/SpaceUnreadable");
  EXPECT_EQ(Space("sick").dump(), sick_space) << "left alone";
  Delete(crds::kPoolsPath, "sick");
  Settle();
  EXPECT_TRUE(Exists(crds::kPoolsPath, "sick")) << "the space may still have it in its list";
}

TEST_F(ControllerTest, APoolThatIsAlmostFullCausesOneEventPerMinuteAndReason) {
  PutPool("web", {{"subnet", "10.55.0.0/29"}, {"blockSize", 29}, {"allowEdgeAddresses", true}});
  Settle();
  json entries;
  for (int i = 0; i < 7; ++i) entries[std::to_string(i)] = kHeldEntry;
  PutBlock("web", "10.55.0.0/29", entries);
  for (int i = 0; i < 40; ++i) {
    SetEntry("10.55.0.0-29", "7", i % 2 == 0 ? json(kHeldEntry) : json(nullptr));
    RunPass();
    clock_.Advance(std::chrono::seconds(1));
  }
  EXPECT_THAT(Events(), testing::Contains("web NoAddressLeft").Times(1));
  EXPECT_THAT(Events(), testing::Contains("web AllBlocksClaimed").Times(testing::Le(1)));
  clock_.Advance(std::chrono::minutes(1));
  SetEntry("10.55.0.0-29", "7", kHeldEntry);
  for (int i = 0; i < 3; ++i) RunPass();
  EXPECT_THAT(Events(), testing::Contains("web NoAddressLeft").Times(2)) << "what lasts is told of again";
}

TEST_F(ControllerTest, ARefusedEventDoesNotKeepOtherEventsFromBeingWritten) {
  for (const ApiFault fault : {ApiFault::kInvalid, ApiFault::kForbidden}) {
    Reset();
    PutPool("a", {{"subnet", "10.55.0.0/24"}});
    PutPool("b", {{"subnet", "10.66.0.0/24"}});
    int events = 0;
    server_->SetFaults([&](const k8sclient::Request& request) {
      const bool is_first = request.path == kEventsPath && ++events == 1;
      return is_first ? fault : ApiFault::kNone;
    });
    Settle();
    EXPECT_THAT(Events(), testing::Contains("b Accepted"));
  }
}

TEST_F(ControllerTest, StopsInTheMiddleOfAPassWhenStopIsRequested) {
  for (int i = 0; i < 20; ++i) PutPool("p" + std::to_string(i), {{"subnet", "10." + std::to_string(i) + ".0.0/24"}});
  Deliver();
  std::stop_source stop;
  server_->SetFaults([&](const k8sclient::Request&) {
    stop.request_stop();
    return ApiFault::kNone;
  });
  static_cast<void>(controller_->RunPass(stop.get_token()));
  EXPECT_EQ(Writes(), 1);
}

}  // namespace
}  // namespace berth::reconciler
