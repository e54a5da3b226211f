// SPDX-License-Identifier: Apache-2.0
// Watches and the Reflector on a real API server.
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "collection_memory.h"
#include "k8sclient/reflector.h"
#include "k8sclient/verbs.h"
#include "real_server.h"

namespace berth::k8sclient {
namespace {

using nlohmann::json;

class Watching : public RealServer {};

TEST_F(Watching, EndsInOrderWhenItsTimeIsOver) {
  const auto list = List(api(), Collection(), {}, Soon());
  ASSERT_TRUE(list.has_value());
  const auto ended =
      api().Watch({.path = Collection(),
                   .query = {{"watch", "true"}, {"timeoutSeconds", "1"}, {"resourceVersion", list->resource_version}}},
                  {},
                  [](std::string_view) { return true; });
  ASSERT_TRUE(ended.has_value()) << ended.error().message;
  EXPECT_EQ(ended->status, 200);
}

TEST_F(Watching, TheReflectorFollowsAndHandsOverEachChange) {
  CollectionMemory memory;
  Reflector reflector(
      api(), memory, RealClock(), {.path = Collection(), .field_selector = "metadata.name!=kube-root-ca.crt"});
  const json before = CreateMap("before", "1");
  const std::jthread thread([&reflector](const std::stop_token& stop) { reflector.Run(stop); });
  ASSERT_TRUE(Await([&] { return memory.Value("before") == "1"; }));
  CreateMap("after", "1");
  ASSERT_TRUE(Await([&] { return memory.Value("after") == "1"; }));
  ASSERT_TRUE(MergePatch(api(), PathOf("before"), {{"data", {{"value", "2"}}}}, Soon()).has_value());
  ASSERT_TRUE(Await([&] { return memory.Value("before") == "2"; }));
  ASSERT_TRUE(Delete(api(), PathOf("after"), {}, Soon()).has_value());
  ASSERT_TRUE(Await([&] { return !memory.Value("after"); }));
  EXPECT_EQ(memory.failures(), 0);
}

TEST_F(Watching, ANameSelectorShowsThatObjectAlone) {
  CollectionMemory memory;
  Reflector reflector(api(),
                      memory,
                      RealClock(),
                      {.path = Collection(), .field_selector = "metadata.name=mine", .metadata_only = true});
  const std::jthread thread([&reflector](const std::stop_token& stop) { reflector.Run(stop); });
  ASSERT_TRUE(Await([&] { return memory.replacements() == 1; }));
  CreateMap("other");
  CreateMap("mine");
  ASSERT_TRUE(Await([&] { return memory.Names() == std::vector<std::string>{"mine"}; }));
  EXPECT_EQ(memory.upserts(), 1);
}

TEST_F(Watching, AKindThatIsNotInstalledIsTriedAgainUntilItIs) {
  CollectionMemory memory;
  Reflector reflector(api(), memory, RealClock(), {.path = "/apis/k8sclient.berth.dev/v1/widgets"});
  const std::jthread thread([&reflector](const std::stop_token& stop) { reflector.Run(stop); });
  ASSERT_TRUE(Await([&] { return memory.failures() > 0; }));
  EXPECT_EQ(ToString(memory.last_failure()), ToString(ErrorCode::kNotInstalled));
  const auto created =
      Create(api(),
             "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
             {{"metadata", {{"name", "widgets.k8sclient.berth.dev"}}},
              {"spec",
               {{"group", "k8sclient.berth.dev"},
                {"scope", "Cluster"},
                {"names", {{"plural", "widgets"}, {"kind", "Widget"}}},
                {"versions",
                 {{{"name", "v1"},
                   {"served", true},
                   {"storage", true},
                   {"schema",
                    {{"openAPIV3Schema", {{"type", "object"}, {"x-kubernetes-preserve-unknown-fields", true}}}}}}}}}}},
             Soon());
  ASSERT_TRUE(created.has_value()) << created.error().message;
  EXPECT_TRUE(Await([&] { return memory.replacements() > 0; }));
  EXPECT_TRUE(
      Delete(api(), "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.k8sclient.berth.dev", {}, Soon())
          .has_value());
}

}  // namespace
}  // namespace berth::k8sclient
