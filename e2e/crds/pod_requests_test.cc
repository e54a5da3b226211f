// SPDX-License-Identifier: Apache-2.0
// The policy of install/overlays/requests on a real API server: which pods get which requests for addresses (the table
// e2e/crds/objects/pod-requests.yaml, sent as dry runs), the effect of the ConfigMap, pods that exist already, and a
// policy that fails.
#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "e2e/crds/object_cases.h"
#include "e2e/crds/requests.h"

namespace berth::e2e {
namespace {

using k8sclient::Method;
using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAreArray;

constexpr const char* kPodDryRun = "?dryRun=All&fieldValidation=Strict";
constexpr std::string_view kResourcePrefix = "ipam.berth.dev/";
const std::string kConfigMap =  // NOLINT(bugprone-throwing-static-initialization): a test may die before main
    "/api/v1/namespaces/berth-system/configmaps/berth-requests";

// "<container> <resource>=<n>" for each container that requests addresses; with "/<limit>" if the limit differs.
std::vector<std::string> RequestsOf(const json& pod) {
  std::vector<std::string> found;
  for (const char* list : {"containers", "initContainers"}) {
    for (const json& container : pod["spec"].value(list, json::array())) {
      const json resources = container.value("resources", json::object());
      const json limits = resources.value("limits", json::object());
      const json requests = resources.value("requests", json::object());
      for (const auto& [resource, value] : requests.items()) {
        if (!resource.starts_with(kResourcePrefix)) continue;
        const auto units = value.get<std::string>();
        const std::string limit = limits.value(resource, "none");
        found.push_back(container["name"].get<std::string>() + " " + resource.substr(kResourcePrefix.size()) + "=" +
                        units + (limit == units ? "" : "/" + limit));
      }
    }
  }
  return found;
}

// Whether `whole` contains all of `part`: fields of objects, and elements of lists in their order. A field that is
// false may be missing, because the server's answers leave it out.
bool IsPartOf(const json& part, const json& whole) {
  if (part.is_object()) {
    return whole.is_object() && std::ranges::all_of(part.items(), [&whole](const auto& item) {
             if (!whole.contains(item.key())) return item.value() == false;
             return IsPartOf(item.value(), whole[item.key()]);
           });
  }
  if (part.is_array()) {
    if (!whole.is_array()) return false;
    auto at = whole.begin();
    return std::ranges::all_of(part, [&](const json& element) {
      at = std::find_if(at, whole.end(), [&element](const json& other) { return IsPartOf(element, other); });
      if (at == whole.end()) return false;
      ++at;
      return true;
    });
  }
  // The server's answers contain quantities as text.
  return part == whole || (part.is_number() && whole == part.dump());
}

Answer TryPod(const json& pod) { return Send(Method::kPost, CollectionOf(pod) + kPodDryRun, pod); }

json PodIn(const std::string& name_space, const json& annotations = json::object()) {
  return {{"apiVersion", "v1"},
          {"kind", "Pod"},
          {"metadata", {{"name", "p"}, {"namespace", name_space}, {"annotations", annotations}}},
          {"spec", {{"containers", {{{"name", "web"}, {"image", "example.org/web"}}}}}}};
}

// Waits until the condition is true, because the API server applies policies, parameters and quotas some time after
// their creation. False: 30 s have passed.
bool Await(const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= end) return false;
  }
  return true;
}

bool Gets(const json& pod, const std::vector<std::string>& requests) {
  const Answer answer = TryPod(pod);
  return answer.status == 201 && RequestsOf(answer.body) == requests;
}

// Creates the policies, LimitRanges and quotas of the cases, and waits until pods show that they are in force.
void PreparePods() {
  static const bool kPodsPrepared = [] {
    for (const json& object : LoadObjects("e2e/crds/objects/pod-requests-base.yaml")) {
      const Answer answer = Send(Method::kPost, CollectionOf(object), object);
      EXPECT_TRUE(answer.status == 201 || answer.status == 409) << answer.body;
    }
    const auto shows = [](const std::string& name_space, const std::string& label, const std::string& text) {
      json pod = PodIn(name_space);
      if (!label.empty()) pod["metadata"]["labels"] = {{"requests-test", label}};
      const bool in_time = Await([&] { return TryPod(pod).body.dump().find(text) != std::string::npos; });
      EXPECT_TRUE(in_time) << name_space << ' ' << label << " does not show " << text << ": " << TryPod(pod).body;
      return in_time;
    };
    bool ready = shows("asks", "", "ipam.berth.dev/ipv4");
    for (const char* name_space : {"asks-for-both", "asks-quota"}) ready = ready && shows(name_space, "", "ipv4");
    // In these two namespaces a pod can show only that its service account exists.
    for (const char* name_space : {"asks-for-none", "asks-off"}) {
      ready = ready && shows(name_space, "", R"("serviceAccountName":"default")");
    }
    for (const char* label : {"first", "last"}) ready = ready && shows("asks", label, "added");
    return ready && shows("asks", "annotation", R"("ipam.berth.dev/resources":"ipv6")") &&
           shows("asks-limited", "", "20m") && shows("asks-limited-addresses", "", R"("2")") &&
           shows("asks-quota-none", "", "exceeded quota");
  }();
  ASSERT_TRUE(kPodsPrepared);
}

