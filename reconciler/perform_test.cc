// SPDX-License-Identifier: Apache-2.0
// Performer: what an answer without a readable version does.
#include "reconciler/perform.h"

#include <gtest/gtest.h>

#include "k8sclient/testing/fake_clock.h"
#include "k8sclient/testing/scripted_api.h"

namespace berth::reconciler {
namespace {

TEST(Performer, FailsIfAListOfLeasesHasNoReadableVersion) {
  for (const char* body : {R"({"metadata":{"resourceVersion":5},"items":[]})",
                           R"({"metadata":{"resourceVersion":"five"},"items":[]})",
                           R"({"metadata":5,"items":[]})",
                           R"({"items":[]})"}) {
    k8sclient::testing::ScriptedApi api;
    api.on_call = [&](const k8sclient::Request&) { return k8sclient::Response{.status = 200, .body = body}; };
    k8sclient::testing::FakeClock clock;
    World world;
    ControllerState state;
    Metrics metrics;
    Performer performer(api, clock, world, state, metrics);
    const auto asked = performer.Perform(AskLeases{}, {}, {});
    ASSERT_FALSE(asked.has_value()) << body;
    EXPECT_EQ(asked.error().code, ErrorCode::kInternal);
    EXPECT_FALSE(state.leases.has_value());
  }
}

}  // namespace
}  // namespace berth::reconciler
