// SPDX-License-Identifier: Apache-2.0
// Writes of berth-direct that conflict with the writes of other programs.
#include "node/direct_store.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "crds/names.h"
#include "ipam/engine.h"
#include "ipam/engine_test_setup.h"
#include "k8sclient/testing/model_api.h"

namespace berth::node {
namespace {

using namespace std::chrono_literals;

class PatientRuntime final : public ipam::Runtime {
 public:
  std::int64_t UnixMillis() override { return 0; }
  ipam::Uint128 Random(ipam::Uint128 /*bound*/) override { return 0; }
  bool Wait(std::chrono::milliseconds /*time*/) override { return true; }
  Expected<void> MayGoOn() override { return {}; }
};

class DirectStoreTest : public testing::Test {
 protected:
  ~DirectStoreTest() override { std::filesystem::remove_all(folder_); }

  ipam::BlockView MakeBlock() {
    const ipam::Pool pool = ipam::TestPool("web", "10.55.0.0/24");
    return store_.Create(ipam::NewBlock(pool, ipam::Prefix::Parse("10.55.0.0/26").value(), "n1")).value();
  }
  [[nodiscard]] nlohmann::json Stored() const { return api_.Objects(std::string(crds::kBlocksPath)).at(0); }
  static ipam::Change Take(const std::string& entry) { return {.what = ipam::SetEntries{{{3, entry}}}}; }

 private:
  const std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("berth-direct-store-test." + std::to_string(getpid()));