class PodRequests : public testing::TestWithParam<ObjectCase> {
 protected:
  void SetUp() override { PreparePods(); }
};

TEST_P(PodRequests, AreAddedWherePodsNeedThem) {
  const ObjectCase& c = GetParam();
  const Answer answer = TryPod(c.document);
  if (!c.accepted) {
    EXPECT_THAT(answer.status, testing::AnyOf(403, 422)) << answer.body;
    for (const std::string& text : c.refused) EXPECT_THAT(answer.body.value("message", ""), HasSubstr(text));
    return;
  }
  ASSERT_EQ(answer.status, 201) << answer.body;
  EXPECT_THAT(RequestsOf(answer.body), UnorderedElementsAreArray(c.gets)) << answer.body["spec"];
  EXPECT_TRUE(IsPartOf(c.document, answer.body)) << "something else was changed: " << answer.body;
}

INSTANTIATE_TEST_SUITE_P(Table, PodRequests, testing::ValuesIn(LoadCases("e2e/crds/objects/pod-requests.yaml")),
                         [](const auto& c) { return c.param.name; });

// The order of this policy and other policies is not defined.
TEST(PodRequests, AreAddedOnceWhateverOtherPoliciesDo) {
  PreparePods();
  for (const char* label : {"first", "annotation"}) {
    json pod = PodIn("asks");
    pod["metadata"]["labels"] = {{"requests-test", label}};
    const Answer answer = TryPod(pod);
    ASSERT_EQ(answer.status, 201) << answer.body;
    const std::vector<std::string> requests = RequestsOf(answer.body);
    ASSERT_EQ(requests.size(), 1U) << answer.body["spec"];
    EXPECT_THAT(requests[0], testing::AnyOf("web ipv4=1", "added ipv4=1", "web ipv6=1"));
  }
}

// Restores the ConfigMap of install/ after each test.
class RequestsConfigMap : public testing::Test {
 protected:
  void SetUp() override { PreparePods(); }
  void TearDown() override {
    static_cast<void>(Send(Method::kDelete, kConfigMap, json::object()));
    const std::string collection = kConfigMap.substr(0, kConfigMap.rfind('/'));
    const json installed = LoadObjects("install/overlays/requests/requests.yaml").front();
    EXPECT_EQ(Send(Method::kPost, collection, installed).status, 201);
    EXPECT_TRUE(Await([] { return Gets(PodIn("asks"), {"web ipv4=1"}); }));
  }
  static void Change(const json& data) {
    ASSERT_EQ(Send(Method::kPatch, kConfigMap, {{"data", data}}, k8sclient::kMergePatch).status, 200);
  }
};

TEST_F(RequestsConfigMap, NamesTheResources) {
  Change({{"resources", "ipv4, ipv6"}});
  EXPECT_TRUE(Await([] { return Gets(PodIn("asks"), {"web ipv4=1", "web ipv6=1"}); }));
}

TEST_F(RequestsConfigMap, MayBeEmptySoThatAnnotationsAloneCount) {
  Change({{"resources", ""}});
  EXPECT_TRUE(Await([] { return Gets(PodIn("asks"), {}); }));
  EXPECT_TRUE(Gets(PodIn("asks", {{"ipam.berth.dev/resources", "ipv4"}}), {"web ipv4=1"}));
}

TEST_F(RequestsConfigMap, MayLackTheKey) {
  Change({{"resources", nullptr}, {"other", "ipv6"}});
  EXPECT_TRUE(Await([] { return Gets(PodIn("asks"), {}); }));
  EXPECT_TRUE(Gets(PodIn("asks", {{"ipam.berth.dev/resources", "ipv4"}}), {"web ipv4=1"}));
}

TEST_F(RequestsConfigMap, MayLackData) {
  Change(nullptr);
  EXPECT_TRUE(Await([] { return Gets(PodIn("asks"), {}); }));
  EXPECT_TRUE(Gets(PodIn("asks", {{"ipam.berth.dev/resources", "ipv4"}}), {"web ipv4=1"}));
}

