// SPDX-License-Identifier: Apache-2.0
// Tests unexpected answers of the API server, and bugs: they end one call, and never the agent.
#include <stdexcept>
#include <string>

#include "agent/agent_test_setup.h"

namespace berth::agent {
namespace {

using k8sclient::Request;
using k8sclient::Response;
using nlohmann::json;

// Answers GETs of pods itself.
class PodApi final : public k8sclient::Api {
 public:
  explicit PodApi(k8sclient::Api& inner) : inner_(inner) {}
  std::function<Response()> pod;
  std::string accept;  // of the last GET of a pod

  Expected<Response> Call(const Request& request, const k8sclient::CallOptions& options) override {
    if (request.path.find("/pods/") != std::string::npos) {
      accept = request.accept;
      return pod();
    }
    return inner_.Call(request, options);
  }
  Expected<Response> Watch(const Request& request, const k8sclient::WatchOptions& options,
                           const k8sclient::WatchSink& sink) override {
    return inner_.Watch(request, options, sink);
  }

 private:
  k8sclient::Api& inner_;
};

struct OddPod {
  const char* name;
  const char* text;
};

class OddAnswersTest : public AgentTest, public testing::WithParamInterface<OddPod> {
 protected:
  ~OddAnswersTest() override { agent_.reset(); }
  void StartReadingPods() {
    agent_ = MakeAgentOf(pods_, {.reads_pods = true});
    agent_->Start();
  }
  Reply AddOfPod() {
    auto body = json::parse(Body("ADD", "c1"));
    body["args"] = "IgnoreUnknown=1;K8S_POD_NAMESPACE=ns;K8S_POD_NAME=pod;K8S_POD_UID=u";
    return agent_->Handle(body.dump());
  }

  PodApi pods_{api_};
};

TEST_P(OddAnswersTest, AnOddPodFailsItsAddAndNoOther) {
  pods_.pod = [] { return Response{.status = 200, .body = GetParam().text}; };
  StartReadingPods();
  EXPECT_FALSE(AddOfPod().ok);
  EXPECT_TRUE(Add("c2").ok);
}

INSTANTIATE_TEST_SUITE_P(
    Table, OddAnswersTest,
    testing::Values(OddPod{"NoObject", "5"}, OddPod{"Empty", "{}"}, OddPod{"MetadataIsANumber", R"({"metadata":5})"},
                    OddPod{"UidIsANumber", R"({"metadata":{"name":"pod","uid":5}})"},
                    OddPod{"AnnotationsAreAList", R"({"metadata":{"name":"pod","uid":"u","annotations":["a"]}})"},
                    OddPod{"AnnotationIsANumber",
                           R"({"metadata":{"name":"pod","uid":"u","annotations":{"ipam.berth.dev/pools":5}}})"}),
    [](const auto& row) { return std::string(row.param.name); });

using StaticPodTest = OddAnswersTest;

// The runtime passes the UID that the kubelet has made for the static pod. The mirror pod has another UID.
TEST_F(StaticPodTest, GetsAnAddressOfThePoolThatItsMirrorPodNames) {
  pods_.pod = [] {
    return Response{.status = 200, .body = R"({"metadata":{"name":"pod","uid":"of-the-mirror","annotations":
        {"kubernetes.io/config.mirror":"u","ipam.berth.dev/pools":"p1"}}})"};
  };
  StartReadingPods();
  EXPECT_EQ(AddressIn(AddOfPod()).substr(0, 8), "10.55.0.");
  EXPECT_EQ(pods_.accept, k8sclient::kPartialMetadata);
}

TEST_F(StaticPodTest, DoesNotStartWithTheAnnotationsOfAnotherMirrorPod) {
  pods_.pod = [] {
    return Response{.status = 200, .body = R"({"metadata":{"name":"pod","uid":"of-the-mirror","annotations":
        {"kubernetes.io/config.mirror":"u2"}}})"};
  };
  StartReadingPods();
  const Reply reply = AddOfPod();
  EXPECT_FALSE(reply.ok);
  EXPECT_NE(reply.body.find("has been replaced by another pod"), std::string::npos) << reply.body;
}

using BugTest = OddAnswersTest;

TEST_F(BugTest, EndsOneCallWithCode999) {
  pods_.pod = []() -> Response { throw std::logic_error("nobody expects this"); };
  StartReadingPods();
  const Reply reply = AddOfPod();
  const json error = json::parse(reply.body);
  EXPECT_FALSE(reply.ok);
  EXPECT_EQ(error["code"], 999);
  EXPECT_NE(error["msg"].get<std::string>().find("nobody expects this"), std::string::npos);
}

TEST_F(BugTest, LeavesTheAgentServing) {
  pods_.pod = []() -> Response { throw std::logic_error("nobody expects this"); };
  StartReadingPods();
  static_cast<void>(AddOfPod().ok);
  EXPECT_TRUE(Add("c2").ok);
}

}  // namespace
}  // namespace berth::agent
