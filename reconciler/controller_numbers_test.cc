// SPDX-License-Identifier: Apache-2.0
// Address counts of Nodes against an API server in memory: what the controller writes, what fails, and what it tells.
#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reconciler/controller_orphans_test_setup.h"

namespace berth::reconciler {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using testing::ElementsAre;
using testing::HasSubstr;

const std::string kNodes(kNodesPath);
const std::string kNumber = "ipam.berth.dev/ipv4";

// Passes everything to another Api. A patch of a Node takes `takes` of the clock's time, but at most as long as the
// caller waits; if it takes that long, the caller gets no answer. A patch of a Node in `hanging` gets no answer.
class SlowNodesApi final : public k8sclient::Api {
 public:
  SlowNodesApi(k8sclient::Api& inner, k8sclient::testing::FakeClock& clock) : inner_(inner), clock_(clock) {}

  Expected<k8sclient::Response> Call(const k8sclient::Request& request,
                                     const k8sclient::CallOptions& options) override {
    const bool is_patch = request.method == k8sclient::Method::kPatch && request.path.starts_with(kNodes + "/");
    if (!is_patch) return inner_.Call(request, options);
    ++patches;
    // Before the model moves its clock, a caller's limit is a time span from now.
    const auto limit = std::chrono::ceil<seconds>(options.deadline - steady_clock::now());
    const bool hangs = takes >= limit || std::ranges::any_of(hanging, [&](const std::string& node) {
                         return request.path == kNodes + "/" + node + "/status";
                       });
    clock_.Advance(hangs ? limit : takes);
    if (hangs) return Fail(ErrorCode::kUnknownOutcome, "no answer");
    return inner_.Call(request, options);
  }
  Expected<k8sclient::Response> Watch(const k8sclient::Request& request, const k8sclient::WatchOptions& options,
                                      const k8sclient::WatchSink& sink) override {
    return inner_.Watch(request, options, sink);
  }

  milliseconds takes{0};
  std::vector<std::string> hanging;  // names of Nodes
  int patches = 0;

 private:
  k8sclient::Api& inner_;
  k8sclient::testing::FakeClock& clock_;
};

class ControllerNumbersTest : public ControllerOrphansTest {
 protected:
  ControllerNumbersTest() : ControllerOrphansTest({.reclaim = Reclaim::kOn, .counts = true}) {}

  void PutNode(const std::string& name) {
    const json resources = {{"cpu", "4"}, {"pods", "110"}};
    server_->Put(kNodes,
                 {{"metadata", {{"name", name}, {"labels", {{"kubernetes.io/hostname", name}}}}},
                  {"status",
                   {{"capacity", resources},
                    {"allocatable", resources},
                    {"conditions", {{{"type", "Ready"}, {"status", "True"}}}}}}});
  }
  void SetReady(const std::string& name, bool is_ready) {
    server_->Change(kNodes, name, [is_ready](json& node) {
      node["status"]["conditions"][0]["status"] = is_ready ? "True" : "False";
    });
  }
  // Somebody edits the Node. Empty: no number.
  void SetNumber(const std::string& name, const std::string& number) {
    server_->Change(kNodes, name, [&number](json& node) {
      for (const char* list : {"capacity", "allocatable"}) {
        node["status"][list].erase(kNumber);
        if (!number.empty()) node["status"][list][kNumber] = number;
      }
    });
  }
  [[nodiscard]] std::string NumberOf(const std::string& name) const {
    const json status = Object(kNodesPath, name).value("status", json::object());
    const std::string capacity = status.value("capacity", json::object()).value(kNumber, "none");
    const std::string allocatable = status.value("allocatable", json::object()).value(kNumber, "none");
    return capacity == allocatable ? capacity : capacity + " and " + allocatable;
  }
  // Gives the controller the Nodes as the watch shows them.
  void DeliverNodes() { mailbox_->Replace(ViewOf<SeenNode>(*server_, kNodesPath, ReadNode)); }
  void PassWithNodes(seconds time) {
    for (seconds passed{0}; passed < time; passed += seconds(1)) {
      DeliverNodes();
      Pass(seconds(1));
    }
  }
  // A controller that begins now.
  void StartAnew(k8sclient::Api& api, const Settings& settings) {
    controller_ = std::make_unique<Controller>(api, server_clock_, *mailbox_, metrics_, settings);
    mailbox_->Replace(std::map<PodKey, SeenPod>{{"default/web", ReadPod(PodObject(kPodUid)).value()}});
    mailbox_->Replace(std::map<std::string, SeenLease>{{"n1", {.node = "n1", .renewed = "0"}}});
    DeliverNodes();
  }
  // Runs passes for this time. Returns how long the longest pass took.
  milliseconds LongestPass(seconds time) {
    milliseconds longest{0};
    for (seconds passed{0}; passed < time; passed += seconds(1)) {
      const auto before = clock_.Now();
      PassWithNodes(seconds(1));
      longest = std::max(longest, std::chrono::duration_cast<milliseconds>(clock_.Now() - before) - seconds(1));
    }
    return longest;
  }
  [[nodiscard]] std::vector<std::string> EventsOfNode() const {
    std::vector<std::string> events;
    for (const json& event : server_->Objects(std::string(kEventsPath))) {
      if (event["involvedObject"]["kind"] == "Node") {
        events.push_back(event["involvedObject"]["name"].get<std::string>() + " " + event["type"].get<std::string>() +
                         " " + event["reason"].get<std::string>());
      }
    }
    return events;
  }