TEST_F(RequestsConfigMap, IsNeededForAnyRequest) {
  ASSERT_EQ(Send(Method::kDelete, kConfigMap, json::object()).status, 200);
  EXPECT_TRUE(Await([] { return Gets(PodIn("asks"), {}); }));
  EXPECT_TRUE(Gets(PodIn("asks", {{"ipam.berth.dev/resources", "ipv4"}}), {}));
}

// A copy of the installed policy and its binding. The copy has one match condition more, and this condition fails for
// each pod whose name is no number. The copy applies to the first label of `pod_` only. The second label keeps the
// installed policy away from `pod_`: the API server calls policies in any order, and a pod that the installed policy
// changed first needs no request any more, so another condition of the copy would be false and nothing would fail.
class FailingRequestsPolicy : public testing::Test {
 protected:
  void SetUp() override { PreparePods(); }
  void TearDown() override {
    for (const json& object : {policy_, binding_}) {
      static_cast<void>(Send(Method::kDelete, PathOf(object), json::object()));
    }
  }

  static json Copy(std::size_t index) {
    json copy = LoadObjects("install/overlays/requests/requests.yaml").at(index);
    copy["metadata"]["name"] = "requests-test-copy";
    if (!copy["spec"].contains("matchConditions")) {
      copy["spec"]["policyName"] = "requests-test-copy";
      return copy;
    }
    copy["spec"]["matchConstraints"]["objectSelector"] = {{"matchLabels", {{"requests-test", "fails"}}}};
    copy["spec"]["matchConditions"].push_back({{"name", "fails"}, {"expression", "int(object.metadata.name) > 0"}});
    return copy;
  }
  static std::string PathOf(const json& object) {
    return CollectionOf(object) + "/" + object["metadata"]["name"].get<std::string>();
  }
  static json Labelled() {
    json pod = PodIn("asks");
    pod["metadata"]["name"] = "no-number";
    pod["metadata"]["labels"] = {{"requests-test", "fails"}, {"ipam.berth.dev/requests", "off"}};
    return pod;
  }

  const json policy_ = Copy(1);
  const json binding_ = Copy(2);
  const json pod_ = Labelled();
};

TEST_F(FailingRequestsPolicy, RefusesNoPod) {
  json strict = policy_;
  strict["spec"]["failurePolicy"] = "Fail";
  ASSERT_EQ(Send(Method::kPost, CollectionOf(strict), strict).status, 201);
  ASSERT_EQ(Send(Method::kPost, CollectionOf(binding_), binding_).status, 201);
  ASSERT_TRUE(Await([this] { return TryPod(pod_).status != 201; })) << "the condition does not fail";
  EXPECT_THAT(TryPod(pod_).body.value("message", ""), HasSubstr("requests-test-copy"));

  const json as_installed = {{"spec", {{"failurePolicy", policy_["spec"]["failurePolicy"]}}}};
  ASSERT_EQ(Send(Method::kPatch, PathOf(strict), as_installed, k8sclient::kMergePatch).status, 200);
  EXPECT_TRUE(Await([this] { return TryPod(pod_).status == 201; }));
}

// Nobody can change the requests of a pod that exists. If the policy tried to, every other change of the pod would
// fail.
TEST(PodRequests, LeavePodsThatExistAlone) {
  PreparePods();
  json pod = PodIn("asks-off");
  pod["metadata"]["name"] = "exists";
  pod["spec"]["schedulingGates"] = {{{"name", "example.org/gate"}}};
  ASSERT_EQ(Send(Method::kPost, CollectionOf(pod), pod).status, 201);
  const std::string path = CollectionOf(pod) + "/exists";
  const json on = {{"metadata", {{"labels", {{"ipam.berth.dev/requests", nullptr}}}}}};
  const json off = {{"metadata", {{"labels", {{"ipam.berth.dev/requests", "off"}}}}}};
  const std::string name_space = "/api/v1/namespaces/asks-off";
  ASSERT_EQ(Send(Method::kPatch, name_space, on, k8sclient::kMergePatch).status, 200);
  EXPECT_TRUE(Await([] { return Gets(PodIn("asks-off"), {"web ipv4=1"}); }));
  const json annotation = {{"metadata", {{"annotations", {{"ipam.berth.dev/resources", "ipv6"}}}}}};
  const Answer answer = Send(Method::kPatch, path, annotation, k8sclient::kMergePatch);
  EXPECT_EQ(answer.status, 200) << answer.body;
  EXPECT_THAT(RequestsOf(answer.body), ElementsAre());
  EXPECT_EQ(Send(Method::kDelete, path, {{"gracePeriodSeconds", 0}}).status, 200);
  EXPECT_EQ(Send(Method::kPatch, name_space, off, k8sclient::kMergePatch).status, 200);
  EXPECT_TRUE(Await([] { return Gets(PodIn("asks-off"), {}); }));
}

}  // namespace
}  // namespace berth::e2e
