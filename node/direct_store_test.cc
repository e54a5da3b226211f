// SPDX-License-Identifier: Apache-2.0
// Writes of berth-direct that meet another's.
#include "node/direct_store.h"

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <unistd.h>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "crds/names.h"
#include "ipam/engine_test_setup.h"
#include "k8sclient/testing/model_api.h"

namespace berth::node {
namespace {

class PatientRuntime final : public ipam::Runtime {
 public:
  std::int64_t UnixMillis() override { return 0; }
  ipam::Uint128 Random(ipam::Uint128 /*bound*/) override { return 0; }
  bool Wait(std::chrono::milliseconds /*time*/) override { return true; }
  ipam::Expected<void> MayGoOn() override { return {}; }
};

class DirectStoreTest : public testing::Test {
 protected:
  ~DirectStoreTest() override { std::filesystem::remove_all(folder_); }

  ipam::BlockView MakeBlock() {
    const ipam::Pool pool = ipam::TestPool("web", "10.55.0.0/24");
    return store_.Create(ipam::NewBlock(pool, ipam::Prefix::Parse("10.55.0.0/26").value(), "n1"), "").value();
  }
  [[nodiscard]] nlohmann::json Stored() const { return api_.Objects(std::string(crds::kBlocksPath)).at(0); }
  static ipam::BlockEdit Take(const std::string& entry) {
    return {.attachment = {}, .apply = [entry](ipam::Block& block) -> ipam::Expected<void> {
              block.allocations[3] = entry;
              --block.free;
              return {};
            }};
  }

 private:
  const std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("berth-direct-store-test." + std::to_string(getpid()));
  NodeDirectory directory_ = NodeDirectory::Open(folder_, "n1", "https://model").value();
  PatientRuntime runtime_;

 protected:
  k8sclient::testing::ModelApi api_;
  DirectStore store_{api_, directory_, runtime_, {.node = "n1", .call = {}, .lock_deadline = BootTimeNow()}};
};

// Seed 771351 of the simulator: the controller gave the block back, and n2 has made one of that name since.
TEST_F(DirectStoreTest, ABlockThatAnotherNodeHasByNowIsNotWritten) {
  const ipam::BlockView known = MakeBlock();
  ASSERT_TRUE(api_.Change(
      std::string(crds::kBlocksPath), known->name, [](nlohmann::json& block) { block["spec"]["node"] = "n2"; }));
  const auto written = store_.Edit(known, Take("default/web"));
  ASSERT_FALSE(written.has_value());
  EXPECT_EQ(written.error().code, ipam::ErrorCode::kConflict);
  EXPECT_FALSE(Stored().value("allocations", nlohmann::json::object()).contains("3"));
}

TEST_F(DirectStoreTest, ABlockThatTheControllerHasWrittenMeanwhileIs) {
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

}  // namespace
}  // namespace berth::node
