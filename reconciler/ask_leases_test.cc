// SPDX-License-Identifier: Apache-2.0
// AskLeases: what an answer without a readable version does.
#include "reconciler/ask_leases.h"

#include <gtest/gtest.h>

#include "k8sclient/testing/scripted_api.h"

namespace berth::reconciler {
namespace {

TEST(AskLeases, AListWithoutAReadableVersionIsAnError) {
  for (const char* body : {R"({"metadata":{"resourceVersion":5},"items":[]})",
                           R"({"metadata":{"resourceVersion":"five"},"items":[]})",
                           R"({"metadata":5,"items":[]})",
                           R"({"items":[]})"}) {
    k8sclient::testing::ScriptedApi api;
    api.on_call = [&](const k8sclient::Request&) { return k8sclient::Response{.status = 200, .body = body}; };
    ControllerState state;
    const auto read = ReadLeasesVersion(api, {}, {}, state);
    ASSERT_FALSE(read.has_value()) << body;
    EXPECT_EQ(read.error().code, ErrorCode::kInternal);
    EXPECT_FALSE(state.leases.has_value());
  }
}

}  // namespace
}  // namespace berth::reconciler
