// SPDX-License-Identifier: Apache-2.0
// Verbs: which requests they send, and how they read answers.
#include "k8sclient/verbs.h"

#include <deque>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "k8sclient/testing/scripted_api.h"

namespace berth::k8sclient {
namespace {

using nlohmann::json;
using testing::QueryValue;
using testing::ScriptedApi;

Response Ok(const std::string& body) { return {.status = 200, .body = body}; }

// Lets `api` answer with one response after the other.
ScriptedApi& Answering(ScriptedApi& api, std::deque<Response> responses) {
  api.on_call = [responses = std::move(responses)](const Request&) mutable -> Expected<Response> {
    Response next = std::move(responses.front());
    responses.pop_front();
    return next;
  };
  return api;
}

TEST(Path, EncodesEachSegment) {
  EXPECT_EQ(Path({"apis", "ipam.berth.dev", "v1alpha1", "ipblocks", "10.55.0.0-26"}),
            "/apis/ipam.berth.dev/v1alpha1/ipblocks/10.55.0.0-26");
  EXPECT_EQ(Path({"api", "a/b?c#d e%\xc3\xa4"}), "/api/a%2Fb%3Fc%23d%20e%25%C3%A4");
  EXPECT_EQ(Path({"api", "..", "."}), "/api/%2E%2E/%2E");
}

TEST(PathDeathTest, RefusesAnEmptySegment) {
  EXPECT_DEATH((void)Path({"apis", ""}), "check failed");  // the path would be the collection's
}

TEST(Verbs, WritesNameTheFieldManager) {
  ScriptedApi api;
  api.on_call = [](const Request&) { return Ok("{}"); };
  (void)Create(api, "/pools", json::object(), {});
  (void)MergePatch(api, "/pools/a", json::object(), {});
  for (const Request& request : api.requests()) {
    EXPECT_EQ(QueryValue(request, "fieldManager"), "berth") << ToString(request.method);
  }
}

TEST(Verbs, PatchIsAMergePatch) {
  ScriptedApi api;
  const auto patched = MergePatch(Answering(api, {Ok(R"({"a":2})")}), "/pools/a", {{"a", 2}, {"b", nullptr}}, {});
  ASSERT_TRUE(patched.has_value());
  EXPECT_EQ((*patched)["a"], 2);
  const Request request = api.requests().front();
  EXPECT_EQ(request.method, Method::kPatch);
  EXPECT_EQ(request.content_type, "application/merge-patch+json");
  EXPECT_EQ(json::parse(request.body), (json{{"a", 2}, {"b", nullptr}}));
}

TEST(Verbs, DeleteSendsOnlyThePreconditionsGiven) {
  ScriptedApi api;
  api.on_call = [](const Request&) { return Ok("{}"); };
  ASSERT_TRUE(Delete(api, "/a", {}, {}).has_value());
  ASSERT_TRUE(Delete(api, "/a", {.uid = "u", .resource_version = "7"}, {}).has_value());
  EXPECT_FALSE(json::parse(api.requests()[0].body).contains("preconditions"));
  EXPECT_EQ(json::parse(api.requests()[1].body)["preconditions"], (json{{"uid", "u"}, {"resourceVersion", "7"}}));
}

TEST(Verbs, BytesThatAreNotUtf8DoNotEndTheProcess) {
  ScriptedApi api;
  const auto created = Create(Answering(api, {Ok("{}")}), "/a", {{"name", "\xff\xfe"}}, {});
  EXPECT_TRUE(created.has_value());
}

struct VerbsNonsenseCase {
  const char* name;
  const char* body;
};
class VerbsNonsense : public ::testing::TestWithParam<VerbsNonsenseCase> {};

TEST_P(VerbsNonsense, AsAnAnswerLeavesAWriteInDoubtAndFailsARead) {
  ScriptedApi api;
  api.on_call = [](const Request&) { return Ok(GetParam().body); };
  const auto got = Get(api, "/a", {});
  ASSERT_FALSE(got.has_value());
  EXPECT_EQ(got.error().code, ErrorCode::kInternal);
  const auto patched = MergePatch(api, "/a", json::object(), {});
  ASSERT_FALSE(patched.has_value());
  EXPECT_EQ(patched.error().code, ErrorCode::kUnknownOutcome);
  const auto listed = List(api, "/a", {}, {});
  ASSERT_FALSE(listed.has_value());
  EXPECT_EQ(listed.error().code, ErrorCode::kInternal);
}

constexpr VerbsNonsenseCase kVerbsNonsenseCases[] = {
    {"Empty", ""},
    {"Html", "<html>Sign in to the hotel's network</html>"},
    {"CutOff", R"({"metadata":{"na)"},
    {"AnArray", "[]"},
    {"TwoDocuments", "{}{}"},
    {"DeepNesting", "[[[[[[[[[[[[[[[["},
};
INSTANTIATE_TEST_SUITE_P(Table, VerbsNonsense, ::testing::ValuesIn(kVerbsNonsenseCases),
                         [](const auto& c) { return std::string(c.param.name); });

TEST(List, FollowsThePagesAndSendsTheVersionOnlyWithTheFirst) {
  ScriptedApi api;
  Answering(api,
            {Ok(R"({"items":[{"n":1}],"metadata":{"resourceVersion":"9","continue":"t1"}})"),
             Ok(R"({"items":[{"n":2}],"metadata":{"resourceVersion":"9","continue":"t2"}})"),
             Ok(R"({"items":[{"n":3}],"metadata":{"resourceVersion":"9"}})")});
  const auto list = List(api,
                         "/a",
                         {.field_selector = "spec.node=n1",
                          .resource_version = "5",
                          .resource_version_match = "NotOlderThan",
                          .page_size = 1},
                         {});
  ASSERT_TRUE(list.has_value());
  ASSERT_EQ(list->items.size(), 3U);
  EXPECT_EQ(list->items[2]["n"], 3);
  EXPECT_EQ(list->resource_version, "9");
  const auto requests = api.requests();
  EXPECT_EQ(QueryValue(requests[0], "resourceVersion"), "5");
  EXPECT_EQ(QueryValue(requests[0], "resourceVersionMatch"), "NotOlderThan");
  for (const std::size_t page : {1U, 2U}) {
    EXPECT_EQ(QueryValue(requests[page], "continue"), "t" + std::to_string(page));
    EXPECT_EQ(QueryValue(requests[page], "resourceVersion"), "(none)");
    EXPECT_EQ(QueryValue(requests[page], "fieldSelector"), "spec.node=n1");
    EXPECT_EQ(QueryValue(requests[page], "limit"), "1");
  }
}

TEST(List, TakesAllInOneAnswerWhenAPageHasExpired) {
  ScriptedApi api;
  Answering(api,
            {Ok(R"({"items":[{"n":1}],"metadata":{"resourceVersion":"9","continue":"t1"}})"),
             {.status = 410},
             Ok(R"({"items":[{"n":1},{"n":2}],"metadata":{"resourceVersion":"20"}})")});
  const auto list = List(api, "/a", {}, {});
  ASSERT_TRUE(list.has_value());
  EXPECT_EQ(list->items.size(), 2U);
  EXPECT_EQ(QueryValue(api.requests().back(), "limit"), "(none)");
}

TEST(List, GoneOnTheFirstPageIsReturned) {
  ScriptedApi api;
  const auto list = List(Answering(api, {{.status = 410}}), "/a", {.resource_version = "1"}, {});
  ASSERT_FALSE(list.has_value());
  EXPECT_EQ(list.error().code, ErrorCode::kGone);
}

TEST(List, AnEmptyListMayBeNull) {
  ScriptedApi api;
  const auto list = List(Answering(api, {Ok(R"({"items":null,"metadata":{"resourceVersion":"1"}})")}), "/a", {}, {});
  ASSERT_TRUE(list.has_value());
  EXPECT_TRUE(list->items.empty());
}

}  // namespace
}  // namespace berth::k8sclient
