// SPDX-License-Identifier: Apache-2.0
// Requests of pods of every form.
#include "reconciler/pod_requests.h"

#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace berth::reconciler {
namespace {

using nlohmann::json;

json Container(const std::string& units, const std::string& resource = "ipam.berth.dev/ipv4") {
  return {{"name", "c"}, {"resources", {{"requests", {{resource, units}, {"cpu", "100m"}}}}}};
}
json Sidecar(const std::string& units) {
  json container = Container(units);
  container["restartPolicy"] = "Always";
  return container;
}

std::string RequestsOf(const json& spec) {
  std::string text;
  for (const UnitRequest& one : ReadRequests(spec)) {
    text += (text.empty() ? "" : " ") + one.resource + "=" + std::to_string(one.units);
  }
  return text;
}

TEST(PodRequests, OfAnAnnotationAreOneUnitOfEachName) {
  const struct {
    const char* list;
    const char* want;
  } cases[] = {
      {"", ""},
      {"ipv4", "ipv4"},
      {"ipv4,ipv6", "ipv4 ipv6"},
      {" ipv4 ,\tipv6\n", "ipv4 ipv6"},
      {"ipv4,ipv4", "ipv4"},
      {",,", ""},
      {"IPv4,-a,a-,a b,a.b_c-d", "a.b_c-d"},
  };
  for (const auto& one : cases) {
    std::string text;
    for (const UnitRequest& named : ParseResources(one.list)) {
      EXPECT_EQ(named.units, 1);
      text += (text.empty() ? "" : " ") + named.resource;
    }
    EXPECT_EQ(text, one.want) << one.list;
  }
}

TEST(PodRequests, OfALongAnnotationAreTheFirstSixteenNames) {
  std::string list = "r0";
  for (int i = 0; i < 50'000; ++i) list += ",r" + std::to_string(i);
  const auto named = ParseResources(list);
  ASSERT_EQ(named.size(), 16U);
  EXPECT_EQ(named.back().resource, "r15");
}

TEST(PodRequests, AreWhatTheSchedulerCounts) {
  const struct {
    const char* name;
    json spec;
    const char* want;
  } cases[] = {
      {"a container", {{"containers", {Container("1")}}}, "ipv4=1"},
      {"two containers", {{"containers", {Container("1"), Container("2")}}}, "ipv4=3"},
      {"two resources", {{"containers", {Container("1"), Container("1", "ipam.berth.dev/ipv6")}}}, "ipv4=1 ipv6=1"},
      {"an init container that needs less",
       {{"containers", {Container("2")}}, {"initContainers", {Container("1")}}},
       "ipv4=2"},
      {"an init container that needs more",
       {{"containers", {Container("1")}}, {"initContainers", {Container("4")}}},
       "ipv4=4"},
      {"a sidecar", {{"containers", {Container("1")}}, {"initContainers", {Sidecar("1")}}}, "ipv4=2"},
      {"an init container after a sidecar",
       {{"containers", {Container("1")}}, {"initContainers", {Sidecar("1"), Container("3")}}},
       "ipv4=4"},
      {"an init container before a sidecar",
       {{"containers", {Container("1")}}, {"initContainers", {Container("3"), Sidecar("1")}}},
       "ipv4=3"},
      {"none", {{"containers", {{{"name", "c"}}}}}, ""},
      {"zero", {{"containers", {Container("0")}}}, ""},
      {"others' resources", {{"containers", {Container("1", "example.com/gpu")}}}, ""},
      {"no containers", json::object(), ""},
      {"no object", "spec", ""},
      {"odd types", {{"containers", {"c", {{"resources", 3}}, {{"resources", {{"requests", "x"}}}}}}}, ""},
      {"more than fits", {{"containers", {Container("4Ei"), Container("4Ei")}}}, "ipv4=4611686018427387904"},
  };
  for (const auto& one : cases) EXPECT_EQ(RequestsOf(one.spec), one.want) << one.name;
}

}  // namespace
}  // namespace berth::reconciler
