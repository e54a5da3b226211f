// SPDX-License-Identifier: Apache-2.0
// The policies on a real API server: which caller may write which fields of a block and of a Node. The cases are in the
// tables policy.yaml and policy-nodes.yaml in e2e/crds/objects, and are sent as dry runs. Another test checks that no
// legal block is too large for the policies.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "crds/block.h"
#include "crds/names.h"
#include "e2e/crds/object_cases.h"
#include "e2e/crds/policy_callers.h"
#include "e2e/crds/requests.h"

namespace berth::e2e {
namespace {

using k8sclient::Method;
using nlohmann::json;
using testing::HasSubstr;

constexpr const char* kPolicyDryRun = "?dryRun=All&fieldValidation=Strict";

std::string PathTo(const std::string& target) {
  return (target.starts_with("nodes/") ? "/api/v1/" : "/apis/ipam.berth.dev/v1alpha1/") + target;
}

PolicyCallers& Callers() {
  static PolicyCallers callers;
  return callers;
}

Answer TryPolicy(const ObjectCase& c) {
  const Caller& caller = Callers().Get(c.as);
  // If a deletion has a body, the API server reads the options of the deletion from the body.
  if (!c.remove.empty()) return caller.Send(Method::kDelete, PathTo(c.remove), {{"dryRun", {"All"}}});
  if (!c.patch.empty())
    return caller.Send(Method::kPatch, PathTo(c.patch) + kPolicyDryRun, c.document, k8sclient::kMergePatch);
  return caller.Send(Method::kPost, CollectionOf(c.document) + kPolicyDryRun, c.document);
}

// Creates the objects of the cases, and waits until the policies are in force: the API server applies a policy only
// some time after its creation.
void Prepare() {
  static const bool kPrepared = [] {
    for (const json& object : LoadObjects("e2e/crds/objects/policy-base.yaml")) {
      const Answer answer = Send(Method::kPost, CollectionOf(object), object);
      EXPECT_TRUE(answer.status == 201 || answer.status == 409) << answer.body;
    }
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    const json labels = {{"metadata", {{"labels", {{"zone", "b"}}}}}};
    const ObjectCase forbidden[] = {
        {.as = "unbound", .patch = "ipblocks/10.60.0.0-26", .document = {{"next", 9}}},
        {.as = "controller n9", .patch = "nodes/counted/status", .document = labels},
        {.as = "controller n9", .patch = "ippools/policy-drained", .document = {{"spec", {{"disabled", true}}}}},
    };
    for (const ObjectCase& c : forbidden) {
      while (TryPolicy(c).status != 422) {
        if (std::chrono::steady_clock::now() < end) continue;
        ADD_FAILURE() << "the policy that refuses this is not in force: " << c.patch;
        return false;
      }
    }
    return true;
  }();
  ASSERT_TRUE(kPrepared);
}

class Policy : public testing::TestWithParam<ObjectCase> {
 protected:
  void SetUp() override { Prepare(); }
};

TEST_P(Policy, ConfinesEverybodyToWhatIsTheirs) {
  const ObjectCase& c = GetParam();
  const Answer answer = TryPolicy(c);
  if (c.accepted) {
    EXPECT_TRUE(answer.status == 200 || answer.status == 201) << answer.status << ' ' << answer.body;
    return;
  }
  EXPECT_EQ(answer.status, 422) << answer.body;
  for (const std::string& text : c.refused) EXPECT_THAT(answer.body.value("message", ""), HasSubstr(text));
}

INSTANTIATE_TEST_SUITE_P(Table, Policy, testing::ValuesIn(LoadCases("e2e/crds/objects/policy.yaml")),
                         [](const auto& c) { return c.param.name; });

INSTANTIATE_TEST_SUITE_P(Nodes, Policy, testing::ValuesIn(LoadCases("e2e/crds/objects/policy-nodes.yaml")),
                         [](const auto& c) { return c.param.name; });

// The API server drops taints and other fields of the spec from a patch of the status, before the policies see the
// patch.
TEST(Policies, LetNoTaintThroughWithACount) {
  Prepare();
  const json patch = {
      {"spec", {{"taints", nullptr}, {"unschedulable", true}, {"podCIDR", "192.0.2.0/24"}}},
      {"status", {{"capacity", {{"ipam.berth.dev/ipv4", "9"}}}, {"allocatable", {{"ipam.berth.dev/ipv4", "9"}}}}}};
  const std::string path = "/api/v1/nodes/counted/status?dryRun=All";
  const Answer answer = Callers().Get("controller n9").Send(Method::kPatch, path, patch, k8sclient::kMergePatch);
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_THAT(answer.body["spec"]["taints"].dump(), HasSubstr("example.org/full"));
  EXPECT_FALSE(answer.body["spec"].contains("unschedulable"));
  EXPECT_NE(answer.body["spec"].value("podCIDR", ""), "192.0.2.0/24");
  EXPECT_EQ(answer.body["status"]["capacity"]["ipam.berth.dev/ipv4"], "9");
}

// Blocks with 256 entries of 800 characters, and a node with the longest name that is allowed.
class LargestBlock : public testing::Test {
 protected:
  static constexpr ipam::BlockOffset kEntries = 256;

