// SPDX-License-Identifier: Apache-2.0
// Answers of the API server with JSON values of unexpected types: DirectStore returns an error or nothing, and throws
// no exception.
#include <filesystem>
#include <string>
#include <unistd.h>

#include <gtest/gtest.h>

#include "ipam/engine_test_setup.h"
#include "node/direct_store.h"

namespace berth::node {
namespace {

using k8sclient::Request;
using k8sclient::Response;

// Answers every request with the same text.
class OneAnswerApi final : public k8sclient::Api {
 public:
  std::string text;

  Expected<Response> Call(const Request& /*request*/, const k8sclient::CallOptions& /*options*/) override {
    return Response{.status = 200, .body = text};
  }
  Expected<Response> Watch(const Request& /*request*/, const k8sclient::WatchOptions& /*options*/,
                           const k8sclient::WatchSink& /*sink*/) override {
    return Response{.status = 200};
  }
};

class NoRuntime final : public ipam::Runtime {
 public:
  std::int64_t UnixMillis() override { return 0; }
  ipam::Uint128 Random(ipam::Uint128 /*bound*/) override { return 0; }
  bool Wait(std::chrono::milliseconds /*time*/) override { return false; }
  Expected<void> MayGoOn() override { return {}; }
};

class OddAnswers : public testing::TestWithParam<const char*> {
 protected:
  ~OddAnswers() override { std::filesystem::remove_all(path_); }
  DirectStore Store(const std::string& text) {
    api_.text = text;
    return {
        api_, *directory_, runtime_, {.node = "n1", .call = {}, .on_unreadable = [this](const Error&) { ++reports_; }}};
  }
  static std::string ListOf(const std::string& item) {
    return R"({"metadata":{"resourceVersion":"1"},"items":[)" + item + "]}";
  }
  int reports_ = 0;

 private:
  std::filesystem::path path_ =
      std::filesystem::temp_directory_path() / ("berth-odd-answers-test." + std::to_string(getpid()));
  Expected<NodeDirectory> directory_ = NodeDirectory::Open(path_, "n1", "https://api");
  OneAnswerApi api_;
  NoRuntime runtime_;
};

TEST_P(OddAnswers, HaveNoLabels) {
  const auto labels = Store(GetParam()).ReadNamespaceLabels("ns");
  EXPECT_TRUE(!labels || labels->empty());
}

TEST_P(OddAnswers, AreNotTheNamedPools) {
  const auto pools = Store(ListOf(GetParam())).ReadPools({{"p1", "p2"}}, ipam::Freshness::kHint);
  ASSERT_TRUE(pools.has_value());
  EXPECT_TRUE(pools->empty());
}

TEST_P(OddAnswers, AreNoBlocksOfASpace) {
  const auto cidrs = Store(ListOf(GetParam())).ReadBlockCidrs("default");
  ASSERT_TRUE(cidrs.has_value());
  EXPECT_TRUE(cidrs->empty());
}

TEST_P(OddAnswers, AreNoBlockThatCanBeUsed) {
  const auto blocks = Store(ListOf(GetParam())).ReadBlocks(ipam::BlockScope::kShared, ipam::Freshness::kLatest);
  ASSERT_TRUE(blocks.has_value()) << "one object must not fail the calls that look at others";
  EXPECT_TRUE(blocks->empty());
  EXPECT_EQ(reports_, 1) << "and must not go unnoticed";
}

INSTANTIATE_TEST_SUITE_P(Table, OddAnswers,
                         testing::Values("5", "[]", "{}", R"({"metadata":5})", R"({"metadata":{"name":5,"labels":5}})",
                                         R"({"metadata":{"name":null,"labels":["a"]}})"));

// A mutating webhook put the old content back.
TEST(OddAnswersToPatches, TheVersionThatWasPatchedMeansThatNothingWasStored) {
  ipam::Block before =
      ipam::NewBlock(ipam::TestPool("p1", "10.55.0.0/24"), ipam::Prefix::Parse("10.55.0.0/26").value(), "n1");
  before.uid = "u";
  before.resource_version = "7";
  OneAnswerApi api;
  for (const char* version : {"6", "7", "8"}) {
    api.text = R"({"metadata":{"name":"10.55.0.0-26","uid":"u","resourceVersion":")" + std::string(version) + "\"}}";
    const auto written = PatchBlock(api, before, before, {});
    const ErrorCode code = written ? ErrorCode::kInternal : written.error().code;
    EXPECT_EQ(written.has_value(), std::string(version) == "8");
    EXPECT_EQ(code == ErrorCode::kInvalid, !written) << ToString(code);
  }
}

}  // namespace
}  // namespace berth::node
