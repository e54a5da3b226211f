// SPDX-License-Identifier: Apache-2.0
// Reads pods, nodes and Leases as the API server has them, also odd ones.
#include "reconciler/read_holders.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace berth::reconciler {
namespace {

using nlohmann::json;

json PodObject() {
  return {{"metadata", {{"name", "web"}, {"namespace", "team-a"}, {"uid", "u-1"}, {"resourceVersion", "7"}}},
          {"spec", {{"nodeName", "n1"}, {"terminationGracePeriodSeconds", 5}}},
          {"status", {{"phase", "Running"}, {"podIPs", {{{"ip", "10.55.0.7"}}, {{"ip", "2001:db8::7"}}}}}}};
}

TEST(ReadPod, KeepsTheFieldsThatMatter) {
  const SeenPod pod = ReadPod(PodObject()).value();
  EXPECT_EQ(pod.name_space + "/" + pod.name, "team-a/web");
  EXPECT_EQ(pod.identity(), "u-1");
  EXPECT_EQ(pod.node, "n1");
  EXPECT_EQ(pod.grace, std::chrono::seconds(5));
  EXPECT_EQ(pod.addresses.size(), 2U);
  EXPECT_FALSE(pod.is_terminal);
  EXPECT_FALSE(pod.is_host_network);
}

TEST(ReadPod, NeedsNoneOfTheSkippedFields) {
  const json object = json::parse(R"({
    "metadata": {"name": "web", "namespace": "team-a", "uid": "u-1", "resourceVersion": "7",
                 "deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 50,
                 "finalizers": ["foregroundDeletion"], "annotations": {"kubernetes.io/config.mirror": "abc123"},
                 "ownerReferences": [{"uid": "o", "controller": true}],
                 "managedFields": [{"manager": "kubelet", "operation": "Update", "subresource": "status"}]},
    "spec": {"nodeName": "n1", "terminationGracePeriodSeconds": 5, "hostNetwork": true,
             "containers": [{"name": "c", "image": "registry/app:1", "env": [{"name": "HOME", "value": "/srv/app"}],
                             "volumeMounts": [{"name": "v", "mountPath": "/srv/app/data"}],
                             "resources": {"requests": {"ipam.berth.dev/ipv4": "1"}}}],
             "initContainers": [{"name": "i", "image": "registry/init:1", "restartPolicy": "Always",
                                 "resources": {"requests": {"ipam.berth.dev/ipv4": "2"}}}],
             "ephemeralContainers": [{"name": "e"}], "volumes": [{"name": "v"}],
             "tolerations": [{"key": "k"}], "affinity": {"nodeAffinity": {}}},
    "status": {"phase": "Succeeded", "podIPs": [{"ip": "10.55.0.7"}], "containerStatuses": [{"name": "c"}],
               "initContainerStatuses": [{"name": "i"}], "ephemeralContainerStatuses": [{"name": "e"}],
               "conditions": [{"type": "PodReadyToStartContainers", "status": "True"}]}})");
  const json event = k8sclient::EventReader(FieldsOfPods()).Read(json{{"object", object}}.dump());
  EXPECT_EQ(ReadPod(event["object"]).value(), ReadPod(object).value());
  EXPECT_LT(event.dump().size(), object.dump().size() * 2 / 3);
}

TEST(ReadPod, HasASandboxWhileTheKubeletSaysThatItsNetworkIsThere) {
  json object = PodObject();
  EXPECT_FALSE(ReadPod(object).value().has_sandbox);
  object["status"]["conditions"] = {{{"type", "Ready"}, {"status", "True"}},
                                    {{"type", "PodReadyToStartContainers"}, {"status", "True"}}};
  EXPECT_TRUE(ReadPod(object).value().has_sandbox);
  object["status"]["conditions"][1]["status"] = "False";
  EXPECT_FALSE(ReadPod(object).value().has_sandbox);
}

TEST(ReadPod, IdentifiesAMirrorByTheHashOfItsConfiguration) {
  json object = PodObject();
  object["metadata"]["annotations"]["kubernetes.io/config.mirror"] = "abc123";
  EXPECT_EQ(ReadPod(object).value().identity(), "abc123");
}

