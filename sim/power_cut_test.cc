// SPDX-License-Identifier: Apache-2.0
// Data that the programs of a node must not lose, after power cuts with many seeds.
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <spdlog/spdlog.h>

#include "agent/journal.h"
#include "crds/names.h"
#include "k8sclient/testing/model_api.h"
#include "node/del_queue.h"
#include "node/folder.h"
#include "node/held_file.h"
#include "node/node_mode.h"
#include "sim/files.h"
#include "sim/node.h"
#include "sim/story.h"
#include "sim/test_history.h"

namespace berth::sim {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kCutSeeds = 40;

class PowerCutTest : public testing::Test {
 protected:
  // Number of seeds with which `is_kept` holds if the power is cut after `writes` has returned.
  [[nodiscard]] std::uint64_t Kept(const std::function<void()>& writes, const std::function<bool()>& is_kept) const {
    std::uint64_t kept = 0;
    for (std::uint64_t seed = 1; seed <= kCutSeeds; ++seed) {
      const Written told = TellOf(seed, [&](std::string& text) {
        MakeFolders(root_);
        writes();
        CutPower(root_);
        text = is_kept() ? "kept" : "lost";
      });
      if (told.text == "kept") ++kept;
    }
    return kept;
  }
  [[nodiscard]] node::Folder State() const { return node::Folder::Open(root_).value(); }
  [[nodiscard]] node::DelQueue Queue() const { return node::DelQueue::Lock(State(), /*deadline=*/0).value(); }

  const std::string root_ = "/sim/n1/state";
};

const ipam::Attachment kAttachment = "0123456789ab-0123456789abcdef";

TEST_F(PowerCutTest, KeepsAJournalThatWasSyncedInFoldersThatTheAgentMade) {
  const auto open = [this] {
    const auto nodes = State().Sub("nodes", node::FileSync::kYes);
    return agent::Journal::Open(*nodes->Sub("n1", node::FileSync::kYes)).value();
  };
  const auto writes = [&] { EXPECT_TRUE(open()->Add(kAttachment, node::FileSync::kYes).has_value()); };
  EXPECT_EQ(Kept(writes, [&] { return open()->Contains(kAttachment); }), kCutSeeds);
}

TEST_F(PowerCutTest, KeepsAFolderWhoseFirstAgentWasKilledBeforeItsSync) {
  const auto writes = [this] {
    // The process was killed before it could sync the folder.
    EXPECT_EQ(MakeFolder(/*at=*/-1, (root_ + "/nodes").c_str()), 0);
    const auto nodes = State().Sub("nodes", node::FileSync::kYes);
    EXPECT_TRUE(nodes->Write("a", "1", node::FileSync::kYes).has_value());
  };
  EXPECT_EQ(Kept(writes, [this] { return IsFile((root_ + "/nodes/a").c_str()); }), kCutSeeds);
}

TEST_F(PowerCutTest, MayLoseAJournalThatWasNotSynced) {
  const auto open = [this] { return agent::Journal::Open(State()).value(); };
  const auto writes = [&] { EXPECT_TRUE(open()->Add(kAttachment, node::FileSync::kNo).has_value()); };
  const auto kept = Kept(writes, [&] { return open()->Contains(kAttachment); });
  EXPECT_GT(kept, 0U);
  EXPECT_LT(kept, kCutSeeds);
}

TEST_F(PowerCutTest, KeepsTheMachinesName) {
  std::string name;
  const auto writes = [&] { name = *node::MachineName(State()); };
  EXPECT_EQ(Kept(writes, [&] { return *node::MachineName(State()) == name; }), kCutSeeds);
}

TEST_F(PowerCutTest, KeepsTheMode) {
  const auto writes = [this] { EXPECT_TRUE(node::WriteMode(State(), node::NodeMode::kDirect).has_value()); };
  EXPECT_EQ(Kept(writes, [this] { return node::RequireMode(State(), node::NodeMode::kDirect).has_value(); }),
            kCutSeeds);
}

TEST_F(PowerCutTest, KeepsAQueuedDel) {
  const auto writes = [this] { EXPECT_TRUE(Queue().Add("a call").has_value()); };
  EXPECT_EQ(Kept(writes, [this] { return Queue().Calls()->size() == 1; }), kCutSeeds);
}

TEST_F(PowerCutTest, KeepsADelThatWasQueuedAfterAKilledProcessQueuedOne) {
  const auto writes = [this] {
    const auto first = std::make_shared<Process>("berth");
    Spawn(first, [this] { static_cast<void>(Queue().Add("the first").has_value()); });
    for (auto steps = Below(40); steps > 0; --steps) std::this_thread::yield();
    Kill(*first);
    EXPECT_TRUE(Queue().Add("the second").has_value());
  };
  const auto has_second = [this] {
    const auto calls = Queue().Calls();
    return !calls->empty() && calls->back() == "the second";
  };
  EXPECT_EQ(Kept(writes, has_second), kCutSeeds);
}

std::string CallOf(const char* verb) {
  const nlohmann::json config = {{"cniVersion", "1.1.0"},
                                 {"name", "net"},
                                 {"ipam", {{"type", "berth"}, {"pools", {"p"}}, {"timeoutSeconds", 10}}}};
  return nlohmann::json{{"command", verb},
                        {"containerID", "c1"},
                        {"ifname", "eth0"},
                        {"netns", std::string(verb) == "ADD" ? "/var/run/netns/x" : ""},
                        {"args", ""},
                        {"startedBootNanos", node::BootTimeNow()},
                        {"config", config}}
      .dump();
}

// An admission webhook may refuse changes of a block for hours.
TEST_F(PowerCutTest, KeepsADelThatTheApiServerRefuses) {
  std::uint64_t kept = 0;
  for (std::uint64_t seed = 1; seed <= kCutSeeds; ++seed) {
    const Written told = TellOf(seed, [](std::string& text) {
      spdlog::set_level(spdlog::level::off);
      Story story(/*is_told=*/false);
      auto& api = *new k8sclient::testing::ModelApi;  // NOLINT(cppcoreguidelines-owning-memory): agents outlive it
      api.Put(std::string(crds::kPoolsPath),
              {{"metadata", {{"name", "p"}, {"uid", "uid-of-p"}}},
               {"spec", {{"subnet", "10.55.0.0/24"}, {"blockSize", 28}}},
               {"status", {{"conditions", {{{"type", "Ready"}, {"status", "True"}, {"reason", "Accepted"}}}}}}});
      Node node({.name = "n1", .called = "n1", .folder = "/sim/n1", .standby = 0}, api, story);
      node.StartAgent();
      EXPECT_TRUE(node.Call(CallOf("ADD"), 60s)->ok);
      api.SetFaults([](const k8sclient::Request& request) {
        const bool is_patch = request.method == k8sclient::Method::kPatch;
        return is_patch ? k8sclient::testing::ApiFault::kInvalid : k8sclient::testing::ApiFault::kNone;
      });
      EXPECT_TRUE(node.Call(CallOf("DEL"), 60s)->ok);
      std::this_thread::sleep_for(20s);
      node.LosePower();
      api.SetFaults(nullptr);
      std::this_thread::sleep_for(30s);
      for (const nlohmann::json& block : api.Objects(std::string(crds::kBlocksPath))) {
        if (!block["allocations"].empty()) return;
      }
      text = "kept";
    });
    if (told.text == "kept") ++kept;
  }
  EXPECT_EQ(kept, kCutSeeds);
}

}  // namespace
}  // namespace berth::sim