  void SetUp() override { Prepare(); }

  static std::string Node() {
    const std::string label(63, 'n');
    return label + "." + label + "." + label + "." + label.substr(2);
  }
  static std::string Attachment(ipam::BlockOffset offset) {
    char text[40];
    std::snprintf(text, sizeof text, "0123456789ab-%016x", offset);
    return text;
  }
  static ipam::Block Block(const char* cidr, bool shared) {
    ipam::Block block;
    block.cidr = ipam::Prefix::Parse(cidr).value();
    block.name = ipam::BlockName(block.space, block.cidr);
    block.pool = "policy";
    block.pool_uid = "u";
    if (!shared) block.node = Node();
    block.finalizers = {std::string(ipam::kBlockFinalizer)};
    for (ipam::BlockOffset offset = 0; offset < kEntries; ++offset) {
      std::string entry = "team/pod uid " + Attachment(offset) + " i=eth0 t=1763700000000 n=" + Node() + " x=";
      entry.resize(ipam::kEntryLengthMax, 'x');
      block.allocations[offset] = entry;
    }
    return block;
  }
  // Creates the block, and returns it as the API server stores it.
  static ipam::Block Create(const ipam::Block& block) {
    const Answer answer = Send(Method::kPost, std::string(crds::kBlocksPath), crds::BlockToJson(block));
    EXPECT_TRUE(answer.status == 201 || answer.status == 409) << answer.body;
    return crds::ParseBlock(Get(PathTo("ipblocks/" + block.name)).body).value();
  }
  static void ExpectAccepted(const std::string& who, const ipam::Block& before, const ipam::Block& after) {
    const Answer answer = Callers().Get(who).Send(Method::kPatch,
                                                  PathTo("ipblocks/" + before.name) + kPolicyDryRun,
                                                  crds::BlockMergePatch(before, after),
                                                  k8sclient::kMergePatch);
    EXPECT_EQ(answer.status, 200) << who << ' ' << answer.body.value("message", "").substr(0, 500);
  }
  static void ExpectReleasable(const ipam::Block& before) {
    ipam::Block after = before;
    after.allocations.clear();
    ExpectAccepted("node " + Node(), before, after);
    ExpectAccepted("", before, after);
    for (auto& [offset, entry] : after.allocations = before.allocations) entry.replace(entry.size() - 1, 1, "y");
    ExpectAccepted("node " + Node(), before, after);
    for (auto& [offset, entry] : after.allocations) entry = "~ t=1763700060000 f=" + Attachment(offset);
    ExpectAccepted("controller n9", before, after);
  }
};

TEST_F(LargestBlock, OfANodeCanBeReleased) { ExpectReleasable(Create(Block("10.62.0.0/24", false))); }
TEST_F(LargestBlock, OfASharedPoolCanBeReleased) { ExpectReleasable(Create(Block("10.62.1.0/24", true))); }

TEST_F(LargestBlock, OfASharedPoolCanBeCreated) {
  const Answer answer = Callers()
                            .Get("node " + Node())
                            .Send(Method::kPost,
                                  std::string(crds::kBlocksPath) + kPolicyDryRun,
                                  crds::BlockToJson(Block("10.62.2.0/24", true)));
  EXPECT_EQ(answer.status, 201) << answer.body.value("message", "").substr(0, 500);
}

// Kubernetes' garbage collector removes its own finalizer, although it runs on no node.
TEST(Policies, LetADeletionInTheForegroundEnd) {
  Prepare();
  const json block = {{"apiVersion", "ipam.berth.dev/v1alpha1"},
                      {"kind", "IPBlock"},
                      {"metadata", {{"name", "10.63.0.0-26"}}},
                      {"spec", {{"space", "default"}, {"pool", "p"}, {"poolUID", "u"}, {"cidr", "10.63.0.0/26"}}},
                      {"used", 0},
                      {"free", 0},
                      {"allocations", json::object()}};
  ASSERT_EQ(Send(Method::kPost, std::string(crds::kBlocksPath), block).status, 201);
  const std::string path = PathTo("ipblocks/10.63.0.0-26");
  ASSERT_EQ(Send(Method::kDelete, path, {{"propagationPolicy", "Foreground"}}).status, 200);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (Get(path).status != 404) ASSERT_LT(std::chrono::steady_clock::now(), end) << Get(path).body;
}

// The controller manager checks the policies' expressions against the types in the CRDs, and writes warnings.
TEST(Policies, HaveNoWarnings) {
  const std::string path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  json policies;
  const auto is_checked = [](const json& policy) {
    return policy["status"].value("observedGeneration", 0) == policy["metadata"]["generation"];
  };
  do {
    policies = Get(path + "?labelSelector=app.kubernetes.io/name=berth").body["items"];
    ASSERT_LT(std::chrono::steady_clock::now(), end) << policies;
  } while (!std::ranges::all_of(policies, is_checked));
  EXPECT_FALSE(policies.empty());
  for (const json& policy : policies) {
    EXPECT_FALSE(policy["status"]["typeChecking"].contains("expressionWarnings")) << policy["status"];
  }
}

}  // namespace
}  // namespace berth::e2e