  SlowNodesApi slow_{*server_, clock_};
};

TEST_F(ControllerNumbersTest, TheControllerWritesACountAsCapacityAndAllocatable) {
  PutNode("n1");
  PassWithNodes(seconds(10));
  EXPECT_EQ(NumberOf("n1"), "62") << "64 addresses, of which one is the network's and a pod holds one";
  EXPECT_EQ(Object(kNodesPath, "n1")["status"]["capacity"]["cpu"], "4");
  EXPECT_THAT(metrics_.Text(), HasSubstr("berth_controller_node_writes_total 1\n"));
}

TEST_F(ControllerNumbersTest, TheControllerRemovesACountByNullInCapacityAndAllocatable) {
  PutNode("n1");
  const json without = Object(kNodesPath, "n1")["status"];
  SetNumber("n1", "62");
  std::vector<json> patches;
  server_->SetFaults([&patches](const k8sclient::Request& request) {
    if (request.path == kNodes + "/n1/status") patches.push_back(json::parse(request.body));
    return ApiFault::kNone;
  });
  StartAnew(*server_, {.reclaim = Reclaim::kOn, .counts = false});
  PassWithNodes(seconds(2));
  ASSERT_EQ(patches.size(), 1U);
  const json none = {{kNumber, nullptr}};
  EXPECT_EQ(patches[0]["status"], (json{{"capacity", none}, {"allocatable", none}}));
  EXPECT_EQ(Object(kNodesPath, "n1")["status"], without);
}

// The watch of Nodes lags: somebody has written the Node since.
TEST_F(ControllerNumbersTest, TheControllerDecidesAgainIfTheNodeHasChanged) {
  PutNode("n1");
  DeliverNodes();
  SetNumber("n1", "99");
  int patches = 0;
  server_->SetFaults([&patches](const k8sclient::Request& request) {
    patches += request.path == kNodes + "/n1/status" ? 1 : 0;
    return ApiFault::kNone;
  });
  Pass(seconds(6));
  EXPECT_GE(patches, 1);
  EXPECT_EQ(NumberOf("n1"), "99") << "each patch got 409";
  patches = 0;
  PassWithNodes(seconds(4));
  EXPECT_EQ(patches, 0) << "less is wanted, and a lower number waits for five seconds";
  PassWithNodes(seconds(6));
  EXPECT_EQ(NumberOf("n1"), "62");
  EXPECT_EQ(patches, 1);
}

TEST_F(ControllerNumbersTest, TheControllerWritesCountsFirstAlsoAfterAConflict) {
  PutNode("n1");
  DeliverNodes();
  SetNumber("n1", "99");
  Pass(seconds(6));
  ASSERT_EQ(NumberOf("n1"), "99") << "each patch got 409";
  SetNumber("n1", "10");
  std::vector<std::string> writes;
  server_->SetFaults([&writes](const k8sclient::Request& request) {
    if (request.method != k8sclient::Method::kGet) writes.push_back(request.path);
    return ApiFault::kNone;
  });
  for (int pass = 0; NumberOf("n1") == "10"; ++pass) {
    ASSERT_LT(pass, 10);
    // Something else to write.
    PutPool("late" + std::to_string(pass), {{"subnet", "10." + std::to_string(90 + pass) + ".0.0/24"}});
    writes.clear();
    PassWithNodes(seconds(1));
  }
  EXPECT_GE(writes.size(), 2U);
  EXPECT_EQ(writes.front(), kNodes + "/n1/status");
}

TEST_F(ControllerNumbersTest, UnansweredPatchesDelayReclaimingByOneTimeLimit) {
  for (int i = 1; i <= 30; ++i) PutNode("n" + std::to_string(i));
  StartAnew(slow_, settings_);
  slow_.takes = milliseconds::max();
  Vanish();
  EXPECT_LE(LongestPass(seconds(55)), seconds(2));
  EXPECT_TRUE(Entry().starts_with("~ ")) << Entry();
  EXPECT_LE(slow_.patches, 12) << "ever more seldom";
  EXPECT_GE(slow_.patches, 5);
}

TEST_F(ControllerNumbersTest, SlowPatchesTakeAtMostHalfASecondOfAPass) {
  for (int i = 1; i <= 30; ++i) PutNode("n" + std::to_string(i));
  StartAnew(slow_, settings_);
  slow_.takes = milliseconds(100);
  EXPECT_LE(LongestPass(seconds(20)), milliseconds(600));
  EXPECT_EQ(slow_.patches, 30) << "in the end each Node is written";
}

TEST_F(ControllerNumbersTest, HangingPatchesOfTwoNodesDoNotHoldUpPatchesOfOtherNodes) {
  for (int i = 1; i <= 30; ++i) PutNode("n" + std::to_string(i));
  slow_.hanging = {"n1", "n10"};
  StartAnew(slow_, settings_);
  PassWithNodes(seconds(20));
  for (int i = 1; i <= 30; ++i) {
    const std::string node = "n" + std::to_string(i);
    EXPECT_EQ(NumberOf(node) == "none", node == "n1" || node == "n10") << node << " shows " << NumberOf(node);
  }
  PutNode("n31");
  PassWithNodes(seconds(10));
  EXPECT_EQ(NumberOf("n31"), "0");
}

TEST_F(ControllerNumbersTest, AfterUnansweredPatchesTheControllerMaySendAFullBurst) {
  for (int i = 1; i <= 150; ++i) PutNode("n" + std::to_string(i));
  StartAnew(slow_, settings_);
  slow_.takes = milliseconds::max();
  PassWithNodes(seconds(60));
  slow_.takes = milliseconds(0);
  slow_.patches = 0;
  for (int i = 0; i < 60 && slow_.patches == 0; ++i) PassWithNodes(seconds(1));
  EXPECT_EQ(slow_.patches, 100);
}

class ControllerNumbersEventsTest : public ControllerNumbersTest {
 protected:
  // With so many Nodes, one Node that is not Ready does not make the controller suspect its own view.
  ControllerNumbersEventsTest() {
    for (int i = 1; i <= 12; ++i) PutNode("n" + std::to_string(i));
    PassWithNodes(seconds(10));
    EXPECT_THAT(EventsOfNode(), ElementsAre()) << "no Node had lost its count";
  }
};

TEST_F(ControllerNumbersEventsTest, SayOnceThatANodeShowsNoCountAndOnceThatItShowsOneAgain) {
  SetReady("n1", false);
  PassWithNodes(seconds(10));
  EXPECT_EQ(NumberOf("n1"), "none");
  EXPECT_THAT(EventsOfNode(), ElementsAre("n1 Warning AddressesNotCounted"));
  SetNumber("n1", "62");
  PassWithNodes(seconds(20));
  EXPECT_EQ(NumberOf("n1"), "none") << "it is taken away again";
  EXPECT_THAT(EventsOfNode(), ElementsAre("n1 Warning AddressesNotCounted")) << "nothing new";
  SetReady("n1", true);
  PassWithNodes(seconds(20));
  EXPECT_EQ(NumberOf("n1"), "62");
  EXPECT_THAT(EventsOfNode(), ElementsAre("n1 Warning AddressesNotCounted", "n1 Normal AddressesCounted"));
}

TEST_F(ControllerNumbersEventsTest, SayThatANodeShowsACountIfThePreviousLeaderSaidThatItShowsNone) {
  SetReady("n1", false);
  PassWithNodes(seconds(10));
  StartAnew(*server_, settings_);
  controller_->BeginWithOldPods();
  PassWithNodes(seconds(1));
  PutNode("n13");
  PassWithNodes(seconds(10));
  EXPECT_EQ(NumberOf("n13"), "0");
  EXPECT_THAT(EventsOfNode(), ElementsAre("n1 Warning AddressesNotCounted"));
  SetReady("n1", true);
  PassWithNodes(seconds(20));
  EXPECT_THAT(EventsOfNode(), ElementsAre("n1 Warning AddressesNotCounted", "n1 Normal AddressesCounted"));
}

TEST_F(ControllerNumbersEventsTest, SayNothingAboutACountThatAPersonRemovedAndTheControllerRestored) {
  SetNumber("n1", "");
  PassWithNodes(seconds(20));
  EXPECT_EQ(NumberOf("n1"), "62");
  EXPECT_THAT(EventsOfNode(), ElementsAre()) << "no event had said that it was gone";
}

}  // namespace
}  // namespace berth::reconciler