 protected:
  NodeDirectory directory_ = NodeDirectory::Open(folder_, "n1", "https://model").value();
  [[nodiscard]] DirectStore NewStore() { return {api_, directory_, runtime_, {.node = "n1", .call = {}}}; }
  PatientRuntime runtime_;
  k8sclient::testing::ModelApi api_;
  DirectStore store_{api_, directory_, runtime_, {.node = "n1", .call = {}}};
};

// The controller deleted the empty block, and n2 has created a block of the same name since then.
TEST_F(DirectStoreTest, DoesNotWriteABlockThatAnotherNodeHasByNow) {
  const ipam::BlockView known = MakeBlock();
  ASSERT_TRUE(api_.Change(
      std::string(crds::kBlocksPath), known->name, [](nlohmann::json& block) { block["spec"]["node"] = "n2"; }));
  const auto written = store_.Edit(known, Take("default/web"));
  ASSERT_FALSE(written.has_value());
  EXPECT_EQ(written.error().code, ErrorCode::kNotFound);
  EXPECT_FALSE(Stored().value("allocations", nlohmann::json::object()).contains("3"));
}

// The policy refuses such a write, so a DEL that has to settle a patch in doubt would fail for ever.
TEST_F(DirectStoreTest, DoesNotFenceABlockThatAnotherNodeHasByNow) {
  const ipam::BlockView known = MakeBlock();
  ASSERT_TRUE(api_.Change(std::string(crds::kBlocksPath), known->name, [](nlohmann::json& block) {
    block["spec"]["node"] = "n2";
    block["allocations"]["9"] = "! r";
    block["used"] = 1;
    block["free"] = 63;
    block["standby"] = {9};
  }));
  const nlohmann::json before = Stored();
  ipam::Block named = *known;
  named.resource_version.clear();
  const auto settled = store_.Edit(std::make_shared<const ipam::Block>(std::move(named)),
                                   {.what = ipam::ReleaseAddresses{.attachments = {"a"}, .now_ms = 1}, .fence = true});
  ASSERT_FALSE(settled.has_value());
  EXPECT_EQ(settled.error().code, ErrorCode::kNotFound) << "which a DEL takes for success";
  EXPECT_EQ(Stored(), before);
}

// The policy lets a node write only its own entries of a Shared block.
TEST_F(DirectStoreTest, WritesNoEntryOfAnotherNodeInASharedBlock) {
  const ipam::Pool pool = ipam::TestPool("web", "10.55.0.0/24", ipam::Affinity::kShared);
  const auto created = store_.Create(ipam::NewBlock(pool, ipam::Prefix::Parse("10.55.0.0/26").value(), ""));
  ASSERT_TRUE(created.has_value()) << created.error().message;
  const std::string attachment = ipam::TestAttachment(1);
  const std::string of_other = "default/web u " + attachment + " i=eth0 t=1 n=n2";
  const std::string own = "default/db u " + attachment + " i=eth0 t=1 n=n1";
  ASSERT_TRUE(api_.Change(std::string(crds::kBlocksPath), (*created)->name, [&](nlohmann::json& block) {
    block["allocations"] = {{"3", of_other}, {"4", own}, {"5", "x"}};
    block["used"] = 3;
  }));
  DirectStore next = NewStore();
  const auto blocks = next.ReadBlocks(ipam::BlockScope::kShared, ipam::Freshness::kLatest);
  ASSERT_TRUE(blocks.has_value()) << blocks.error().message;
  const auto freed =
      next.Edit(blocks->at(0), {.what = ipam::ReleaseAddresses{.attachments = {attachment}, .now_ms = 1}});
  ASSERT_TRUE(freed.has_value()) << freed.error().message;
  EXPECT_EQ(Stored()["allocations"], nlohmann::json({{"3", of_other}, {"5", "x"}}));
}

TEST_F(DirectStoreTest, WritesABlockTwiceAtMostIfNoWriteIsAnswered) {
  const ipam::BlockView known = MakeBlock();
  int writes = 0;
  api_.SetFaults([&writes](const k8sclient::Request& request) {
    if (request.method != k8sclient::Method::kPatch) return k8sclient::testing::ApiFault::kNone;
    constexpr int kMany = 30;  // so that the test ends if the store writes without end
    return ++writes > kMany ? k8sclient::testing::ApiFault::kInvalid : k8sclient::testing::ApiFault::kLateCommit;
  });
  const auto written = store_.Edit(known, Take("default/web"));
  ASSERT_FALSE(written.has_value());
  EXPECT_EQ(written.error().code, ErrorCode::kUnknownOutcome);
  EXPECT_EQ(writes, 2);
}

// An earlier POST, whose answer was lost, or the controller has created the block.
TEST_F(DirectStoreTest, ReturnsABlockOfItsNodeThatExistsAlready) {
  const ipam::BlockView known = MakeBlock();
  const auto written = store_.Edit(known, Take("default/web"));
  ASSERT_TRUE(written.has_value()) << written.error().message;
  const ipam::BlockView found = MakeBlock();
  EXPECT_EQ(found->uid, known->uid);
  EXPECT_EQ(found->allocations.size(), 1U);
}

TEST_F(DirectStoreTest, ReturnsNoBlockThatExistsForAnotherPool) {
  const ipam::Block known = *MakeBlock();
  ipam::Pool another = ipam::TestPool("web", "10.55.0.0/24");
  another.uid = "another";
  const auto created = store_.Create(ipam::NewBlock(another, known.cidr, "n1"));
  ASSERT_FALSE(created.has_value());
  EXPECT_EQ(created.error().code, ErrorCode::kAlreadyExists);
}

TEST_F(DirectStoreTest, WritesABlockThatTheControllerHasWrittenMeanwhile) {
  const ipam::BlockView known = MakeBlock();
  ASSERT_TRUE(api_.Change(std::string(crds::kBlocksPath), known->name, [](nlohmann::json& block) {
    block["allocations"]["9"] = "! r";
    block["used"] = 1;
    block["free"] = 63;
  }));
  const auto written = store_.Edit(known, Take("default/web"));
  ASSERT_TRUE(written.has_value()) << written.error().message;
  EXPECT_EQ(Stored()["allocations"].value("3", ""), "default/web");
}

class DirectStorePoolTest : public DirectStoreTest {
 protected:
  // A pool of Shared blocks, and a block of this pool that another node has created.
  DirectStorePoolTest() {
    ipam::Pool pool = ipam::TestPool("sh", "10.88.0.0/28", ipam::Affinity::kShared);
    pool.block_length = 30;
    const auto ready = nlohmann::json{{{"type", "Ready"}, {"status", "True"}, {"reason", "Accepted"}}};
    api_.Put(pools_path_,
             {{"metadata", {{"name", "sh"}, {"uid", pool.uid}, {"generation", 1}}},
              {"spec", {{"subnet", "10.88.0.0/28"}, {"affinity", "Shared"}, {"blockSize", 30}}},
              {"status", {{"conditions", ready}}}});
    block_ = ipam::NewBlock(pool, ipam::Prefix::Parse("10.88.0.4/30").value(), "");
  }
  void CreateBlock() { ASSERT_TRUE(NewStore().Create(block_).has_value()); }
  Expected<ipam::AddResult> Add(int number) {
    DirectStore store = NewStore();
    return ipam::Engine(store, runtime_)
        .Add({.attachment = ipam::TestAttachment(number),
              .interface = "eth0",
              .pod_namespace = "team-a",
              .pod = "web",
              .uid = "u",
              .pools = {"sh"},
              .requested = {}});
  }
  // Number of consistent GETs of the pool that an ADD sends.
  int ReadsOf(int number) {
    int reads = 0;
    api_.SetFaults([&reads](const k8sclient::Request& request) {
      if (request.path.ends_with("/ippools/sh") && request.query.empty()) ++reads;
      return k8sclient::testing::ApiFault::kNone;
    });
    EXPECT_TRUE(Add(number).has_value());
    api_.SetFaults(nullptr);
    return reads;
  }

