// SPDX-License-Identifier: Apache-2.0
// Lost entries: what is put back and when, and what is only reported.
#include "reconciler/decide_lost.h"

#include <algorithm>
#include <string>
#include <variant>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reconciler/world_test_setup.h"

namespace berth::reconciler {
namespace {

using std::chrono::seconds;
using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;

constexpr char kLostUid[] = "11111111-2222-3333-4444-555555555555";
constexpr char kMine[] =
    "default/web 11111111-2222-3333-4444-555555555555 0123456789ab-0123456789abcdef i=eth0 t=1799999999000";

SeenPod LivePod() {
  return {.name_space = "default",
          .name = "web",
          .uid = kLostUid,
          .node = "n1",
          .addresses = {ipam::Address::Parse("10.55.0.3").value()},
          .has_sandbox = true};
}

struct StateCase {
  const char* name;
  const char* entry;  // the entry at the pod's address; "": none
  bool is_standby;
  bool is_deleting;
  AddressState want;
};
class AddressStateTest : public testing::TestWithParam<StateCase> {};

TEST_P(AddressStateTest, IsWhatTheBlocksEntrySaysAboutThePod) {
  const StateCase& c = GetParam();
  TestWorld t;
  std::map<ipam::BlockOffset, std::string> entries;
  if (*c.entry != '\0') entries[3] = c.entry;
  BlockTraits traits{.is_deleting = c.is_deleting};
  if (c.is_standby) traits.standby = {3};
  t.Block("10.55.0.0/26", "web", entries, traits);
  const SeenPod pod = LivePod();
  EXPECT_EQ(StateOf(pod, pod.addresses.front(), *t.world.blocks().at("10.55.0.0-26").block), c.want);
}

const StateCase kStateCases[] = {
    {"Its", kMine, false, false, AddressState::kRecorded},
    {"ItsThoughTheUidIsUnknown",
     "default/web - 0123456789ab-0123456789abcdef i=eth0 t=1",
     false,
     false,
     AddressState::kRecorded},
    {"Nobodys", "", false, false, AddressState::kLost},
    {"Cooling", "~ t=1900000000000 f=0123456789ab-0123456789abcdef", false, false, AddressState::kLost},
    {"Anothers", kHeldEntry, false, false, AddressState::kContested},
    {"OfAnEarlierPodOfItsName",
     "default/web 99999999-2222-3333-4444-555555555555 0123456789ab-0123456789abcdef i=eth0 t=1",
     false,
     false,
     AddressState::kContested},
    {"OfAPodOfItsNameInAnotherNamespace",
     "team/web - 0123456789ab-0123456789abcdef i=eth0 t=1",
     false,
     false,
     AddressState::kContested},
    {"OfAPodThatNobodyKnows", "-/- - 0123456789ab-0123456789abcdef i=eth0 t=1", false, false, AddressState::kLeftAlone},
    {"OfAPodWithoutAName",
     "default/- - 0123456789ab-0123456789abcdef i=eth0 t=1",
     false,
     false,
     AddressState::kLeftAlone},
    {"OnStandby", "", true, false, AddressState::kLeftAlone},
    {"Reserved", "! r", false, false, AddressState::kLost},
    {"NotUnderstood", "what is this", false, false, AddressState::kLeftAlone},
    {"InABlockThatIsGoing", "", false, true, AddressState::kLeftAlone},
};
INSTANTIATE_TEST_SUITE_P(Table, AddressStateTest, testing::ValuesIn(kStateCases),
                         [](const auto& c) { return std::string(c.param.name); });

// A block must stay if it lacks the entry of a pod's address. The pod has one address in each of two blocks.
struct LostInCase {
  const char* name;
  const char* ipv4_entry;  // "": none
  const char* ipv6_entry;
  bool is_lost_in_ipv4;
  bool is_lost_in_ipv6;
};
class DualStackPodTest : public testing::TestWithParam<LostInCase> {};

TEST_P(DualStackPodTest, IsLostInTheBlockThatLacksItsAddress) {
  const LostInCase& c = GetParam();
  TestWorld t;
  SeenPod pod = LivePod();
  pod.addresses.push_back(ipam::Address::Parse("2001:db8::5").value());
  t.world.pods.Put(pod, t.now.steady);
  // A pod without addresses comes first.
  t.world.pods.Put({.name_space = "default", .name = "a", .uid = "a", .node = "n1"}, t.now.steady);
  const auto put = [&](const char* cidr, ipam::BlockOffset offset, const std::string& entry) {
    t.Block(
        cidr, "web", entry.empty() ? std::map<ipam::BlockOffset, std::string>{} : std::map{std::pair(offset, entry)});
  };
  put("10.55.0.0/26", 3, c.ipv4_entry);
  put("2001:db8::/122", 5, c.ipv6_entry);
  PodAddresses addresses(t.world);
  EXPECT_EQ(addresses.AreLostIn(*t.world.blocks().at("10.55.0.0-26").block), c.is_lost_in_ipv4);
  EXPECT_EQ(addresses.AreLostIn(*t.world.blocks().at("2001-db8---122").block), c.is_lost_in_ipv6);
}

const LostInCase kLostInCases[] = {
    {"BothAreRecorded", kMine, kMine, false, false},
    {"TheIpv4AddressIsNot", "", kMine, true, false},
    {"TheIpv6AddressIsNot", kMine, "", false, true},
    {"NeitherIsRecorded", "", "", true, true},
};
INSTANTIATE_TEST_SUITE_P(Table, DualStackPodTest, testing::ValuesIn(kLostInCases),
                         [](const auto& c) { return std::string(c.param.name); });

class LostTest : public testing::Test {
 protected:
  LostTest() {
    t_.decider = Decider({.reclaim = Reclaim::kOn});
    t_.world.knows_holders = true;
    t_.Pool("web", {{"subnet", "10.55.0.0/24"}}, {.is_ready = true}).Space("default", {"web"});
    t_.world.nodes.Put({.name = "n1", .is_ready = true});
    // A pod without addresses comes first.
    t_.world.pods.Put({.name_space = "default", .name = "a", .uid = "a", .node = "n1"}, t_.now.steady);
    t_.world.pods.Put(LivePod(), t_.now.steady);
  }
  void PutBlock(std::map<ipam::BlockOffset, std::string> entries, const BlockTraits& traits = {}) {
    t_.Block("10.55.0.0/26", "web", std::move(entries), traits);
  }
  // Decides at once, and then when the controller would.
  void Pass(seconds time) {
    for (seconds passed{0}; passed < time; passed += seconds(1)) {
      t_.now.steady += seconds(1);
      t_.now.unix_ms += 1000;
      const bool is_due = decision_.wake_steady && *decision_.wake_steady <= t_.now.steady;
      if (passed > seconds(0) && !is_due) continue;
      decision_ = t_.Decide(/*relisted=*/false);
      t_.world.pods.ForgetTouched();
    }
  }
  [[nodiscard]] std::vector<std::string> PutBacks() const {
    std::vector<std::string> lines;
    for (const std::string& line : TestWorld::Describe(decision_)) {
      if (line.starts_with("put back ")) lines.push_back(line);
    }
    return lines;
  }
  [[nodiscard]] std::vector<std::string> Contested() const {
    std::vector<std::string> texts;
    if (!decision_.contested) return texts;
    for (const auto& [pool, addresses] : *decision_.contested) {
      for (const ContestedAddress& one : addresses) texts.push_back(one.text);
    }
    return texts;
  }

