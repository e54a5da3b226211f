// SPDX-License-Identifier: Apache-2.0
// The verbs, their errors, and credentials on a real API server.
#include "k8sclient/verbs.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "k8sclient/kubeconfig.h"
#include "k8sclient/testing/fake_clock.h"
#include "real_server.h"

namespace berth::k8sclient {
namespace {

using nlohmann::json;

class Verbs : public RealServer {
 protected:
  template <typename T>
  void ExpectError(const Expected<T>& result, ErrorCode want) {
    ASSERT_FALSE(result.has_value());
    EXPECT_EQ(ToString(result.error().code), ToString(want)) << result.error().message;
  }
  json PatchOf(const json& object, const std::string& value) {
    return {{"metadata", {{"resourceVersion", object["metadata"]["resourceVersion"]}}}, {"data", {{"value", value}}}};
  }
};

TEST_F(Verbs, AnObjectIsCreatedReadPatchedAndDeleted) {
  const json created = CreateMap("a", "1");
  const auto read = Get(api(), PathOf("a"), Soon());
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ((*read)["data"]["value"], "1");
  const auto patched = MergePatch(api(), PathOf("a"), PatchOf(*read, "2"), Soon());
  ASSERT_TRUE(patched.has_value()) << patched.error().message;
  EXPECT_EQ((*patched)["data"]["value"], "2");
  EXPECT_EQ((*patched)["metadata"]["managedFields"][0]["manager"], "berth");
  ASSERT_TRUE(Delete(api(), PathOf("a"), {.uid = created["metadata"]["uid"]}, Soon()).has_value());
  ExpectError(Get(api(), PathOf("a"), Soon()), ErrorCode::kNotFound);
}

TEST_F(Verbs, AStaleVersionIsAConflictWhateverTheContent) {
  const json first = CreateMap("a", "1");
  ASSERT_TRUE(MergePatch(api(), PathOf("a"), PatchOf(first, "2"), Soon()).has_value());
  ExpectError(MergePatch(api(), PathOf("a"), PatchOf(first, "3"), Soon()), ErrorCode::kConflict);
  ExpectError(MergePatch(api(), PathOf("a"), PatchOf(first, "2"), Soon()), ErrorCode::kConflict);
}

TEST_F(Verbs, AnIdenticalPatchLeavesTheVersion) {
  const json first = CreateMap("a", "1");
  const auto patched = MergePatch(api(), PathOf("a"), PatchOf(first, "1"), Soon());
  ASSERT_TRUE(patched.has_value());
  EXPECT_EQ((*patched)["metadata"]["resourceVersion"], first["metadata"]["resourceVersion"]);
}

TEST_F(Verbs, ATakenNameIsSaidSo) {
  CreateMap("a");
  ExpectError(Create(api(), Collection(), {{"metadata", {{"name", "a"}}}}, Soon()), ErrorCode::kAlreadyExists);
}

TEST_F(Verbs, DeletePreconditionsThatDoNotHoldAreAConflict) {
  const json first = CreateMap("a", "1");
  ASSERT_TRUE(MergePatch(api(), PathOf("a"), PatchOf(first, "2"), Soon()).has_value());
  const std::string version = first["metadata"]["resourceVersion"];
  ExpectError(Delete(api(), PathOf("a"), {.resource_version = version}, Soon()), ErrorCode::kConflict);
  ExpectError(Delete(api(), PathOf("a"), {.uid = "00000000-0000-0000-0000-000000000000"}, Soon()),
              ErrorCode::kConflict);
  EXPECT_TRUE(Get(api(), PathOf("a"), Soon()).has_value());
}

TEST_F(Verbs, AnObjectWithAFinalizerStaysAndThatIsSuccess) {
  const auto created =
      Create(api(), Collection(), {{"metadata", {{"name", "a"}, {"finalizers", {"berth.dev/test"}}}}}, Soon());
  ASSERT_TRUE(created.has_value()) << created.error().message;
  ASSERT_TRUE(Delete(api(), PathOf("a"), {}, Soon()).has_value());
  const auto read = Get(api(), PathOf("a"), Soon());
  ASSERT_TRUE(read.has_value());
  EXPECT_TRUE((*read)["metadata"].contains("deletionTimestamp"));
  EXPECT_TRUE(MergePatch(api(), PathOf("a"), {{"metadata", {{"finalizers", nullptr}}}}, Soon()).has_value());
}

TEST_F(Verbs, AnInvalidObjectIsRefusedWithItsField) {
  const auto created = Create(api(), Collection(), {{"metadata", {{"name", "Not_A_Name"}}}}, Soon());
  ExpectError(created, ErrorCode::kInvalid);
  EXPECT_NE(created.error().details.find("metadata.name"), std::string::npos) << created.error().details;
}

TEST_F(Verbs, AnUnknownGroupAndAnUnknownKindAreNotInstalled) {
  for (const char* path : {"/apis/no.such.group/v1/things",
                           "/apis/no.such.group/v1/things/a",
                           "/apis/apps/v1/things",
                           "/apis/apps/v1/things/a",
                           "/apis/apiextensions.k8s.io/v9/things"}) {
    ExpectError(Get(api(), path, Soon()), ErrorCode::kNotInstalled);
    ExpectError(List(api(), path, {}, Soon()), ErrorCode::kNotInstalled);
    ExpectError(MergePatch(api(), path, {{"a", 1}}, Soon()), ErrorCode::kNotInstalled);
  }
  ExpectError(Create(api(), "/apis/no.such.group/v1/things", {{"a", 1}}, Soon()), ErrorCode::kNotInstalled);
}

TEST_F(Verbs, AMissingNamespaceIsNotAMissingKind) {
  ExpectError(Create(api(), "/api/v1/namespaces/no-such/configmaps", {{"metadata", {{"name", "a"}}}}, Soon()),
              ErrorCode::kNotFound);
}

TEST_F(Verbs, AListComesInPages) {
  for (int i = 0; i < 25; ++i) CreateMap("m" + std::to_string(100 + i), "x");
  const auto list = List(api(), Collection(), {.field_selector = "metadata.name!=m100", .page_size = 7}, Soon());
  ASSERT_TRUE(list.has_value()) << list.error().message;
  EXPECT_FALSE(list->resource_version.empty());
  std::vector<std::string> names;
  for (const json& item : list->items) names.push_back(item["metadata"]["name"]);
  std::erase(names, "kube-root-ca.crt");
  EXPECT_EQ(names.size(), 24U);
  EXPECT_EQ(names.front(), "m101");
}

TEST_F(Verbs, AListNotOlderThanAWriteHoldsIt) {
  for (int i = 0; i < 20; ++i) {
    const json created = CreateMap("m" + std::to_string(i));
    const auto list =
        List(api(),
             Collection(),
             {.resource_version = created["metadata"]["resourceVersion"], .resource_version_match = "NotOlderThan"},
             Soon());
    ASSERT_TRUE(list.has_value()) << list.error().message;
    EXPECT_TRUE(std::ranges::any_of(
        list->items, [&created](const json& item) { return item["metadata"]["uid"] == created["metadata"]["uid"]; }))
        << "the list lacks object " << i;
  }
}

TEST_F(Verbs, AVersionTheServerHasNotReachedIsGoneAndNotWaitedForTenTimes) {
  testing::FakeClock clock;
  const auto api = MakeHttpApi(config(), {.clock = &clock});
  ASSERT_TRUE(api.has_value()) << api.error().message;
  const auto list =
      List(**api, Collection(), {.resource_version = "900000000", .resource_version_match = "NotOlderThan"}, Soon());
  ExpectError(list, ErrorCode::kGone);
  EXPECT_TRUE(clock.slept().empty()) << "the client repeats the request";
}

TEST_F(Verbs, MetadataOnlyComesWithoutTheRest) {
  CreateMap("a", "1");
  const auto read = Get(api(), PathOf("a"), Soon(), kPartialMetadata);
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ((*read)["kind"], "PartialObjectMetadata");
  EXPECT_FALSE(read->contains("data"));
  const auto list = List(api(), Collection(), {.accept = kPartialMetadataList}, Soon());
  ASSERT_TRUE(list.has_value()) << list.error().message;
  ASSERT_FALSE(list->items.empty());
  for (const json& item : list->items) EXPECT_FALSE(item.contains("data"));
}

TEST_F(Verbs, ManyThreadsShareOneClient) {
  CreateMap("counter", "0");
  std::atomic<int> added = 0;
  {
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < 6; ++thread) {
      threads.emplace_back([&] {
        while (added < 60) {
          const auto read = Get(api(), PathOf("counter"), Soon());
          ASSERT_TRUE(read.has_value()) << read.error().message;
          const int value = std::stoi((*read)["data"]["value"].get<std::string>());
          const auto patched = MergePatch(api(), PathOf("counter"), PatchOf(*read, std::to_string(value + 1)), Soon());
          if (patched) {
            ++added;
          } else {
            ASSERT_EQ(patched.error().code, ErrorCode::kConflict) << patched.error().message;
          }
        }
      });
    }
  }
  const auto read = Get(api(), PathOf("counter"), Soon());
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ((*read)["data"]["value"], std::to_string(added.load()));
}

TEST_F(Verbs, ATokenNobodyIssuedIsUnauthenticated) {
  ClientConfig stranger = config();
  stranger.client_certificate = {};
  stranger.client_key = {};
  stranger.token = {.text = "nonsense"};
  const auto read = Get(*Make(stranger), PathOf("a"), Soon());
  ExpectError(read, ErrorCode::kUnauthenticated);
}

TEST_F(Verbs, AnExpiredCertificateIsUnauthenticated) {
  const std::string text = Cluster("kubeconfig --user jane --expired");
  const auto expired =
      LoadKubeconfig({"/k"}, "", [&text](const std::string&) -> Expected<std::string> { return text; });
  ASSERT_TRUE(expired.has_value()) << expired.error().message;
  ExpectError(Get(*Make(*expired), PathOf("a"), Soon()), ErrorCode::kUnauthenticated);
}

TEST_F(Verbs, AUserWithoutRightsIsForbidden) {
  const std::string text = Cluster("kubeconfig --user system:node:n7 --group system:nodes");
  const auto node = LoadKubeconfig({"/k"}, "", [&text](const std::string&) -> Expected<std::string> { return text; });
  ASSERT_TRUE(node.has_value()) << node.error().message;
  EXPECT_EQ(UserName(*node, ReadWholeFile), "system:node:n7");
  const auto denied = Get(*Make(*node), PathOf("a"), Soon());
  ExpectError(denied, ErrorCode::kForbidden);
  EXPECT_NE(denied.error().message.find("system:node:n7"), std::string::npos);
}

TEST_F(Verbs, AnImpersonatedUserHasOnlyItsOwnRights) {
  ClientConfig impersonating = config();
  impersonating.impersonate_user = "jane";
  impersonating.impersonate_groups = {"developers"};
  const auto denied = Get(*Make(impersonating), PathOf("a"), Soon());
  ExpectError(denied, ErrorCode::kForbidden);
  EXPECT_NE(denied.error().message.find("jane"), std::string::npos) << denied.error().message;
}

// A pod's credentials: the folder of a service account with a bound token. The test replaces the token while the client
// is in use.
TEST_F(Verbs, ATokenFileThatIsReplacedIsReadAgainWhenTheServerRefusesTheOldOne) {
  const std::string accounts = Path({"api", "v1", "namespaces", name_space(), "serviceaccounts"});
  ASSERT_TRUE(Create(api(), accounts, {{"metadata", {{"name", "pod"}}}}, Soon()).has_value());
  const auto requested = Create(
      api(),
      accounts + "/pod/token",
      {{"apiVersion", "authentication.k8s.io/v1"}, {"kind", "TokenRequest"}, {"spec", {{"expirationSeconds", 3600}}}},
      Soon());
  ASSERT_TRUE(requested.has_value()) << requested.error().message;
  const std::string token = (*requested)["status"]["token"];
  const std::string directory = ::testing::TempDir() + "berth-sa-" + std::to_string(getpid());
  std::filesystem::create_directories(directory);
  const auto write = [&directory](const char* name, const std::string& text) {
    std::ofstream(directory + "/" + name) << text;
  };
  write("ca.crt", config().certificate_authority.text);
  write("token", "outdated");
  const std::string authority = config().server.substr(config().server.find("://") + 3);
  const auto environment = [&authority](const std::string& name) {
    if (name == "KUBERNETES_SERVICE_HOST") return authority.substr(0, authority.rfind(':'));
    return name == "KUBERNETES_SERVICE_PORT" ? authority.substr(authority.rfind(':') + 1) : std::string();
  };
  const auto in_cluster = InClusterConfig(environment, directory);
  ASSERT_TRUE(in_cluster.has_value()) << in_cluster.error().message;
  const auto pod = Make(*in_cluster);
  ExpectError(Get(*pod, PathOf("a"), Soon()), ErrorCode::kUnauthenticated);
  write("token", token + "\n");
  const auto denied = Get(*pod, PathOf("a"), Soon());
  ExpectError(denied, ErrorCode::kForbidden);
  EXPECT_NE(denied.error().message.find("system:serviceaccount:" + name_space() + ":pod"), std::string::npos)
      << denied.error().message;
  std::filesystem::remove_all(directory);
}

TEST_F(Verbs, AnotherAuthorityIsNotTrusted) {
  ClientConfig wrong = config();
  wrong.certificate_authority = {.text = wrong.client_certificate.text};  // a certificate that has issued no other
  const auto read = Get(*Make(wrong), PathOf("a"), Soon());
  ExpectError(read, ErrorCode::kUnavailable);
  EXPECT_NE(read.error().message.find("is not accepted"), std::string::npos) << read.error().message;
}

}  // namespace
}  // namespace berth::k8sclient