  const std::string pools_path_{crds::kPoolsPath};
  ipam::Block block_;
};

// Another node has claimed the block, seen that the pool is gone, and left the block empty.
TEST_F(DirectStorePoolTest, TakesNoAddressOfABlockThatWasCreatedAfterItsPoolWasDeleted) {
  api_.HoldCache();
  api_.Remove(pools_path_, "sh");
  CreateBlock();
  const auto result = Add(1);
  ASSERT_FALSE(result.has_value()) << result->addresses.front().address.ToString();
  EXPECT_EQ(result.error().message, "pool sh was deleted meanwhile");
}

// The store reads the pool with kLatest after it has created the block. This read is newer than the block, so PoolOf
// uses it, and not the older pool that the caller passes.
TEST_F(DirectStorePoolTest, PoolOfReturnsTheNewestPoolThatTheCallHasRead) {
  const std::vector<std::string> names{"sh"};
  const auto before = store_.ReadPools(names, ipam::Freshness::kHint);
  ASSERT_TRUE(before.has_value()) << before.error().message;
  const auto created = store_.Create(block_);
  ASSERT_TRUE(created.has_value()) << created.error().message;
  api_.Change(pools_path_, "sh", [](nlohmann::json& pool) { pool["status"]["withheld"] = {"10.88.0.4-10.88.0.7"}; });
  ASSERT_TRUE(store_.ReadPools(names, ipam::Freshness::kLatest).has_value());
  const auto pool = store_.PoolOf(before->front(), *created);
  ASSERT_TRUE(pool.has_value()) << pool.error().message;
  EXPECT_EQ((*pool)->withheld.size(), 1U);
}

// The API server's cache showed this call a pool that is older than an earlier call's proof.
TEST_F(DirectStorePoolTest, TakesNoAddressOfABlockThatAnEarlierCallProvedByAYoungerPool) {
  const std::vector<std::string> names{"sh"};
  const auto before = store_.ReadPools(names, ipam::Freshness::kHint);
  ASSERT_TRUE(before.has_value()) << before.error().message;
  store_.LockReleased();
  api_.Change(pools_path_, "sh", [](nlohmann::json& pool) { pool["status"]["withheld"] = {"10.88.0.4-10.88.0.7"}; });
  DirectStore earlier = NewStore();
  const auto created = earlier.Create(block_);
  ASSERT_TRUE(created.has_value()) << created.error().message;
  ASSERT_TRUE(earlier.ReadPools(names, ipam::Freshness::kLatest).has_value());
  const auto pool = store_.PoolOf(before->front(), *created);
  ASSERT_TRUE(pool.has_value()) << pool.error().message;
  EXPECT_EQ((*pool)->withheld.size(), 1U);
}

// Passes requests on, and remembers how much time each of them may take at most.
class TimedApi final : public k8sclient::Api {
 public:
  explicit TimedApi(k8sclient::Api& inner) : inner_(inner) {}
  Expected<k8sclient::Response> Call(const k8sclient::Request& request,
                                     const k8sclient::CallOptions& options) override {
    longest_ = std::max(longest_, options.deadline - std::chrono::steady_clock::now());
    return inner_.Call(request, options);
  }
  Expected<k8sclient::Response> Watch(const k8sclient::Request& request, const k8sclient::WatchOptions& options,
                                      const k8sclient::WatchSink& sink) override {
    return inner_.Watch(request, options, sink);
  }
  [[nodiscard]] std::chrono::nanoseconds longest() const { return longest_; }