// A tenant may write a text of 256 KiB there, and the controller remembers identities of pods that are gone.
TEST(ReadPod, IgnoresAHashThatIsLongerThanAnyUid) {
  json object = PodObject();
  object["metadata"]["annotations"]["kubernetes.io/config.mirror"] = std::string(65, 'a');
  EXPECT_TRUE(ReadPod(object).value().config_hash.empty());
}

TEST(ReadPod, ReadsTheGraceThatTheDeletingClientAllowed) {
  json object = PodObject();
  object["metadata"]["deletionGracePeriodSeconds"] = 3600;
  EXPECT_EQ(ReadPod(object).value().grace, std::chrono::seconds(3600));
  object["metadata"]["deletionGracePeriodSeconds"] = 1;
  EXPECT_EQ(ReadPod(object).value().grace, std::chrono::seconds(5));
  object["spec"].erase("terminationGracePeriodSeconds");
  EXPECT_EQ(ReadPod(object).value().grace, std::chrono::seconds(30)) << "Kubernetes' default";
}

TEST(ReadPod, ReadsTheSameOwnerForTwoPodsOfOneController) {
  const auto owner_of = [](const std::string& uid, bool controls, const char* name_space = "default") {
    const json owner = {{"uid", uid}, {"controller", controls}};
    return ReadPod({{"metadata",
                     {{"name", "web"},
                      {"namespace", name_space},
                      {"uid", "u"},
                      {"resourceVersion", "1"},
                      {"ownerReferences", {owner}}}}})
        .value()
        .owner;
  };
  EXPECT_EQ(owner_of("a", true), owner_of("a", true));
  EXPECT_NE(owner_of("a", true), owner_of("b", true));
  EXPECT_NE(owner_of("a", true), owner_of("a", true, "other"));
  EXPECT_NE(owner_of(std::string(100'000, 'a'), true), 0U);
  EXPECT_EQ(owner_of("a", false), 0U);
}

TEST(ReadPod, ReadsSucceededAndFailedAsTerminal) {
  for (const auto& [phase, is_terminal] :
       {std::pair{"Pending", false}, {"Running", false}, {"Unknown", false}, {"Succeeded", true}, {"Failed", true}}) {
    json object = PodObject();
    object["status"]["phase"] = phase;
    EXPECT_EQ(ReadPod(object).value().is_terminal, is_terminal) << phase;
  }
}

TEST(ReadPod, ReadsAPodAsUnschedulableOnlyWhileTheSchedulerWouldPlaceIt) {
  json object = PodObject();
  object["spec"].erase("nodeName");
  object["status"] = {{"phase", "Pending"},
                      {"conditions", {{{"type", "PodScheduled"}, {"status", "False"}, {"reason", "Unschedulable"}}}}};
  EXPECT_TRUE(ReadPod(object).value().is_unschedulable);
  json failed = object;
  failed["status"]["phase"] = "Failed";
  EXPECT_FALSE(ReadPod(failed).value().is_unschedulable) << "the pod has ended";
  object["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z";
  EXPECT_FALSE(ReadPod(object).value().is_unschedulable) << "somebody deleted the pod, and a finalizer keeps it";
}

json UnschedulablePod() {
  json object = PodObject();
  object["spec"].erase("nodeName");
  object["status"] = {{"conditions", {{{"type", "PodScheduled"}, {"status", "False"}, {"reason", "Unschedulable"}}}}};
  return object;
}

// Kubernetes before 1.33 does not limit the values of a required node affinity.
TEST(ReadPod, KeepsNoPlacementThatNeedsMuchMemory) {
  const struct {
    std::size_t terms;
    std::size_t values;
    std::size_t length;
    bool is_kept;
  } cases[] = {{1, 1, 7'000, true},
               {1, 1, 9'000, false},
               {1, 100, 40, true},
               {1, 150, 40, false},
               {30, 1, 1, true},
               {200, 0, 0, false}};
  for (const auto& [terms, values, length, is_kept] : cases) {
    json object = UnschedulablePod();
    json& list = object["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    const std::vector<std::string> texts(values, std::string(length, 'b'));
    const json term = {{"matchExpressions", {{{"key", "a"}, {"operator", "NotIn"}, {"values", texts}}}}};
    list["nodeSelectorTerms"] = std::vector<json>(terms, term);
    EXPECT_EQ(ReadPod(object).value().placement != nullptr, is_kept) << terms << ' ' << values << ' ' << length;
  }
}

// Each pod of a DaemonSet has a placement of its own.
TEST(ReadPod, KeepsOneObjectForEqualPlacementsOfManyPods) {
  const auto placement_of = [](std::size_t zone) {
    json object = UnschedulablePod();
    object["spec"]["nodeSelector"]["zone"] = std::to_string(zone);
    return ReadPod(object).value().placement;
  };
  std::vector<std::shared_ptr<const Placement>> kept;
  for (std::size_t i = 0; i < 5'000; ++i) kept.push_back(placement_of(i));
  EXPECT_EQ(std::ranges::count(kept, nullptr), 0);
  for (const std::size_t i : {0U, 7U, 4'999U}) EXPECT_EQ(placement_of(i), kept[i]);
}

TEST(ReadPod, ReadsNoNodeForAPodThatIsNotBound) {
  json object = PodObject();
  object["spec"].erase("nodeName");
  object.erase("status");
  EXPECT_EQ(ReadPod(object).value().node, "");
}

// A client that may write pods may write such pods, and fifty pods that are not in the world would trip the brake.
TEST(ReadPod, ReadsAPodWithAVeryLongGraceAndAnUnreadableAddress) {
  json object = PodObject();
  object["spec"]["terminationGracePeriodSeconds"] = std::numeric_limits<std::int64_t>::max();
  object["metadata"]["deletionGracePeriodSeconds"] = std::numeric_limits<std::int64_t>::min();
  object["status"]["podIPs"] = {{{"ip", "010.55.0.7"}}, {{"ip", "10.55.0.7"}}, {{"ip", "::ffff:10.55.0.7"}}};
  const SeenPod pod = ReadPod(object).value();
  EXPECT_EQ(pod.grace, std::chrono::seconds(std::int64_t{1} << 31));
  EXPECT_EQ(pod.addresses, (std::vector{ipam::Address::Parse("10.55.0.7").value()}));
  object["spec"]["terminationGracePeriodSeconds"] = -1;
  EXPECT_EQ(ReadPod(object).value().grace, std::chrono::seconds(0));
}

// Kubernetes limits neither the number of a pod's conditions nor the length of their reasons.
TEST(ReadPod, ReadsAPodWithVeryManyConditionsAndAVeryLongReason) {
  constexpr int kMany = 5'000;
  json object = PodObject();
  json& conditions = object["status"]["conditions"];
  for (int i = 0; i < kMany; ++i) conditions.push_back({{"type", "example.com/c" + std::to_string(i)}});
  conditions.push_back({{"type", "PodScheduled"}, {"status", "False"}, {"reason", std::string(100'000, 'r')}});
  conditions.push_back({{"type", "PodReadyToStartContainers"}, {"status", "True"}});
  const auto pod = ReadPod(object);
  ASSERT_TRUE(pod.has_value()) << pod.error().message;
  EXPECT_TRUE(pod->has_sandbox);
  EXPECT_FALSE(pod->is_unschedulable);
}

TEST(ReadPod, RefusesAPodWhosePodIPsIsNoList) {
  json object = PodObject();
  object["status"]["podIPs"] = "10.55.0.7";
  const auto pod = ReadPod(object);
  ASSERT_FALSE(pod.has_value());
  EXPECT_NE(pod.error().message.find("Pod team-a/web"), std::string::npos) << pod.error().message;
}

TEST(ReadNode, ReadsReadinessAndTheOutOfServiceTaint) {
  json object = {{"metadata", {{"name", "n1"}, {"uid", "u"}, {"resourceVersion", "1"}}},
                 {"status", {{"conditions", {{{"type", "Ready"}, {"status", "True"}}}}}}};
  EXPECT_TRUE(ReadNode(object).value().is_ready);
  EXPECT_FALSE(ReadNode(object).value().is_out_of_service);
  object["status"]["conditions"][0]["status"] = "Unknown";
  object["spec"]["taints"] = {{{"key", "node.kubernetes.io/out-of-service"}, {"effect", "NoExecute"}}};
  EXPECT_FALSE(ReadNode(object).value().is_ready);
  EXPECT_TRUE(ReadNode(object).value().is_out_of_service);
}

TEST(ReadNode, ReadsANodeWithVeryManyConditionsAndTaints) {
  constexpr int kMany = 5'000;
  json object = {{"metadata", {{"name", "n1"}, {"uid", "u"}, {"resourceVersion", "1"}}}};
  for (int i = 0; i < kMany; ++i) {
    object["status"]["conditions"].push_back({{"type", "example.com/c" + std::to_string(i)}});
    object["spec"]["taints"].push_back({{"key", "example.com/t" + std::to_string(i)}, {"effect", "NoSchedule"}});
  }
  object["status"]["conditions"].push_back({{"type", "Ready"}, {"status", "True"}});
  const auto node = ReadNode(object);
  ASSERT_TRUE(node.has_value()) << node.error().message;
  EXPECT_TRUE(node->is_ready);
}

TEST(ReadNode, IgnoresTheOutOfServiceTaintOnceTheKubeletReportsAgain) {
  json object = {{"metadata", {{"name", "n1"}, {"uid", "u"}, {"resourceVersion", "1"}}},
                 {"spec", {{"taints", {{{"key", "node.kubernetes.io/out-of-service"}, {"effect", "NoExecute"}}}}}}};
  EXPECT_TRUE(ReadNode(object).value().is_out_of_service) << "it never said anything";
  for (const char* const status : {"False", "True"}) {
    object["status"]["conditions"] = {{{"type", "Ready"}, {"status", status}}};
    EXPECT_FALSE(ReadNode(object).value().is_out_of_service) << status;
  }
}

TEST(Nodes, KnowAtWhichVersionALeaseWasRenewedLast) {
  Nodes nodes;
  const auto put = [&nodes](const char* time, const char* version) {
    const json object = {{"metadata", {{"name", "n1"}, {"uid", "u"}, {"resourceVersion", version}}},
                         {"spec", {{"renewTime", time}}}};
    nodes.PutLease(ReadLease(object).value());
  };
  put("2026-01-01T00:00:00.000000Z", "5");
  put("2026-01-01T00:00:10.000000Z", "7");
  put("2026-01-01T00:00:10.000000Z", "9");  // somebody labelled the Lease
  EXPECT_EQ(nodes.RenewedAt("n1"), 7U);
  EXPECT_EQ(nodes.RenewedAt("n2"), 0U);
}

TEST(Pods, LiveOnANodeFromTheirFirstAddressUntilTheyHaveEnded) {
  Pods pods;
  SeenPod pod{.name_space = "default", .name = "web", .uid = "a-1", .node = "n1"};
  pods.Put(pod, {});
  EXPECT_FALSE(pods.IsAnyLivingOn("n1")) << "anybody may write a node's name into a pod";
  pod.addresses = {ipam::Address::Parse("10.55.0.1").value()};
  pods.Put(pod, {});
  EXPECT_TRUE(pods.IsAnyLivingOn("n1"));
  pod.is_terminal = true;
  pods.Put(pod, {});
  EXPECT_FALSE(pods.IsAnyLivingOn("n1"));
}

TEST(Pods, ForgetVanishedPodsExceptThoseToKeep) {
  Pods pods;
  for (const char* uid : {"a-1", "b-1"}) {
    pods.Put({.name_space = "default", .name = uid, .uid = uid, .node = "n1"}, {});
    pods.Remove(NamespacedName("default", uid), {});
  }
  pods.ForgetVanished(SteadyTime(std::chrono::seconds(1)), [](const PastPod& pod) { return pod.second == "b-1"; });
  EXPECT_EQ(pods.FindVanished({"default/a-1", "a-1"}), nullptr);
  EXPECT_NE(pods.FindVanished({"default/b-1", "b-1"}), nullptr);
}

}  // namespace
}  // namespace berth::reconciler
