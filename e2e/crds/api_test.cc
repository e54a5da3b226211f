// SPDX-License-Identifier: Apache-2.0
// The C++ types on a real API server, and the results for kubectl, agents and tenants: sizes, conflicts, columns,
// selectors, subresources, rights.
#include <chrono>
#include <cstdio>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "crds/allocation.h"
#include "crds/block.h"
#include "crds/names.h"
#include "crds/pool.h"
#include "crds/space.h"
#include "e2e/crds/requests.h"
#include "ipam/block.h"

namespace berth::e2e {
namespace {

using k8sclient::Method;
using nlohmann::json;

const std::string kBlocks(crds::kBlocksPath);
const std::string kPools(crds::kPoolsPath);
const std::string kSpaces(crds::kSpacesPath);

std::string PathOf(const json& object) {
  return CollectionOf(object) + "/" + object["metadata"]["name"].get<std::string>();
}

// Creates an object, and deletes it at the end of the test, even if it has finalizers.
class CreatedObject {
 public:
  explicit CreatedObject(const json& object) : path_(PathOf(object)) {
    const Answer answer = Send(Method::kPost, CollectionOf(object), object);
    EXPECT_EQ(answer.status, 201) << answer.body;
    object_ = answer.body;
  }
  CreatedObject(const CreatedObject&) = delete;
  CreatedObject& operator=(const CreatedObject&) = delete;
  // NOLINTNEXTLINE(bugprone-exception-escape): in a test, a request that throws may end the program
  ~CreatedObject() {
    const json no_finalizers = {{"metadata", {{"finalizers", nullptr}}}};
    EXPECT_EQ(Send(Method::kPatch, path_, no_finalizers, k8sclient::kMergePatch).status, 200);
    EXPECT_EQ(Send(Method::kDelete, path_, json::object()).status, 200);
  }
  [[nodiscard]] const json& object() const { return object_; }
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] Answer Patch(const json& patch) const {
    return Send(Method::kPatch, path_, patch, k8sclient::kMergePatch);
  }

