// SPDX-License-Identifier: Apache-2.0
// The needs of a pod about which the scheduler asks, and options with which the extender does not start.
#include "reconciler/extender_server.h"

#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "reconciler/pod_requests.h"

namespace berth::reconciler {
namespace {

using nlohmann::json;

TEST(ExtenderServer, ReadsTheIdentityAndTheNeedsOfAPod) {
  const json requests = {{"name", "c"}, {"resources", {{"requests", {{"ipam.berth.dev/ipv4", "2"}}}}}};
  const struct {
    const char* name;
    json annotations;
    json spec;
    extender::Units want;
  } cases[] = {
      {"a pod that says nothing", json::object(), json::object(), {{"ipv4", 1}, {"ipv6", 1}}},
      {"a request", json::object(), {{"containers", {requests}}}, {{"ipv4", 2}}},
      {"an annotation", {{"ipam.berth.dev/resources", "ipv4, storage"}}, json::object(), {{"ipv4", 1}, {"storage", 1}}},
      {"an empty annotation", {{"ipam.berth.dev/resources", ""}}, json::object(), {}},
      {"a request beside an annotation",
       {{"ipam.berth.dev/resources", ""}},
       {{"containers", {requests}}},
       {{"ipv4", 2}}},
      {"the host's network", json::object(), {{"hostNetwork", true}}, {}},
  };
  for (const auto& one : cases) {
    const json pod = {
        {"metadata", {{"namespace", "default"}, {"name", "a"}, {"uid", "u"}, {"annotations", one.annotations}}},
        {"spec", one.spec}};
    const auto asked = ReadAsked(pod, ParseResources("ipv4,ipv6"));
    ASSERT_TRUE(asked) << one.name << ": " << asked.error().message;
    EXPECT_EQ(asked->key, "default/a");
    EXPECT_EQ(asked->uid, "u");
    EXPECT_EQ(asked->needs, one.want) << one.name;
  }
}

TEST(ExtenderServer, NeedsAnAddressForItsEndpoint) {
  Metrics metrics;
  Options options;
  options.extender_address = "localhost";
  const auto started = ExtenderServer::Start(options, metrics);
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().message, "--extender-address \"localhost\" is no IP address");
}

}  // namespace
}  // namespace berth::reconciler
