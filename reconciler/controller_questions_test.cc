// SPDX-License-Identifier: Apache-2.0
// Freeing orphans while the API server does not answer the questions whether their pods exist.
#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reconciler/controller_orphans_test_setup.h"

namespace berth::reconciler {
namespace {

using std::chrono::seconds;
using std::chrono::steady_clock;

// Passes everything to another Api. If `hangs` says so, a GET of a pod gets no answer: the request takes the clock's
// time until the caller's deadline.
class HangingPodsApi final : public k8sclient::Api {
 public:
  HangingPodsApi(k8sclient::Api& inner, k8sclient::testing::FakeClock& clock) : inner_(inner), clock_(clock) {}

  Expected<k8sclient::Response> Call(const k8sclient::Request& request,
                                     const k8sclient::CallOptions& options) override {
    const std::string prefix = "/api/v1/namespaces/default/pods/";
    if (request.method != k8sclient::Method::kGet || !request.path.starts_with(prefix))
      return inner_.Call(request, options);
    const std::string pod = request.path.substr(prefix.size());
    asked.push_back(pod);
    if (!hangs(pod)) return inner_.Call(request, options);
    // The caller computed its deadline with the real clock.
    clock_.Advance(std::chrono::ceil<seconds>(options.deadline - steady_clock::now()));
    return Fail(ErrorCode::kTimeout, "no answer within the time limit");
  }
  Expected<k8sclient::Response> Watch(const k8sclient::Request& request, const k8sclient::WatchOptions& options,
                                      const k8sclient::WatchSink& sink) override {
    return inner_.Watch(request, options, sink);
  }

  std::function<bool(const std::string& pod)> hangs = [](const std::string&) { return false; };
  std::vector<std::string> asked;

 private:
  k8sclient::Api& inner_;
  k8sclient::testing::FakeClock& clock_;
};

// Four blocks with five orphans each. The pods of block 2 are called 2000 to 2004. The controller looks at the blocks
// in the order of their numbers.
class ControllerQuestionsTest : public ControllerOrphansTest {
 protected:
  static constexpr int kBlocks = 4;
  static constexpr int kEntries = 5;

  explicit ControllerQuestionsTest(Settings settings = {.reclaim = Reclaim::kOn})
      : ControllerOrphansTest(std::move(settings)) {
    PutPool("many", {{"subnet", "10.60.0.0/14"}});
    Pass(seconds(5));
    controller_ = std::make_unique<Controller>(slow_, server_clock_, *mailbox_, metrics_, settings_);
    mailbox_->Replace(std::map<std::string, SeenLease>{{"n1", {.node = "n1", .renewed = "0"}}});
    std::map<PodKey, SeenPod> pods;
    for (int block = 0; block < kBlocks; ++block) {
      json entries;
      for (int i = 0; i < kEntries; ++i) {
        const std::string name = std::to_string(block) + "00" + std::to_string(i);
        entries[std::to_string(i)] =
            "default/" + name + " uid-" + name + " 0123456789ab-000000000000" + name + " i=eth0 t=1799999999000";
        pods["default/" + name] = {.name_space = "default", .name = name, .uid = "uid-" + name, .node = "n1"};
      }
      PutBlock("many", "10." + std::to_string(60 + block) + ".0.0/26", entries);
    }
    auto all = pods;
    all["default/web"] = ReadPod(PodObject(kPodUid)).value();
    mailbox_->Replace(all);
    Pass(seconds(3));
    for (auto& [key, pod] : pods) {
      pod.is_terminal = true;
      mailbox_->ObserveDeletion(pod);
    }
  }
  void LetHang(const std::string& blocks) {
    slow_.hangs = [blocks](const std::string& pod) { return blocks.contains(pod.front()); };
  }
  [[nodiscard]] int CountHeld(int block) const {
    int held = 0;
    for (int i = 0; i < kEntries; ++i) {
      const std::string entry = EntryAt("10." + std::to_string(60 + block) + ".0.0-26", std::to_string(i));
      if (entry.starts_with("default/")) ++held;
    }
    return held;
  }
  // Runs a pass each second until one of them asks about a pod. Returns the blocks that it asked about.
  std::string BlocksOfNextQuestions() {
    slow_.asked.clear();
    for (int i = 0; i < 600 && slow_.asked.empty(); ++i) Pass(seconds(1));
    std::string blocks;
    for (const std::string& pod : slow_.asked) {
      if (!blocks.contains(pod.front())) blocks += pod.front();
    }
    return blocks;
  }

