// SPDX-License-Identifier: Apache-2.0
// NodeMode: which files in the state folder keep a new node from beginning in direct mode.
#include "node/node_mode.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "node/del_queue.h"

namespace berth::node {
namespace {

enum class Began : std::uint8_t { kAnew, kBefore, kRefused };

struct BeginCase {
  const char* name;
  std::vector<std::string> folders;
  std::vector<std::pair<std::string, std::string>> files;
  Began want;
  const char* want_text = "";  // in the error message
};

class NodeModeTest : public testing::Test {
 protected:
  NodeModeTest() {
    std::string pattern = std::filesystem::temp_directory_path() / "berth-mode-test.XXXXXX";
    path_ = mkdtemp(pattern.data());
  }
  ~NodeModeTest() override { std::filesystem::remove_all(path_); }

  std::filesystem::path path_;
};

// The other program may be an agent that takes the node, or `berth` that queues a DEL.
TEST_F(NodeModeTest, DoesNotBeginWhileAnotherProgramHoldsTheQueue) {
  const Folder state = Folder::Open(path_).value();
  const auto queue = DelQueue::Lock(state, /*deadline=*/0);
  ASSERT_TRUE(queue.has_value());
  const auto began = BeginAsDirect(state);
  ASSERT_FALSE(began.has_value());
  EXPECT_NE(began.error().message.find("queue.lock"), std::string::npos) << began.error().message;
  EXPECT_TRUE(RequireMode(state, NodeMode::kAgent).has_value());
}

class NodeModeBegin : public NodeModeTest, public testing::WithParamInterface<BeginCase> {};

TEST_P(NodeModeBegin, AsDirectWhereNoAgentHasBeen) {
  for (const auto& folder : GetParam().folders) std::filesystem::create_directories(path_ / folder);
  for (const auto& [name, text] : GetParam().files) std::ofstream(path_ / name) << text;
  const Folder state = Folder::Open(path_).value();
  const auto before = state.Read("mode");

  const auto began = BeginAsDirect(state);

  if (GetParam().want == Began::kRefused) {
    ASSERT_FALSE(began.has_value());
    EXPECT_NE(began.error().message.find(GetParam().want_text), std::string::npos) << began.error().message;
    EXPECT_EQ(state.Read("mode"), before) << "nothing may have changed";
    return;
  }
  ASSERT_TRUE(began.has_value()) << began.error().message;
  EXPECT_EQ(*began, GetParam().want == Began::kAnew);
  EXPECT_TRUE(RequireMode(state, NodeMode::kDirect).has_value());
}

INSTANTIATE_TEST_SUITE_P(
    Table, NodeModeBegin,
    testing::Values(BeginCase{"ANewNode", {}, {}, Began::kAnew},
                    // Any of berth's programs may have made the machine's name.
                    BeginCase{"ANodeWithAMachineNameAlone", {}, {{"machine", "m"}}, Began::kAnew},
                    BeginCase{"OneThatIsDirectAlready", {}, {{"mode", "direct\n"}}, Began::kBefore},
                    BeginCase{"OneWhoseAgentHasRetired", {"nodes/n1"}, {{"mode", "direct"}}, Began::kBefore},
                    BeginCase{"OneWhoseAgentServed", {"nodes/n1"}, {}, Began::kRefused, "/nodes exists"},
                    BeginCase{"OneWithDelsThatWait", {}, {{"queue", "{}\n"}}, Began::kRefused, "/queue exists"},
                    BeginCase{"OneThatIsAnAgentsByName", {}, {{"mode", "agent\n"}}, Began::kRefused, "/mode exists"},
                    BeginCase{
                        "OneWhoseModeIsNoWord", {}, {{"mode", "dir"}}, Began::kRefused, "must hold agent or direct"}),
    [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace berth::node
