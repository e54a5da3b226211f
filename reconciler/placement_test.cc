// SPDX-License-Identifier: Apache-2.0
// Placement: the rules of kube-scheduler for labels and taints.
#include "reconciler/placement.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace berth::reconciler {
namespace {

using nlohmann::json;

json Affinity(const json& terms) {
  return {{"affinity",
           {{"nodeAffinity", {{"requiredDuringSchedulingIgnoredDuringExecution", {{"nodeSelectorTerms", terms}}}}}}}};
}
json Term(const std::string& key, const std::string& op, const json& values, const char* kind = "matchExpressions") {
  return {{kind, {{{"key", key}, {"operator", op}, {"values", values}}}}};
}

TEST(Placement, AdmitsTheNodesThatTheSchedulerWouldTake) {
  const ipam::Labels labels = {{"zone", "a"}, {"cpus", "8"}};
  const json tainted = {{"taints", {{{"key", "gpu"}, {"value", "yes"}, {"effect", "NoSchedule"}}}}};
  const json none = json::object();
  const struct {
    const char* name;
    json pod;
    json node;
    bool want;
  } cases[] = {
      {"no wishes", none, none, true},
      {"a label that it has", {{"nodeSelector", {{"zone", "a"}}}}, none, true},
      {"a label of another value", {{"nodeSelector", {{"zone", "b"}}}}, none, false},
      {"a label that it lacks", {{"nodeSelector", {{"disk", "ssd"}}}}, none, false},
      {"In", Affinity(json::array({Term("zone", "In", {"a", "b"})})), none, true},
      {"not In", Affinity(json::array({Term("zone", "In", {"b"})})), none, false},
      {"NotIn", Affinity(json::array({Term("zone", "NotIn", {"b"})})), none, true},
      {"NotIn of a label that it lacks", Affinity(json::array({Term("disk", "NotIn", {"b"})})), none, true},
      {"Exists", Affinity(json::array({Term("zone", "Exists", json::array())})), none, true},
      {"DoesNotExist", Affinity(json::array({Term("zone", "DoesNotExist", json::array())})), none, false},
      {"Gt", Affinity(json::array({Term("cpus", "Gt", {"4"})})), none, true},
      {"Lt", Affinity(json::array({Term("cpus", "Lt", {"4"})})), none, false},
      {"Gt of no number", Affinity(json::array({Term("zone", "Gt", {"4"})})), none, false},
      {"an operator that nobody knows", Affinity(json::array({Term("zone", "Near", {"a"})})), none, false},
      {"one of two terms", Affinity(json::array({Term("zone", "In", {"b"}), Term("zone", "In", {"a"})})), none, true},
      {"an empty term", Affinity(json::array({json::object()})), none, false},
      {"no term", Affinity(json::array()), none, false},
      {"its name", Affinity(json::array({Term("metadata.name", "In", {"n1"}, "matchFields")})), none, true},
      {"another's name", Affinity(json::array({Term("metadata.name", "In", {"n2"}, "matchFields")})), none, false},
      {"a taint", none, tainted, false},
      {"a taint that is tolerated by value",
       {{"tolerations", {{{"key", "gpu"}, {"value", "yes"}, {"effect", "NoSchedule"}}}}},
       tainted,
       true},
      {"a taint of another value", {{"tolerations", {{{"key", "gpu"}, {"value", "no"}}}}}, tainted, false},
      {"a taint that is tolerated by key",
       {{"tolerations", {{{"key", "gpu"}, {"operator", "Exists"}}}}},
       tainted,
       true},
      {"every taint tolerated", {{"tolerations", {{{"operator", "Exists"}}}}}, tainted, true},
      {"a taint that only asks", none, {{"taints", {{{"key", "old"}, {"effect", "PreferNoSchedule"}}}}}, true},
      {"a cordon", none, {{"unschedulable", true}}, false},
      {"a cordon that a DaemonSet tolerates",
       {{"tolerations",
         {{{"key", "node.kubernetes.io/unschedulable"}, {"operator", "Exists"}, {"effect", "NoSchedule"}}}}},
       {{"unschedulable", true}},
       true},
      {"odd types", {{"nodeSelector", 3}, {"tolerations", "x"}, {"affinity", json::array()}}, {{"taints", "x"}}, true},
  };
  for (const auto& one : cases) {
    EXPECT_EQ(ReadPlacement(one.pod).Admits("n1", labels, ReadTaints(one.node)), one.want) << one.name;
  }
}

TEST(Placement, IsOneObjectForEqualPods) {
  const auto of = [](const char* zone) { return SharedPlacement(ReadPlacement({{"nodeSelector", {{"zone", zone}}}})); };
  const auto one = of("a");
  EXPECT_EQ(one, of("a"));
  EXPECT_NE(one, of("b"));
}

TEST(Placement, OfManyPodsHasALimitUntilThePodsAreGone) {
  const auto of = [](int number) {
    const std::string value = std::to_string(number) + std::string(8'000, 'x');
    return SharedPlacement(ReadPlacement({{"nodeSelector", {{"zone", value}}}}));
  };
  EXPECT_EQ(SharedPlacement(ReadPlacement({{"nodeSelector", {{"zone", std::string(9'000, 'x')}}}})), nullptr);
  std::vector<std::shared_ptr<const Placement>> used;
  while (auto made = of(static_cast<int>(used.size()))) {
    used.push_back(std::move(made));
    ASSERT_LE(used.size(), kPlacementsBytesMax / 8'000);
  }
  EXPECT_GT(used.size(), kPlacementsBytesMax / kPlacementBytesMax);
  EXPECT_EQ(of(0), used.front()) << "a placement that exists needs no memory";
  used.clear();
  EXPECT_NE(of(0), nullptr);
}

}  // namespace
}  // namespace berth::reconciler