 private:
  k8sclient::Api& inner_;
  std::chrono::nanoseconds longest_{0};
};

// ipam.timeoutSeconds may be 600, and other calls of the node wait while a request of this call hangs.
TEST_F(DirectStoreTest, ARequestMayTake20SecondsAtMost) {
  TimedApi timed(api_);
  DirectStore store(timed, directory_, runtime_, {.node = "n1", .call = k8sclient::CallOptions::Within(600s)});
  const ipam::Pool pool = ipam::TestPool("web", "10.55.0.0/24");
  const auto block = store.Create(ipam::NewBlock(pool, ipam::Prefix::Parse("10.55.0.0/26").value(), "n1"));
  ASSERT_TRUE(block.has_value()) << block.error().message;
  EXPECT_TRUE(store.Edit(*block, Take("default/web")).has_value());
  EXPECT_TRUE(store.ReadBlocks(ipam::BlockScope::kOwn, ipam::Freshness::kLatest).has_value());
  EXPECT_TRUE(store.ReadBlockCidrs("default").has_value());
  EXPECT_TRUE(store.ReadPools(std::vector<std::string>{"web"}, ipam::Freshness::kLatest).has_value());
  EXPECT_TRUE(store.ReadNodeLabels().has_value());
  EXPECT_GT(timed.longest(), 10s);
  EXPECT_LE(timed.longest(), 20s);
}

TEST_F(DirectStoreTest, ARequestTakesNoLongerThanItsCall) {
  TimedApi timed(api_);
  DirectStore store(timed, directory_, runtime_, {.node = "n1", .call = k8sclient::CallOptions::Within(5s)});
  EXPECT_TRUE(store.ReadBlockCidrs("default").has_value());
  EXPECT_LE(timed.longest(), 5s);
}

// The symbolic link stands for an intent that the process cannot open because it has too many open files.
TEST_F(DirectStoreTest, ABlockIsNotWrittenIfAnEarlierIntentForItCannotBeRead) {
  const ipam::BlockView known = MakeBlock();
  ipam::Change change = Take("default/web");
  change.attachment = ipam::TestAttachment(1);
  std::filesystem::create_symlink("nowhere", directory_.path() + "/intents/" + change.attachment + "." + known->name);
  const auto written = store_.Edit(known, change);
  ASSERT_FALSE(written.has_value());
  EXPECT_EQ(written.error().code, ErrorCode::kIo);
  EXPECT_FALSE(Stored().value("allocations", nlohmann::json::object()).contains("3"));
}

TEST_F(DirectStorePoolTest, ReadsThePoolOfABlockOnce) {
  CreateBlock();
  EXPECT_EQ(ReadsOf(1), 1);
  EXPECT_EQ(ReadsOf(2), 0);
}

TEST_F(DirectStorePoolTest, AClaimReadsThePoolForTheBlock) {
  EXPECT_EQ(ReadsOf(1), 1);
  EXPECT_EQ(ReadsOf(2), 0);
}

// A tenant may name 64 pools in an annotation of a pod.
TEST_F(DirectStorePoolTest, AsksForNoPoolAfterTheFirstUnknownOne) {
  const int before = api_.CountOf(k8sclient::Method::kGet);
  const auto pools =
      store_.ReadPools(std::vector<std::string>{"sh", "unknown-1", "unknown-2", "unknown-3"}, ipam::Freshness::kLatest);
  ASSERT_TRUE(pools.has_value()) << pools.error().message;
  EXPECT_EQ(pools->size(), 1U);
  EXPECT_EQ(api_.CountOf(k8sclient::Method::kGet) - before, 2);
}

}  // namespace
}  // namespace berth::node