 private:
  std::string path_;
  json object_;
};

ipam::Pool TestPool(const char* subnet) {
  ipam::Pool pool;
  pool.name = "api-test";
  pool.uid = "api-test-uid";
  pool.subnet = ipam::Prefix::Parse(subnet).value();
  return pool;
}

ipam::Block TestBlock(const char* cidr) {
  return ipam::NewBlock(TestPool(cidr), ipam::Prefix::Parse(cidr).value(), "n1");
}

ipam::Block Read(const json& object) {
  auto block = crds::ParseBlock(object);
  EXPECT_TRUE(block.has_value()) << block.error().message;
  return block.value_or(ipam::Block());
}

TEST(CrdsApi, ABlockIsTheSameAfterCreation) {
  const ipam::Block wanted = TestBlock("10.77.0.0/26");
  const CreatedObject created(crds::BlockToJson(wanted));
  ipam::Block block = Read(created.object());
  EXPECT_FALSE(block.uid.empty());
  EXPECT_FALSE(block.resource_version.empty());
  EXPECT_TRUE(block.has_managed_fields) << "until the first patch";
  block.uid = wanted.uid;
  block.resource_version = wanted.resource_version;
  block.has_managed_fields = wanted.has_managed_fields;
  EXPECT_EQ(block, wanted);
}

TEST(CrdsApi, ABlockBecomesWhatAPatchWasMadeFor) {
  const CreatedObject created(crds::BlockToJson(TestBlock("10.77.0.64/26")));
  ipam::Block before = Read(created.object());
  ipam::Block after = before;
  for (ipam::BlockOffset offset = 0; offset < 63; ++offset) after.allocations[offset] = "! r" + std::to_string(offset);
  after.agent = "a.1";
  after.next = 63;
  after.free = 1;
  const auto apply = [&] {
    const Answer answer = created.Patch(crds::BlockMergePatch(before, after));
    ASSERT_EQ(answer.status, 200) << answer.body;
    before = Read(answer.body);
    after.resource_version = before.resource_version;
    after.has_managed_fields = false;
    EXPECT_EQ(before, after);
  };
  apply();
  after.allocations.erase(7);
  after.allocations[8] = "~ t=5";
  after.agent.clear();
  apply();
  after.allocations.clear();
  after.finalizers.clear();
  apply();
}

TEST(CrdsApi, AStalePatchIsAConflictWhateverItHolds) {
  const CreatedObject created(crds::BlockToJson(TestBlock("10.77.0.128/26")));
  const ipam::Block before = Read(created.object());
  ipam::Block after = before;
  ipam::Touch(after);
  ASSERT_EQ(created.Patch(crds::BlockMergePatch(before, after)).status, 200);
  // The same patch again, another valid patch, and a patch that breaks a rule.
  EXPECT_EQ(created.Patch(crds::BlockMergePatch(before, after)).status, 409);
  after.allocations[3] = "! x";
  json patch = crds::BlockMergePatch(before, after);
  EXPECT_EQ(created.Patch(patch).status, 409);
  patch["used"] = 7;
  EXPECT_EQ(created.Patch(patch).status, 409);
}

TEST(CrdsApi, APatchWithoutAChangeLeavesTheResourceVersion) {
  const CreatedObject created(crds::BlockToJson(TestBlock("10.77.0.192/26")));
  const ipam::Block first = Read(created.object());
  // The first patch removes managedFields, and so changes the object.
  const ipam::Block before = Read(created.Patch(crds::BlockMergePatch(first, first)).body);
  EXPECT_NE(before.resource_version, first.resource_version);
  const Answer same = created.Patch(crds::BlockMergePatch(before, before));
  EXPECT_EQ(same.status, 200);
  EXPECT_EQ(Read(same.body).resource_version, before.resource_version);
}

TEST(CrdsApi, TouchingABlockOfOneAddressIsAChangeEachTime) {
  const CreatedObject created(crds::BlockToJson(TestBlock("10.77.2.64/32")));
  ipam::Block before = Read(created.object());
  for (int i = 0; i < 3; ++i) {
    ipam::Block after = before;
    ipam::Touch(after);
    const Answer answer = created.Patch(crds::BlockMergePatch(before, after));
    ASSERT_EQ(answer.status, 200) << answer.body;
    const ipam::Block touched = Read(answer.body);
    EXPECT_NE(touched.resource_version, before.resource_version);
    before = touched;
  }
}

TEST(CrdsApi, AFullBlockOfTheLongestEntriesStaysBelow220Kilobytes) {
  ipam::Block block = TestBlock("10.77.1.0/24");
  block.agent = std::string(64, 'a') + ".1234567890123456789";
  for (ipam::BlockOffset offset = 0; offset < block.size(); ++offset) {
    block.allocations[offset] = std::string(ipam::kEntryLengthMax, '%');
  }
  const CreatedObject created(crds::BlockToJson(block));
  const Answer answer = Get(created.path());
  ASSERT_EQ(answer.status, 200);
  EXPECT_EQ(Read(answer.body).allocations, block.allocations);
  EXPECT_LT(answer.bytes, 220'000U);
  std::printf("full block: %zu bytes\n", answer.bytes);
}

TEST(CrdsApi, EntriesAreNotTrackedOneByOne) {
  ipam::Block block = TestBlock("10.77.2.0/26");
  for (ipam::BlockOffset offset = 0; offset < 64; ++offset) block.allocations[offset] = "! x";
  const CreatedObject created(crds::BlockToJson(block));
  EXPECT_LT(created.object()["metadata"]["managedFields"].dump().size(), 1000U);
}

TEST(CrdsApi, APoolIsTheSameAfterCreationAndItsStatusIsWrittenApart) {
  ipam::Pool pool = TestPool("10.78.0.0/16");
  pool.gateway = ipam::Address::Parse("10.78.0.1").value();
  pool.node_selector =
      ipam::LabelSelector{{{.key = "zone", .op = ipam::LabelRequirement::Operator::kNotIn, .values = {"a", "b"}}}};
  json object = crds::PoolToJson(pool);
  object["status"] = {{"total", "5"}};
  const CreatedObject created(object);
  EXPECT_FALSE(created.object().contains("status")) << "a POST must not set the status";
  const auto read = crds::ParsePool(created.object());
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ(crds::PoolToJson(*read), crds::PoolToJson(pool));

  crds::PoolStatus status;
  status.total = 65'533;
  status.block_length = 26;
  crds::SetCondition(status.conditions,
                     {.type = "Ready",
                      .status = "True",
                      .reason = "Accepted",
                      .message = "",
                      .last_transition_time = "2026-11-21T08:00:00Z",
                      .observed_generation = 1});
  const auto patch = crds::PoolStatusPatch(created.object(), status);
  ASSERT_TRUE(patch.has_value()) << patch.error().message;
  const Answer answer = Send(Method::kPatch, created.path() + "/status", *patch, k8sclient::kMergePatch);
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(crds::ParsePoolStatus(answer.body), status);
  EXPECT_TRUE(crds::ParsePool(answer.body)->ready);
  const auto again = crds::PoolStatusPatch(answer.body, status);
  ASSERT_TRUE(again.has_value());
  EXPECT_TRUE(again->is_null()) << *again;
}

TEST(CrdsApi, ASpaceAcceptsAPoolByOneCompareAndSwap) {
  const CreatedObject created(crds::NewSpaceToJson("api-test"));
  auto space = crds::ParseSpace(created.object());
  ASSERT_TRUE(space.has_value()) << space.error().message;
  space->accepted.push_back({"web", "u", ipam::Prefix::Parse("10.78.0.0/16").value(), 26});
  const auto patch = crds::SpaceStatusPatch(*space);
  ASSERT_TRUE(patch.has_value()) << patch.error().message;
  const std::string path = created.path() + "/status";
  const Answer first = Send(Method::kPatch, path, *patch, k8sclient::kMergePatch);
  ASSERT_EQ(first.status, 200) << first.body;
  EXPECT_EQ(crds::ParseSpace(first.body)->accepted, space->accepted);
  EXPECT_EQ(Send(Method::kPatch, path, *patch, k8sclient::kMergePatch).status, 409);
}

TEST(CrdsApi, AnAllocationIsTheSameAfterCreation) {
  crds::Allocation allocation;
  allocation.meta.name = crds::AllocationName("web-9", "0123456789ab-0123456789abcdef");
  allocation.meta.name_space = "default";
  allocation.pod = "web-9";
  allocation.uid = "staticpod";
  allocation.interface = "eth0";
  allocation.node = "n1";
  allocation.addresses = {{.address = ipam::Address::Parse("2001:db8::").value(), .pool = "p", .block = "b"}};
  const CreatedObject created(crds::AllocationToJson(allocation));
  const auto read = crds::ParseAllocation(created.object());
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ(read->addresses, allocation.addresses);
  EXPECT_TRUE(crds::AllocationPatch(*read).is_null());
}

TEST(CrdsApi, BlocksAreSelectedByNodePoolAndSpace) {
  ipam::Block shared = TestBlock("10.77.3.64/26");
  shared.node.clear();
  const CreatedObject own(crds::BlockToJson(TestBlock("10.77.3.0/26")));
  const CreatedObject other(crds::BlockToJson(shared));
  const auto names = [](const std::string& selector) {
    const Answer answer = Get(kBlocks + "?fieldSelector=" + selector);
    EXPECT_EQ(answer.status, 200) << answer.body;
    std::set<std::string> found;
    for (const json& item : answer.body["items"]) found.insert(item["metadata"]["name"].get<std::string>());
    return found;
  };
  using testing::Contains;
  using testing::Not;
  EXPECT_THAT(names("spec.node=n1,spec.pool=api-test"), testing::UnorderedElementsAre("10.77.3.0-26"));
  EXPECT_THAT(names("spec.node="), testing::AllOf(Contains("10.77.3.64-26"), Not(Contains("10.77.3.0-26"))));
  EXPECT_THAT(names("spec.space=default"), testing::IsSupersetOf({"10.77.3.0-26", "10.77.3.64-26"}));
  EXPECT_THAT(names("spec.space=blue"), Not(Contains("10.77.3.0-26")));
}

struct ColumnsCase {
  const char* name;
  std::string path;
  std::vector<std::string> want;  // the columns without -o wide
};

class CrdsColumns : public testing::TestWithParam<ColumnsCase> {};

TEST_P(CrdsColumns, AreWhatKubectlShows) {
  const Answer answer = Get(GetParam().path, "application/json;as=Table;v=v1;g=meta.k8s.io");
  ASSERT_EQ(answer.status, 200) << answer.body;
  std::vector<std::string> columns;
  for (const json& column : answer.body["columnDefinitions"]) {
    if (column["priority"] == 0) columns.push_back(column["name"].get<std::string>());
  }
  EXPECT_EQ(columns, GetParam().want);
}

const ColumnsCase kColumns[] = {
    {"Pools", kPools, {"Name", "Subnet", "Affinity", "Total", "Used", "Free", "Blocks", "Ready", "Age"}},
    {"Spaces", kSpaces, {"Name", "Pools", "Total", "Used", "Free", "Age"}},
    {"Blocks", kBlocks, {"Name", "CIDR", "Node", "Pool", "Used", "Free", "Age"}},
    {"Allocations", std::string(crds::kAllocationsPath), {"Name", "Pod", "Interface", "Addresses", "Node", "Age"}},
    {"Reservations", std::string(crds::kReservationsPath), {"Name", "Addresses", "Expires", "Age"}},
};
INSTANTIATE_TEST_SUITE_P(Kinds, CrdsColumns, testing::ValuesIn(kColumns),
                         [](const auto& c) { return std::string(c.param.name); });

struct RightCase {
  const char* name;
  const char* user;
  const char* group;
  const char* verb;
  const char* api_group;
  const char* resource;
  const char* subresource;
  const char* name_space;
  bool allowed;
};

class Rights : public testing::TestWithParam<RightCase> {};

TEST_P(Rights, AreThoseOfTheInstallation) {
  const RightCase& c = GetParam();
  const json review = {{"apiVersion", "authorization.k8s.io/v1"},
                       {"kind", "SubjectAccessReview"},
                       {"spec",
                        {{"user", c.user},
                         {"groups", {c.group}},
                         {"resourceAttributes",
                          {{"verb", c.verb},
                           {"group", c.api_group},
                           {"resource", c.resource},
                           {"subresource", c.subresource},
                           {"namespace", c.name_space}}}}}};
  const Answer answer = Send(Method::kPost, "/apis/authorization.k8s.io/v1/subjectaccessreviews", review);
  ASSERT_EQ(answer.status, 201) << answer.body;
  EXPECT_EQ(answer.body["status"]["allowed"].get<bool>(), c.allowed) << answer.body["status"];
}

constexpr const char* kNode = "system:node:n1";
constexpr const char* kNodes = "system:nodes";
constexpr const char* kController = "system:serviceaccount:berth-system:berth-controller";
constexpr const char* kAgentUser = "system:serviceaccount:berth-system:berth-agent";
constexpr const char* kAccounts = "system:serviceaccounts";
constexpr const char* kBerth = "ipam.berth.dev";

const RightCase kRights[] = {
    {"NodeReadsPools", kNode, kNodes, "get", kBerth, "ippools", "", "", true},
    {"NodeListsPools", kNode, kNodes, "list", kBerth, "ippools", "", "", true},
    {"NodeListsBlocks", kNode, kNodes, "list", kBerth, "ipblocks", "", "", true},
    {"NodeCreatesBlocks", kNode, kNodes, "create", kBerth, "ipblocks", "", "", true},
    {"NodePatchesBlocks", kNode, kNodes, "patch", kBerth, "ipblocks", "", "", true},
    {"NodeReadsNoReservation", kNode, kNodes, "get", kBerth, "ipreservations", "", "", false},
    {"NodeReadsNamespaces", kNode, kNodes, "get", "", "namespaces", "", "", true},
    {"NodeDeletesNoBlock", kNode, kNodes, "delete", kBerth, "ipblocks", "", "", false},
    {"NodeReplacesNoBlock", kNode, kNodes, "update", kBerth, "ipblocks", "", "", false},
    {"NodePatchesNoPool", kNode, kNodes, "patch", kBerth, "ippools", "", "", false},
    {"NodeWritesNoPoolStatus", kNode, kNodes, "patch", kBerth, "ippools", "status", "", false},
    {"NodeWritesNoSpace", kNode, kNodes, "patch", kBerth, "ipspaces", "status", "", false},
    {"NodeCreatesNoAllocation", kNode, kNodes, "create", kBerth, "ipallocations", "", "team-a", false},
    {"NodePatchesNoReservation", kNode, kNodes, "patch", kBerth, "ipreservations", "", "", false},
    {"AgentPatchesNoNodeStatus", kAgentUser, kAccounts, "patch", "", "nodes", "status", "", false},
    {"NodeListsNoNamespaces", kNode, kNodes, "list", "", "namespaces", "", "", false},
    {"NodeReadsNoForeignSecrets", kNode, kNodes, "list", "", "secrets", "", "team-a", false},
    {"ControllerWatchesPools", kController, kAccounts, "watch", kBerth, "ippools", "", "", true},
    {"ControllerPatchesPoolStatus", kController, kAccounts, "patch", kBerth, "ippools", "status", "", true},
    {"ControllerPatchesPoolFinalizers", kController, kAccounts, "patch", kBerth, "ippools", "", "", true},
    {"ControllerCreatesSpaces", kController, kAccounts, "create", kBerth, "ipspaces", "", "", true},
    {"ControllerPatchesSpaceStatus", kController, kAccounts, "patch", kBerth, "ipspaces", "status", "", true},
    {"ControllerPatchesBlocks", kController, kAccounts, "patch", kBerth, "ipblocks", "", "", true},
    {"ControllerCreatesBlocks", kController, kAccounts, "create", kBerth, "ipblocks", "", "", true},
    {"ControllerDeletesBlocks", kController, kAccounts, "delete", kBerth, "ipblocks", "", "", true},
    {"ControllerCreatesAllocations", kController, kAccounts, "create", kBerth, "ipallocations", "", "team-a", true},
    {"ControllerWatchesPods", kController, kAccounts, "watch", "", "pods", "", "", true},
    {"ControllerPatchesNodeStatus", kController, kAccounts, "patch", "", "nodes", "status", "", true},
    {"ControllerReplacesNoNodeStatus", kController, kAccounts, "update", "", "nodes", "status", "", false},
    {"ControllerPatchesNoNode", kController, kAccounts, "patch", "", "nodes", "", "", false},
    {"ControllerDeletesNoNode", kController, kAccounts, "delete", "", "nodes", "", "", false},
    {"ControllerCreatesEvents", kController, kAccounts, "create", "", "events", "", "default", true},
    {"ControllerCreatesNoEventsElsewhere", kController, kAccounts, "create", "", "events", "", "kube-system", false},
    {"ControllerCreatesItsLease",
     kController,
     kAccounts,
     "create",
     "coordination.k8s.io",
     "leases",
     "",
     "berth-system",
     true},
    {"ControllerTakesNoForeignLease",
     kController,
     kAccounts,
     "create",
     "coordination.k8s.io",
     "leases",
     "",
     "kube-system",
     false},
    {"ControllerWatchesNodesLeases",
     kController,
     kAccounts,
     "watch",
     "coordination.k8s.io",
     "leases",
     "",
     "kube-node-lease",
     true},
    {"ControllerRenewsNoNodesLease",
     kController,
     kAccounts,
     "patch",
     "coordination.k8s.io",
     "leases",
     "",
     "kube-node-lease",
     false},
    {"ControllerReadsNoNamespaces", kController, kAccounts, "list", "", "namespaces", "", "", false},
    {"ControllerPatchesNoAllocation", kController, kAccounts, "patch", kBerth, "ipallocations", "", "team-a", false},
    {"ControllerReplacesNoBlock", kController, kAccounts, "update", kBerth, "ipblocks", "", "", false},
    {"ControllerReplacesNoSpace", kController, kAccounts, "update", kBerth, "ipspaces", "status", "", false},
    {"ControllerDeletesNoPool", kController, kAccounts, "delete", kBerth, "ippools", "", "", false},
    {"ControllerWritesNoReservation", kController, kAccounts, "patch", kBerth, "ipreservations", "", "", false},
    {"ControllerDeletesNoPod", kController, kAccounts, "delete", "", "pods", "", "team-a", false},
    {"ControllerReadsNoSecret", kController, kAccounts, "get", "", "secrets", "", "team-a", false},
    {"AnybodyElseReadsNothing", "someone", "system:authenticated", "get", kBerth, "ippools", "", "", false},
};
INSTANTIATE_TEST_SUITE_P(Table, Rights, testing::ValuesIn(kRights),
                         [](const auto& c) { return std::string(c.param.name); });

TEST(Rights, OfTenantsAreTheirOwnAllocations) {
  const json binding = {
      {"apiVersion", "rbac.authorization.k8s.io/v1"},
      {"kind", "RoleBinding"},
      {"metadata", {{"name", "tenant-a"}, {"namespace", "default"}}},
      {"roleRef", {{"apiGroup", "rbac.authorization.k8s.io"}, {"kind", "ClusterRole"}, {"name", "view"}}},
      {"subjects", json::array({{{"apiGroup", "rbac.authorization.k8s.io"}, {"kind", "User"}, {"name", "tenant-a"}}})}};
  const std::string path = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";
  const int status = Send(Method::kPost, path, binding).status;
  ASSERT_TRUE(status == 201 || status == 409);
  const auto allowed = [](const char* verb, const char* resource, const char* name_space) {
    const json review = {{"apiVersion", "authorization.k8s.io/v1"},
                         {"kind", "SubjectAccessReview"},
                         {"spec",
                          {{"user", "tenant-a"},
                           {"resourceAttributes",
                            {{"verb", verb}, {"group", kBerth}, {"resource", resource}, {"namespace", name_space}}}}}};
    return Send(Method::kPost, "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
        .body["status"]["allowed"]
        .get<bool>();
  };
  // The controller manager adds berth's rights to the role view some time after the installation.
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!allowed("list", "ipallocations", "default")) {
    ASSERT_LT(std::chrono::steady_clock::now(), end) << "the role view does not let tenants see their allocations";
  }
  EXPECT_FALSE(allowed("list", "ipallocations", "team-b"));
  EXPECT_FALSE(allowed("delete", "ipallocations", "default"));
  EXPECT_FALSE(allowed("list", "ipblocks", ""));
}

}  // namespace
}  // namespace berth::e2e
