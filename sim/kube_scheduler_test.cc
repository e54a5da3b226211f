// SPDX-License-Identifier: Apache-2.0
// The simulated scheduler, and what a kubelet admits.
#include "sim/kube_scheduler.h"

#include <map>
#include <string>
#include <thread>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "reconciler/read_holders.h"
#include "sim/cluster.h"
#include "sim/counted.h"
#include "sim/test_history.h"

namespace berth::sim {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

// A cluster without controllers: the test writes the address counts.
struct Scheduling {
  Scheduling() {
    store.OnStore([this](const std::string& collection, const json& before, const json& after) {
      counted.Stored(collection, before, after);
      scheduler.Stored(collection, before, after);
    });
    store.OnUnchanged([this](const k8sclient::Request& request) { counted.Unchanged(request); });
    scheduler.Start();
  }
  void Node(const std::string& name, const json& number) {
    cluster.AddNode(name);
    if (!number.is_null()) Show(name, number);
  }
  void Show(const std::string& node, const json& number) {
    const json numbers = {{kCountedResource, number}};
    static_cast<void>(store.Call({.method = k8sclient::Method::kPatch,
                                  .path = std::string(reconciler::kNodesPath) + "/" + node + "/status",
                                  .body = json{{"status", {{"capacity", numbers}, {"allocatable", numbers}}}}.dump()},
                                 {}));
  }
  // "n1 n1 -": the nodes of the pods, in the order of their names.
  [[nodiscard]] std::string Nodes() const {
    std::string text;
    for (const json& pod : store.Objects(std::string(reconciler::kPodsPath))) {
      const std::string node = NodeOf(pod);
      text += (text.empty() ? "" : " ") + (node.empty() ? "-" : node);
    }
    return text;
  }
  [[nodiscard]] std::string Message(const std::string& name) const {
    for (const json& pod : store.Objects(std::string(reconciler::kPodsPath))) {
      if (pod["metadata"]["name"] == name) return pod.value("/status/conditions/0/message"_json_pointer, "");
    }
    return {};
  }
  k8sclient::testing::ModelApi store;
  Story story{/*is_told=*/false};
  Counted counted{store, story};
  Cluster cluster{store, story};
  KubeScheduler scheduler{store, counted, story};
};

// Bodies run on a fiber, whose stack is small, so objects are on the heap. They are never destroyed, because their
// fibers live on.
Scheduling& Make() { return *new Scheduling; }  // NOLINT(cppcoreguidelines-owning-memory)

TEST(KubeScheduler, PlacesAsManyPodsAsTheAddressCountAllowsAndSaysWhyOthersWait) {
  const auto body = [](std::string& text) {
    Scheduling& s = Make();
    s.Node("n1", "2");
    for (int i = 0; i < 4; ++i) static_cast<void>(s.cluster.CreatePod("p" + std::to_string(i), 1, ""));
    std::this_thread::sleep_for(30s);
    text = s.Nodes() + "; " + s.Message("p3");
  };
  EXPECT_EQ(TellOf(1, body).text, "n1 n1 - -; 0/1 nodes are available: 1 Insufficient ipam.berth.dev/ipv4.");
}

TEST(KubeScheduler, TakesAMissingAddressCountForZeroAndTriesAgainWhenItRises) {
  const auto body = [](std::string& text) {
    Scheduling& s = Make();
    s.Node("n1", nullptr);
    static_cast<void>(s.cluster.CreatePod("p0", 1, ""));
    std::this_thread::sleep_for(5s);
    text = s.Nodes();
    s.Show("n1", "1");
    std::this_thread::sleep_for(12s);
    text += " then " + s.Nodes();
  };
  EXPECT_EQ(TellOf(1, body).text, "- then n1");
}

TEST(KubeScheduler, PlacesAWaitingPodWhenAnotherPodGoes) {
  const auto body = [](std::string& text) {
    Scheduling& s = Make();
    s.Node("n1", "1");
    const Pod first = s.cluster.CreatePod("p0", 1, "");
    std::this_thread::sleep_for(12s);
    static_cast<void>(s.cluster.CreatePod("p1", 1, ""));
    std::this_thread::sleep_for(5s);
    text = s.Nodes();
    s.cluster.RemovePod(first);
    std::this_thread::sleep_for(12s);
    text += " then " + s.Nodes();
  };
  EXPECT_EQ(TellOf(1, body).text, "n1 - then n1");
}

TEST(KubeScheduler, PlacesAPodOnlyOnTheNodeOfItsSelector) {
  const auto body = [](std::string& text) {
    Scheduling& s = Make();
    s.Node("n1", "8");
    s.Node("n2", "0");
    static_cast<void>(s.cluster.CreatePod("p0", 1, "n2"));
    std::this_thread::sleep_for(12s);
    text = s.Nodes() + "; " + s.Message("p0");
  };
  EXPECT_EQ(TellOf(1, body).text,
            "-; 0/2 nodes are available: 1 Insufficient ipam.berth.dev/ipv4, 1 node(s) didn't match Pod's node "
            "affinity/selector.");
}

// A kubelet admits a pod, the Node shows the address count `number`, and the kubelet restarts. If a rule is broken, the
// history ends at once.
std::string AfterRestart(const json& number) {
  const auto body = [&number](std::string& text) {
    Scheduling& s = Make();
    s.Node("n1", "1");
    const Pod pod = s.cluster.CreatePod("p0", 1, "");
    std::this_thread::sleep_for(12s);
    text = s.counted.Admits("n1", pod.uid) ? "admitted" : "rejected";
    s.Show("n1", number);
    std::this_thread::sleep_for(5s);
    s.counted.RestartKubelet("n1");
    text += ", runs on";
  };
  return TellOf(1, body).text;
}

TEST(Counted, TheKubeletAdmitsItsPodsAgainIfTheAddressCountIsMissing) {
  EXPECT_EQ(AfterRestart(nullptr), "admitted, runs on");
}

TEST(Counted, AnAddressCountBelowThePodsRequestsEndsTheHistory) { EXPECT_EQ(AfterRestart("0"), "admitted"); }

TEST(Counted, APatchThatDoesNotChangeItsNodeEndsTheHistory) {
  const auto body = [](std::string& text) {
    Scheduling& s = Make();
    s.Node("n1", "1");
    text = "shown";
    s.Show("n1", "1");
    std::this_thread::sleep_for(1s);
    text += " twice";
  };
  EXPECT_EQ(TellOf(1, body).text, "shown");
}

}  // namespace
}  // namespace berth::sim