  TestWorld t_;
  Decision decision_;
};

TEST_F(LostTest, AnEntryThatSomebodyRemovedIsPutBackAfterAMinute) {
  PutBlock({{3, kMine}});
  Pass(seconds(100));
  PutBlock({});
  Pass(seconds(59));
  EXPECT_THAT(PutBacks(), IsEmpty());
  Pass(seconds(20));
  EXPECT_THAT(PutBacks(),
              ElementsAre("put back 10.55.0.0-26 10.55.0.3=default/web 000000000000-1111111122223333 of n1"));
}

TEST_F(LostTest, NothingIsPutBackIntoABlockThatCannotBeReadAnyMore) {
  PutBlock({});
  Pass(seconds(30));
  t_.UnreadableBlock("10.55.0.0-26", "uid-of-web");
  Pass(seconds(60));
  EXPECT_THAT(PutBacks(), IsEmpty());
}

TEST_F(LostTest, AnEntryIsPutBackWithTheTimeOfTheDecision) {
  PutBlock({});
  for (int i = 0; i < 100 && PutBacks().empty(); ++i) Pass(seconds(1));
  const auto action =
      std::ranges::find_if(decision_.actions, [](const Action& one) { return std::holds_alternative<PutBack>(one); });
  ASSERT_NE(action, decision_.actions.end());
  EXPECT_EQ(std::get<PutBack>(*action).entries.front().entry.since_ms, t_.now.unix_ms);
}

TEST_F(LostTest, TheEntryOfTheSecondFamilyIsAlsoPutBack) {
  SeenPod pod = LivePod();
  pod.addresses.push_back(ipam::Address::Parse("2001:db8::5").value());
  t_.world.pods.Put(pod, t_.now.steady);
  t_.UnreadableBlock("10.54.0.0-26", "uid-of-web");
  PutBlock({{3, kMine}});
  t_.Block("2001:db8::/122", "web6", {});
  Pass(seconds(80));
  EXPECT_THAT(PutBacks(),
              ElementsAre("put back 2001-db8---122 2001:db8::5=default/web 000000000000-1111111122223333 of n1"));
}

TEST_F(LostTest, AnEntryThatSomebodyRemovedJustAfterAComparisonIsAlsoPutBack) {
  PutBlock({{3, kMine}});
  Pass(seconds(1));
  PutBlock({});
  Pass(seconds(80));
  EXPECT_EQ(PutBacks().size(), 1U);
}

// If the reservation's entry stayed, no entry would record the pod once the reservation ends, and another pod could get
// the address.
TEST_F(LostTest, AnEntryIsPutBackInPlaceOfAReservation) {
  PutBlock({{3, "! printers"}});
  Pass(seconds(79));
  EXPECT_EQ(PutBacks().size(), 1U);
}

TEST_F(LostTest, NoEntryIsPutBackWhileTheNodeWritesAnyOfItsBlocks) {
  PutBlock({});
  for (int i = 0; i < 10; ++i) {
    t_.Block("10.55.0.64/26", "web", {{static_cast<ipam::BlockOffset>(i), kHeldEntry}});
    Pass(seconds(50));
    EXPECT_THAT(PutBacks(), IsEmpty());
  }
  Pass(seconds(11));
  EXPECT_EQ(PutBacks().size(), 1U);
}

TEST_F(LostTest, AnEntryIsPutBackThoughTheControllerItselfWroteTheBlock) {
  PutBlock({});
  for (int i = 10; i < 17; ++i) {
    PutBlock({{static_cast<ipam::BlockOffset>(i), kHeldEntry}}, {.is_own_write = true});
    Pass(seconds(10));
  }
  EXPECT_EQ(PutBacks().size(), 1U);
}

TEST_F(LostTest, AnEntryIsPutBackThoughAnotherNodeWritesItsBlocks) {
  PutBlock({});
  for (int i = 0; i < 3; ++i) {
    t_.Block("10.55.0.64/26", "web", {{static_cast<ipam::BlockOffset>(i), kHeldEntry}}, {.node = "n2"});
    Pass(seconds(30));
  }
  EXPECT_EQ(PutBacks().size(), 1U);
}

TEST_F(LostTest, TheEntryThatIsPutBackIntoASharedBlockNamesTheNode) {
  PutBlock({}, {.node = ""});
  Pass(seconds(90));
  EXPECT_THAT(PutBacks(),
              ElementsAre("put back 10.55.0.0-26 10.55.0.3=default/web 000000000000-1111111122223333 of n1 n=n1"));
}

// Every node writes Shared blocks, and no agent writes their entries again.
TEST_F(LostTest, AnEntryIsPutBackIntoASharedBlockThatOthersWrite) {
  for (int i = 10; i < 17; ++i) {
    PutBlock({{static_cast<ipam::BlockOffset>(i), kHeldEntry}}, {.node = ""});
    Pass(seconds(10));
  }
  EXPECT_EQ(PutBacks().size(), 1U);
}

TEST_F(LostTest, NoEntryIsPutBackForAPodWithoutAnAddressOfItsOwn) {
  PutBlock({});
  SeenPod pod = LivePod();
  pod.is_host_network = true;
  t_.world.pods.Put(pod, t_.now.steady);
  Pass(seconds(200));
  EXPECT_THAT(PutBacks(), IsEmpty());
  pod = LivePod();
  pod.is_terminal = true;
  t_.world.pods.Put(pod, t_.now.steady);
  Pass(seconds(200));
  EXPECT_THAT(PutBacks(), IsEmpty());
}

// The pod's sandbox ended, DEL freed the address, and no ADD has got another yet. The kubelet still reports the old
// address.
TEST_F(LostTest, NoEntryIsPutBackForAPodWhoseSandboxHasEnded) {
  PutBlock({});
  SeenPod pod = LivePod();
  pod.has_sandbox = false;
  t_.world.pods.Put(pod, t_.now.steady);
  Pass(seconds(200));
  EXPECT_THAT(PutBacks(), IsEmpty());
  PutBlock({{3, kHeldEntry}});
  Pass(seconds(200));
  EXPECT_THAT(Contested(), IsEmpty()) << "the other alone has it";
}

// Nothing would free the entry: no DEL finds it, and a missing mirror does not prove that the pod is gone.
TEST_F(LostTest, NoEntryIsPutBackForAStaticPodButItsContestedAddressIsReported) {
  PutBlock({});
  SeenPod pod = LivePod();
  pod.config_hash = "0123456789abcdef0123456789abcdef";
  t_.world.pods.Put(pod, t_.now.steady);
  Pass(seconds(200));
  EXPECT_THAT(PutBacks(), IsEmpty());
  PutBlock({{3, kHeldEntry}});
  Pass(seconds(31));
  EXPECT_EQ(Contested().size(), 1U);
}

// The attachment of the entry is made from the UID.
TEST_F(LostTest, NoEntryIsPutBackForAPodWithAShortUid) {
  PutBlock({});
  SeenPod pod = LivePod();
  pod.uid = "11111111-2222-333";
  t_.world.pods.Put(pod, t_.now.steady);
  Pass(seconds(200));
  EXPECT_THAT(PutBacks(), IsEmpty());
}

TEST_F(LostTest, NoEntryIsPutBackOnceThePodHasAnotherAddress) {
  PutBlock({});
  Pass(seconds(75));
  EXPECT_EQ(PutBacks().size(), 1U);
  SeenPod pod = LivePod();
  pod.addresses = {ipam::Address::Parse("10.55.0.9").value()};
  t_.world.pods.Put(pod, t_.now.steady);
  for (int i = 0; i < 10; ++i) {
    Pass(seconds(1));
    EXPECT_THAT(PutBacks(), IsEmpty());
  }
}

TEST_F(LostTest, NoEntryIsPutBackIntoABlockOfAnotherNode) {
  PutBlock({}, {.node = "n2"});
  Pass(seconds(200));
  EXPECT_THAT(PutBacks(), IsEmpty());
}

TEST_F(LostTest, NoEntryIsPutBackIfTwoSpacesHaveTheAddress) {
  PutBlock({});
  t_.Block("10.55.0.0/26", "blue", {}, {.space = "blue"});
  Pass(seconds(200));
  EXPECT_THAT(PutBacks(), IsEmpty());
}

TEST_F(LostTest, NoEntryIsPutBackIfReclaimingIsOff) {
  t_.decider = Decider({.reclaim = Reclaim::kReport});
  PutBlock({});
  Pass(seconds(200));
  EXPECT_THAT(PutBacks(), IsEmpty());
}

TEST_F(LostTest, IfTheEntryNamesAnotherPodBothPodsAreReported) {
  PutBlock({{3, kHeldEntry}});
  Pass(seconds(19));
  EXPECT_THAT(Contested(), IsEmpty());
  Pass(seconds(12));
  EXPECT_THAT(Contested(),
              ElementsAre("10.55.0.3: default/web on n1 has the address, but the entry names default/web-1 on n1"));
  EXPECT_THAT(PutBacks(), IsEmpty());
  PutBlock({{3, kMine}});
  Pass(seconds(1));
  EXPECT_THAT(Contested(), IsEmpty());
}

// A new leader, or a controller that does not reclaim, says nothing about what another controller has found.
TEST_F(LostTest, ItIsUnknownForTwentySecondsWhetherAnAddressIsContested) {
  PutBlock({{3, kMine}});
  Pass(seconds(20));
  EXPECT_FALSE(decision_.contested.has_value());
  Pass(seconds(1));
  EXPECT_TRUE(decision_.contested.has_value());
  t_.decider = Decider({.reclaim = Reclaim::kReport});
  Pass(seconds(60));
  EXPECT_FALSE(decision_.contested.has_value());
}

// The watches of pods and blocks do not show the same moment, whatever was found before.
TEST_F(LostTest, AContestedAddressIsLoggedOnce) {
  PutBlock({{3, kHeldEntry}});
  Pass(seconds(31));
  EXPECT_THAT(TestWorld::Describe(decision_), Contains("report 1 contested"));
  t_.state.contested.insert(Contested().front());
  Pass(seconds(1));
  EXPECT_THAT(TestWorld::Describe(decision_), Not(Contains("report 1 contested")));
}

TEST_F(LostTest, AnAddressThatWasLostIsReportedOnlyAfterItWasContestedForTwentySeconds) {
  PutBlock({});
  Pass(seconds(50));
  PutBlock({{3, kHeldEntry}});
  Pass(seconds(20));
  EXPECT_THAT(Contested(), IsEmpty());
  Pass(seconds(11));
  EXPECT_EQ(Contested().size(), 1U);
}

TEST_F(LostTest, APodOfAnotherNodeWithTheAddressIsAlsoReported) {
  PutBlock({{3, kHeldEntry}}, {.node = "n2"});
  Pass(seconds(31));
  EXPECT_THAT(Contested(),
              ElementsAre("10.55.0.3: default/web on n1 has the address, but the entry names default/web-1 on n2"));
}

TEST_F(LostTest, AReportNamesThePredecessorsUidIfItHasTheSameName) {
  PutBlock({{3, "default/web 99999999-2222-3333-4444-555555555555 0123456789ab-0123456789abcdef i=eth0 t=1"}});
  Pass(seconds(31));
  EXPECT_THAT(Contested(),
              ElementsAre("10.55.0.3: default/web on n1 has the address, but the entry names default/web with "
                          "UID 99999999-2222-3333-4444-555555555555 on n1"));
}

TEST_F(LostTest, APodThatEndsWithinTwentySecondsContestsNoAddress) {
  PutBlock({{3, kHeldEntry}});
  Pass(seconds(15));
  t_.world.pods.Remove("default/web", t_.now.steady);
  Pass(seconds(60));
  EXPECT_THAT(Contested(), IsEmpty());
}

}  // namespace
}  // namespace berth::reconciler