  HangingPodsApi slow_{*server_, clock_};
};

TEST_F(ControllerQuestionsTest, IfNoneIsAnsweredAPassAsksOneAndTakesAtMostTenSeconds) {
  LetHang("0123");
  std::size_t questions = 0;
  for (int i = 0; i < 600; ++i) {
    slow_.asked.clear();
    const auto before = clock_.Now();
    Pass(seconds(1));
    ASSERT_LE(slow_.asked.size(), 1U);
    ASSERT_LE(clock_.Now() - before, seconds(1 + 10));
    questions += slow_.asked.size();
  }
  EXPECT_GT(questions, 10U) << "the controller goes on";
}

TEST_F(ControllerQuestionsTest, IfTheyHangForOneBlockTheNextPassBeginsWithTheOtherBlocks) {
  LetHang("0");
  EXPECT_EQ(BlocksOfNextQuestions(), "0");
  EXPECT_EQ(BlocksOfNextQuestions().substr(0, 3), "123");
  EXPECT_EQ(CountHeld(0), kEntries);
  for (const int block : {1, 2, 3}) EXPECT_EQ(CountHeld(block), 0) << "block " << block;
}

TEST_F(ControllerQuestionsTest, IfTheyHangForThreeBlocksAFourthBlocksEntryIsStillFreed) {
  LetHang("012");
  for (const char* block : {"0", "1", "2"}) EXPECT_EQ(BlocksOfNextQuestions(), block);
  EXPECT_TRUE(BlocksOfNextQuestions().starts_with('3'));
  EXPECT_EQ(CountHeld(3), 0);
}

TEST_F(ControllerQuestionsTest, IfTheyHangForTwoBlocksANewPoolStillBecomesReady) {
  LetHang("01");
  for (const char* block : {"0", "1"}) EXPECT_EQ(BlocksOfNextQuestions(), block);
  PutPool("late", {{"subnet", "10.90.0.0/24"}});
  for (int i = 0; i < 10; ++i) Pass(seconds(1));
  EXPECT_EQ(ReadyOf("late"), "True/Accepted");
}

TEST_F(ControllerQuestionsTest, IfTheyHangTheyTakeAtMostAThirdOfTheTimeAndAreAskedOneAtATime) {
  LetHang("0123");
  for (const char* block : {"0", "1", "2", "3"}) EXPECT_EQ(BlocksOfNextQuestions(), block);
  const auto began = clock_.Now();
  seconds hung{0};
  for (int i = 0; i < 600; ++i) {
    slow_.asked.clear();
    Pass(seconds(1));
    ASSERT_LE(slow_.asked.size(), 1U);
    hung += seconds(10) * slow_.asked.size();
  }
  EXPECT_GT(hung, seconds(0));
  EXPECT_LE(3 * hung, clock_.Now() - began + seconds(30));
}

TEST_F(ControllerQuestionsTest, OnceTheyAreAnsweredAgainTheEntriesAreFreedSoon) {
  LetHang("0123");
  for (int i = 0; i < 300; ++i) Pass(seconds(1));
  LetHang("");
  for (int i = 0; i < 40; ++i) Pass(seconds(1));
  for (int block = 0; block < kBlocks; ++block) EXPECT_EQ(CountHeld(block), 0) << "block " << block;
}

class ControllerQuestionsAndNumbersTest : public ControllerQuestionsTest {
 protected:
  ControllerQuestionsAndNumbersTest() : ControllerQuestionsTest({.reclaim = Reclaim::kOn, .counts = true}) {}
};

// The controller lists the node's pods before it lowers the address count.
TEST_F(ControllerQuestionsAndNumbersTest, IfTheyHangForTwoBlocksAnAddressCountIsStillLowered) {
  const json counts = {{"cpu", "4"}, {"ipam.berth.dev/ipv4", "9999"}};
  server_->Put(
      std::string(kNodesPath),
      {{"metadata", {{"name", "n1"}}},
       {"status",
        {{"capacity", counts}, {"allocatable", counts}, {"conditions", {{{"type", "Ready"}, {"status", "True"}}}}}}});
  LetHang("01");
  for (int i = 0; i < 60; ++i) {
    mailbox_->Replace(ViewOf<SeenNode>(*server_, kNodesPath, ReadNode));
    Pass(seconds(1));
  }
  EXPECT_FALSE(slow_.asked.empty());
  EXPECT_NE(Object(kNodesPath, "n1")["status"]["allocatable"]["ipam.berth.dev/ipv4"], "9999");
}

}  // namespace
}  // namespace berth::reconciler
