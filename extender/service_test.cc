// SPDX-License-Identifier: Apache-2.0
// Service: paths, statuses, and the verb and result that it reports for each request.
#include "extender/service.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace berth::extender {
namespace {

using nlohmann::json;
using testing::ElementsAre;

const SteadyTime kLeadsSince{std::chrono::seconds(1000)};
constexpr const char* kBody = R"({"Pod": {"metadata": {"uid": "a"}}, "NodeNames": ["n1", "n2"]})";

class ServiceTest : public testing::Test {
 protected:
  void Lead() {
    chooser_.Lead(kLeadsSince);
    static_cast<void>(chooser_.Publish(
        {.nodes = {{"n1", {.left = {{"ipv4", 1}}, .shared = {}}}}, .shared = {}},
        [](const std::string&, const std::string&) { return Seen::kUnknown; },
        kLeadsSince));
  }

  Chooser chooser_;
  std::vector<std::string> observed_;
  Service service_{{.chooser = chooser_,
                    .read_pod = [](const json& pod) -> Expected<Pod> {
                      if (!pod.contains("metadata")) return Fail(ErrorCode::kInvalid, "no metadata");
                      return Pod{.key = "default/a", .uid = pod["metadata"]["uid"], .needs = {{"ipv4", 1}}};
                    },
                    .now = [] { return kLeadsSince + kLeadingPause; },
                    .observe =
                        [this](std::string_view verb, std::string_view result, std::chrono::nanoseconds) {
                          observed_.push_back(std::string(verb) + " " + std::string(result));
                        }}};
};

TEST_F(ServiceTest, FiltersUnderAnyPrefix) {
  Lead();
  for (const char* target : {"/filter", "/v1beta1/filter", "/berth/filter?x=y"}) {
    const http::HttpAnswer answer = service_.Answer("POST", target, kBody);
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.content_type, "application/json");
    EXPECT_EQ(json::parse(answer.body)["NodeNames"], json::array({"n1"})) << target;
  }
  EXPECT_THAT(observed_, ElementsAre("filter chosen", "filter chosen", "filter chosen"));
}

TEST_F(ServiceTest, PrioritizesNodes) {
  Lead();
  const http::HttpAnswer answer = service_.Answer("POST", "/prioritize", kBody);
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(json::parse(answer.body).size(), 2U);
  EXPECT_THAT(observed_, ElementsAre("prioritize chosen"));
}

TEST_F(ServiceTest, AnswersErrorIfTheControllerDoesNotLead) {
  const http::HttpAnswer answer = service_.Answer("POST", "/filter", kBody);
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(json::parse(answer.body)["Error"], "berth: this berth-controller does not lead");
  EXPECT_THAT(answer.headers, ElementsAre(testing::Pair("Connection", "close")))
      << "the scheduler asks the leader next";
  EXPECT_THAT(observed_, ElementsAre("filter error"));
}

TEST_F(ServiceTest, ReportsNoneIfNoNodeHasAnAddress) {
  Lead();
  static_cast<void>(service_.Answer("POST", "/filter", kBody));
  static_cast<void>(service_.Answer("POST", "/filter", R"({"Pod": {"metadata": {"uid": "b"}}, "NodeNames": ["n1"]})"));
  EXPECT_THAT(observed_, ElementsAre("filter chosen", "filter none"));
}

TEST_F(ServiceTest, RefusesOtherMethodsUnknownPathsAndMalformedBodies) {
  const struct {
    const char* method;
    const char* target;
    const char* body;
    int status;
  } cases[] = {
      {"GET", "/filter", "", 405},
      {"POST", "/bind", kBody, 404},
      {"POST", "filter", kBody, 404},
      {"GET", "/", "", 404},
      {"POST", "/filter", "no json", 400},
      {"POST", "/filter", R"({"Pod": {}, "NodeNames": ["n1"]})", 400},
      {"POST", "/prioritize", "no json", 400},
      {"POST", "/prioritize", R"({"Pod": {}, "NodeNames": ["n1"]})", 400},
  };
  for (const auto& one : cases) {
    EXPECT_EQ(service_.Answer(one.method, one.target, one.body).status, one.status) << one.method << " " << one.target;
    EXPECT_THAT(observed_.back(), testing::EndsWith("refused"));
  }
}

}  // namespace
}  // namespace berth::extender
