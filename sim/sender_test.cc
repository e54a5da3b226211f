// SPDX-License-Identifier: Apache-2.0
// A call that sends the changes of others, in virtual time.
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
using std::chrono::seconds;

class Sender final : public agent::OwnBlocksTest {
 public:
  // How long a call lasts that has ten seconds, where the API server does what it is asked for and does not say so, and
  // others have more: a change that nobody waits for, and a call.
  seconds SendForOthers() {
    MakeBlock();
    api_.SetFaults([](const k8sclient::Request& request) {
      return request.method == Method::kPatch ? ApiFault::kLostAfterCommit : ApiFault::kUnavailable;
    });
    const auto begin = std::chrono::steady_clock::now();
    own_.EditLater(Stored(), Taking(1), begin + seconds(60), [](const auto&) {});
    const auto call = [&](int number, seconds time) {
      EXPECT_FALSE(own_.Edit(Stored(), Taking(number), begin + time).has_value());
    };
    const std::jthread first(call, 2, seconds(5));
    const std::jthread other(call, 3, seconds(30));
    call(4, seconds(10));
    return std::chrono::duration_cast<seconds>(std::chrono::steady_clock::now() - begin);
  }
  void TestBody() override {}

 private:
  static ipam::BlockEdit Taking(int number) {
    const auto take = [number](ipam::Block& block) -> ipam::Expected<void> {
      SetText(block, static_cast<ipam::BlockOffset>(number), agent::TextOf(number));
      return {};
    };
    return {.attachment = ipam::TestAttachment(number), .apply = take};
  }
};

TEST(Sender, IsBackAtItsTimeThoughOthersHaveMore) {
  for (std::uint64_t seed = 1; seed < 40; ++seed) {
    const auto [text, ended] = TellOf(seed, [](std::string& told) {
      Sender sender;
      told = std::to_string(sender.SendForOthers().count());
    });
    EXPECT_EQ(ended, Ended::kStopped);
    EXPECT_LE(std::stoi(text), 10) << "seed " << seed;
  }
}

}  // namespace
}  // namespace berth::sim
