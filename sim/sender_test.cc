// SPDX-License-Identifier: Apache-2.0
// Calls that send the changes of other calls, in virtual time.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "agent/own_blocks_test_setup.h"
#include "sim/test_history.h"

namespace berth::sim {
namespace {

using k8sclient::Method;
using k8sclient::testing::ApiFault;
using std::chrono::milliseconds;
using std::chrono::seconds;

// A patch takes a second. If its deadline is earlier, the patch fails at the deadline and is not executed.
class SlowApi final : public k8sclient::Api {
 public:
  explicit SlowApi(k8sclient::Api& inner) : inner_(inner) {}
  Expected<k8sclient::Response> Call(const k8sclient::Request& request,
                                     const k8sclient::CallOptions& options) override {
    const auto end = std::chrono::steady_clock::now() + (request.method == Method::kPatch ? patch_time : seconds(0));
    std::this_thread::sleep_until(std::min(end, options.deadline));
    if (end > options.deadline) return Fail(ErrorCode::kUnknownOutcome, "time was over");
    return inner_.Call(request, options);
  }
  Expected<k8sclient::Response> Watch(const k8sclient::Request& request, const k8sclient::WatchOptions& options,
                                      const k8sclient::WatchSink& sink) override {
    return inner_.Watch(request, options, sink);
  }

  seconds patch_time{1};  // how long a patch takes

 private:
  k8sclient::Api& inner_;
};

class Sender final : public agent::OwnBlocksTest {
 public:
  // Returns how long a call with ten seconds lasts. The API server answers no patch, and other changes have more time:
  // a deferred change, for which no thread waits, and a call.
  seconds SendForOthers() {
    MakeBlock();
    SlowApi slow(api_);
    agent::OwnBlocks own(slow, clock_, NewDirectory(), {.self = {.node = "n1", .instance = "m-new"}}, seen_);
    EXPECT_TRUE(Fence(own).has_value());
    slow.patch_time = seconds(60);
    const auto begin = std::chrono::steady_clock::now();
    own.EditDeferred(Stored(), Taking(1), [](const auto&) {});
    const auto call = [&](int number, seconds time) {
      EXPECT_FALSE(own.Edit(Stored(), Taking(number), begin + time).has_value());
    };
    const std::jthread first(call, 2, seconds(5));
    const std::jthread other(call, 3, seconds(30));
    call(4, seconds(10));
    return std::chrono::duration_cast<seconds>(std::chrono::steady_clock::now() - begin);
  }

  // Returns whether a call with five seconds succeeds. The call joins a batch whose sender has 0.3 s left, and a patch
  // takes a second.
  bool JoinsWhoHasLittleTime() {
    MakeBlock();
    SlowApi slow(api_);
    agent::OwnBlocks own(slow, clock_, NewDirectory(), {.self = {.node = "n1", .instance = "m-new"}}, seen_);
    EXPECT_TRUE(Fence(own).has_value());
    const auto call = [&](int number, milliseconds time) {
      return own.Edit(Stored(), Taking(number), std::chrono::steady_clock::now() + time).has_value();
    };
    {
      // Two calls run at the same time, so the next call expects a second one.
      const std::jthread first([&] { call(1, seconds(5)); });
      const std::jthread second([&] { call(2, seconds(5)); });
    }
    const std::jthread first([&] { call(3, seconds(5)); });
    std::this_thread::sleep_for(milliseconds(300));
    const std::jthread second([&] { call(4, seconds(1)); });
    std::this_thread::sleep_for(milliseconds(680 + Below(80)));
    return call(5, seconds(5));
  }

 private:
  void TestBody() override {}
  static ipam::Change Taking(int number) {
    const auto offset = static_cast<ipam::BlockOffset>(number);
    return {.attachment = ipam::TestAttachment(number), .what = ipam::SetEntries{{{offset, agent::TextOf(number)}}}};
  }
};

TEST(Sender, ReturnsAtItsDeadlineAlthoughOtherChangesHaveMoreTime) {
  for (std::uint64_t seed = 1; seed < 40; ++seed) {
    const auto [text, ended] = TellOf(seed, [](std::string& told) {
      Sender sender;
      told = std::to_string(sender.SendForOthers().count());
    });
    EXPECT_EQ(ended, Ended::kStopped);
    EXPECT_LE(std::stoi(text), 10) << "seed " << seed;
  }
}

TEST(Sender, ServesACallThatJoinsABatchWithLessTime) {
  for (std::uint64_t seed = 1; seed < 40; ++seed) {
    const auto [text, ended] = TellOf(seed, [](std::string& told) {
      Sender sender;
      told = sender.JoinsWhoHasLittleTime() ? "served" : "cut off";
    });
    EXPECT_EQ(text, "served") << "seed " << seed;
  }
}

}  // namespace
}  // namespace berth::sim
