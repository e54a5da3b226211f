// SPDX-License-Identifier: Apache-2.0
// WriteEndpoint, WakeScheduler and KeepEndpoint with an API server that has one object or none.
#include "extender/endpoints.h"

#include <optional>
#include <string>
#include <thread>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "k8sclient/testing/scripted_api.h"

namespace berth::extender {
namespace {

using k8sclient::Method;
using k8sclient::Request;
using k8sclient::Response;
using nlohmann::json;

constexpr const char* kSlices = "/apis/discovery.k8s.io/v1/namespaces/berth-system/endpointslices";
const Endpoint kEndpoint{.name_space = "berth-system", .address = "10.0.0.7", .port = 9747};

// An API server that returns the same object for every path: the last one created.
class EndpointsTest : public testing::Test {
 protected:
  EndpointsTest() {
    api_.on_call = [this](const Request& request) -> Expected<Response> { return Answer(request); };
  }

  Response Answer(const Request& request) {
    if (request.method == Method::kPost) slice_ = json::parse(request.body);
    if (request.method == Method::kPatch && slice_) slice_->merge_patch(json::parse(request.body));
    if (!slice_) {
      return {
          .status = 404,
          .body = R"({"kind": "Status", "reason": "NotFound", "details": {"name": "berth-extender-4"}, "code": 404})"};
    }
    return {.status = 200, .body = slice_->dump()};
  }
  std::size_t Writes() const {
    std::size_t count = 0;
    for (const Request& request : api_.requests()) count += k8sclient::IsWrite(request.method) ? 1 : 0;
    return count;
  }

  k8sclient::testing::ScriptedApi api_;
  std::optional<json> slice_;
};

TEST_F(EndpointsTest, CreatesASliceOfTheServiceThatPointsAtTheController) {
  ASSERT_TRUE(WriteEndpoint(api_, kEndpoint, {}));
  EXPECT_EQ(api_.requests().front().path, std::string(kSlices) + "/berth-extender-4");
  EXPECT_EQ(api_.requests().back().path, kSlices);
  ASSERT_TRUE(slice_);
  EXPECT_EQ((*slice_)["metadata"]["labels"]["kubernetes.io/service-name"], "berth-extender");
  EXPECT_EQ((*slice_)["addressType"], "IPv4");
  EXPECT_EQ((*slice_)["endpoints"], json::parse(R"([{"addresses": ["10.0.0.7"], "conditions": {"ready": true}}])"));
  EXPECT_EQ((*slice_)["ports"], json::parse(R"([{"name": "https", "protocol": "TCP", "port": 9747}])"));
}

TEST_F(EndpointsTest, AnIPv6AddressHasASliceOfItsOwn) {
  ASSERT_TRUE(WriteEndpoint(api_, {.name_space = "berth-system", .address = "2001:db8::7", .port = 9747}, {}));
  EXPECT_EQ((*slice_)["metadata"]["name"], "berth-extender-6");
  EXPECT_EQ((*slice_)["addressType"], "IPv6");
}

TEST_F(EndpointsTest, WritesNothingIfTheSliceIsRight) {
  ASSERT_TRUE(WriteEndpoint(api_, kEndpoint, {}));
  ASSERT_TRUE(WriteEndpoint(api_, kEndpoint, {}));
  EXPECT_EQ(Writes(), 1U);
}

TEST_F(EndpointsTest, ReplacesTheFormerLeaderIfTheSliceIsStillAsItWasRead) {
  ASSERT_TRUE(WriteEndpoint(api_, {.name_space = "berth-system", .address = "10.0.0.6", .port = 9747}, {}));
  (*slice_)["metadata"]["resourceVersion"] = "17";
  ASSERT_TRUE(WriteEndpoint(api_, kEndpoint, {}));
  EXPECT_EQ((*slice_)["endpoints"][0]["addresses"], json::array({"10.0.0.7"}));
  EXPECT_EQ(json::parse(api_.requests().back().body)["metadata"]["resourceVersion"], "17");
}

TEST_F(EndpointsTest, PutsBackALabelThatSomebodyTookAway) {
  ASSERT_TRUE(WriteEndpoint(api_, kEndpoint, {}));
  (*slice_)["metadata"].erase("labels");
  ASSERT_TRUE(WriteEndpoint(api_, kEndpoint, {}));
  EXPECT_EQ((*slice_)["metadata"]["labels"]["kubernetes.io/service-name"], "berth-extender");
}

TEST_F(EndpointsTest, WakesTheSchedulerByAnObjectThatItMakesOnceAndThenChanges) {
  ASSERT_TRUE(WakeScheduler(api_, "berth-system", 17, {}));
  EXPECT_EQ(api_.requests().back().path, "/apis/storage.k8s.io/v1/namespaces/berth-system/csistoragecapacities");
  EXPECT_EQ((*slice_)["capacity"], "17");
  ASSERT_TRUE(WakeScheduler(api_, "berth-system", 18, {}));
  EXPECT_EQ(api_.requests().back().method, Method::kPatch);
  EXPECT_EQ((*slice_)["capacity"], "18");
}

TEST_F(EndpointsTest, ReturnsTheErrorOfARequestThatTheApiServerForbids) {
  api_.on_call = [](const Request&) {
    return Response{.status = 403, .body = R"({"kind": "Status", "reason": "Forbidden", "code": 403})"};
  };
  const auto written = WriteEndpoint(api_, kEndpoint, {});
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, ErrorCode::kForbidden);
}

TEST_F(EndpointsTest, KeepsTheSliceUntilItIsToldToEnd) {
  {
    const std::jthread keeper(
        [this](const std::stop_token& stop) { KeepEndpoint(api_, k8sclient::RealClock(), kEndpoint, stop); });
    while (api_.requests().size() < 2) std::this_thread::yield();
  }
  EXPECT_EQ(Writes(), 1U);
}

}  // namespace
}  // namespace berth::extender
