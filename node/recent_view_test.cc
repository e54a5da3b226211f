// SPDX-License-Identifier: Apache-2.0
// RecentView: what a process learns from the process before it, and when it must learn nothing.
#include "node/recent_view.h"

#include <filesystem>
#include <memory>
#include <unistd.h>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace berth::node {
namespace {

using ipam::BlockView;

constexpr BootNanos kSecond = 1'000'000'000;

class RecentViewTest : public testing::Test {
 protected:
  RecentViewTest()
      : path_(std::filesystem::temp_directory_path() / ("berth-recent-test." + std::to_string(getpid()))),
        directory_(NodeDirectory::Open(path_, "n1", "https://api")) {}
  ~RecentViewTest() override { std::filesystem::remove_all(path_); }

  static BlockView Block(const char* cidr, const std::string& version) {
    ipam::Pool pool;
    pool.name = "p1";
    pool.uid = "uid-of-p1";
    ipam::Block block = ipam::NewBlock(pool, *ipam::Prefix::Parse(cidr), "n1");
    block.uid = "uid";
    block.resource_version = version;
    block.has_managed_fields = version == "1";
    return std::make_shared<const ipam::Block>(std::move(block));
  }
  // The view of a new process.
  [[nodiscard]] RecentView View() const { return {*directory_, /*is_kept=*/true, limits_}; }
  // The blocks and versions that a new process reads first.
  [[nodiscard]] std::string Seen() const {
    const auto blocks = View().Take();
    if (!blocks) return "nothing";
    std::string text;
    for (const BlockView& block : *blocks) text += block->name + "@" + block->resource_version + " ";
    return text;
  }
  [[nodiscard]] const NodeDirectory& directory() const { return *directory_; }
  // The same node's directory, for a process that reaches the API server by another URL.
  [[nodiscard]] const NodeDirectory& At(std::string_view server) {
    other_ = NodeDirectory::Open(path_, "n1", server);
    return **other_;
  }

  // A test may take longer than the limits of the product.
  RecentLimits limits_{.blocks = std::chrono::hours(1), .pools = std::chrono::hours(1)};

 private:
  std::filesystem::path path_;
  Expected<NodeDirectory> directory_;
  std::optional<Expected<NodeDirectory>> other_;
};

TEST_F(RecentViewTest, TheFirstProcessKnowsNothing) { EXPECT_EQ(Seen(), "nothing"); }

TEST_F(RecentViewTest, TheNextProcessKnowsListedBlocks) {
  View().NoteAll({Block("10.0.0.0/26", "1"), Block("10.0.1.0/26", "2")}, BootTimeNow());
  EXPECT_EQ(Seen(), "10.0.0.0-26@1 10.0.1.0-26@2 ");
}

TEST_F(RecentViewTest, TheNextProcessSeesABlockAsItWasListed) {
  const BlockView block = Block("10.0.0.0/26", "1");
  View().NoteAll({block}, BootTimeNow());
  const auto seen = View().Take();
  ASSERT_TRUE(seen.has_value());
  EXPECT_EQ(*seen->front(), *block);
}

TEST_F(RecentViewTest, TheNextProcessKnowsAWrittenBlock) {
  RecentView view = View();
  view.NoteAll({Block("10.0.0.0/26", "1")}, BootTimeNow());
  view.BeginWrite("10.0.0.0-26");
  view.NoteWritten(Block("10.0.0.0/26", "2"));
  EXPECT_EQ(Seen(), "10.0.0.0-26@2 ");
}

TEST_F(RecentViewTest, AWriteThatDidNotEndLeavesNothing) {
  RecentView view = View();
  view.NoteAll({Block("10.0.0.0/26", "1")}, BootTimeNow());
  view.BeginWrite("10.0.0.0-26");
  EXPECT_EQ(Seen(), "nothing");
}

TEST_F(RecentViewTest, AWriteThatDidNotEndIsNotCoveredUpByTheNext) {
  RecentView view = View();
  view.NoteAll({Block("10.0.0.0/26", "1"), Block("10.0.1.0/26", "2")}, BootTimeNow());
  view.BeginWrite("10.0.0.0-26");
  view.BeginWrite("10.0.1.0-26");
  view.NoteWritten(Block("10.0.1.0/26", "3"));
  EXPECT_EQ(Seen(), "nothing");
}

TEST_F(RecentViewTest, AWriteThatDidNotEndIsNotCoveredUpByABlockThatNeedsNoWrite) {
  RecentView view = View();
  view.NoteAll({Block("10.0.0.0/26", "1"), Block("10.0.1.0/26", "2")}, BootTimeNow());
  view.BeginWrite("10.0.0.0-26");
  view.NoteWritten(Block("10.0.1.0/26", "2"));
  EXPECT_EQ(Seen(), "nothing");
}

TEST_F(RecentViewTest, TheNextProcessKnowsABlockThatWasWrittenAfterAConflict) {
  RecentView view = View();
  view.NoteAll({Block("10.0.0.0/26", "1")}, BootTimeNow());
  view.BeginWrite("10.0.0.0-26");
  view.BeginWrite("10.0.0.0-26");
  view.NoteWritten(Block("10.0.0.0/26", "3"));
  EXPECT_EQ(Seen(), "10.0.0.0-26@3 ");
}

TEST_F(RecentViewTest, AWriteWithoutAListLeavesNothing) {
  RecentView view = View();
  view.BeginWrite("10.0.0.0-26");
  view.NoteWritten(Block("10.0.0.0/26", "2"));
  EXPECT_EQ(Seen(), "nothing");
}

TEST_F(RecentViewTest, AWriteAfterDropIsNotNoted) {
  RecentView view = View();
  view.NoteAll({Block("10.0.0.0/26", "1"), Block("10.0.1.0/26", "2")}, BootTimeNow());
  view.Drop();
  view.BeginWrite("10.0.1.0-26");
  view.NoteWritten(Block("10.0.1.0/26", "3"));
  EXPECT_EQ(Seen(), "nothing");
}

TEST_F(RecentViewTest, BlocksOfThreeSecondsAgoAreNotKnown) {
  limits_ = {};
  View().NoteAll({Block("10.0.0.0/26", "1")}, BootTimeNow() - 3 * kSecond);
  EXPECT_EQ(Seen(), "nothing");
}

TEST_F(RecentViewTest, AWriteDoesNotMakeTheRestYounger) {
  limits_ = {};
  RecentView view = View();
  view.NoteAll({Block("10.0.0.0/26", "1")}, BootTimeNow() - 3 * kSecond);
  view.BeginWrite("10.0.0.0-26");
  view.NoteWritten(Block("10.0.0.0/26", "2"));
  EXPECT_EQ(Seen(), "nothing");
}

TEST_F(RecentViewTest, TakeReturnsTheBlocksOnlyOnce) {
  View().NoteAll({Block("10.0.0.0/26", "1")}, BootTimeNow());
  RecentView view = View();
  static_cast<void>(view.Take());
  EXPECT_FALSE(view.Take().has_value());
}

TEST_F(RecentViewTest, ABlockThatIsBeingDeletedLeavesNothing) {
  ipam::Block block = *Block("10.0.0.0/26", "1");
  block.deleting = true;
  View().NoteAll({std::make_shared<const ipam::Block>(block)}, BootTimeNow());
  EXPECT_EQ(Seen(), "nothing");
}

TEST_F(RecentViewTest, ForgottenBlocksAreNotKnown) {
  RecentView view = View();
  view.NoteAll({Block("10.0.0.0/26", "1")}, BootTimeNow());
  view.Forget();
  EXPECT_EQ(Seen(), "nothing");
}

TEST_F(RecentViewTest, BlocksOfAnotherApiServerAreNotKnown) {
  RecentView(At("https://other"), true).NoteAll({Block("10.0.0.0/26", "1")}, BootTimeNow());
  EXPECT_EQ(Seen(), "nothing");
}

nlohmann::json PoolObject(const char* name) {
  return {{"metadata", {{"name", name}, {"uid", "uid"}, {"resourceVersion", "1"}}},
          {"spec", {{"subnet", "10.0.0.0/16"}}}};
}

TEST_F(RecentViewTest, TheNextProcessKnowsPoolsThatWereRead) {
  View().NotePools({PoolObject("p1"), PoolObject("p2")}, BootTimeNow());
  const std::vector<std::string> names = {"p2", "p1"};
  const auto pools = View().Pools(names);
  ASSERT_TRUE(pools.has_value());
  EXPECT_EQ(pools->front()->name, "p2");
}

TEST_F(RecentViewTest, AllPoolsAreReadAnewIfOneIsUnknown) {
  View().NotePools({PoolObject("p1")}, BootTimeNow());
  const std::vector<std::string> names = {"p1", "p2"};
  EXPECT_FALSE(View().Pools(names).has_value());
}

TEST_F(RecentViewTest, PoolsOfASecondAgoAreReadAnew) {
  limits_ = {};
  View().NotePools({PoolObject("p1")}, BootTimeNow() - kSecond);
  const std::vector<std::string> names = {"p1"};
  EXPECT_FALSE(View().Pools(names).has_value());
}

TEST_F(RecentViewTest, ABrokenFileLeavesNothing) {
  directory().WriteNote("recent-blocks", R"({"at": 1, "objects": [)");
  EXPECT_EQ(Seen(), "nothing");
}

}  // namespace
}  // namespace berth::node
