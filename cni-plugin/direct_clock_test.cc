// SPDX-License-Identifier: Apache-2.0
// The clock of a node in direct mode is wrong: berth-direct writes times of the API server's clock.
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <unistd.h>
#include <variant>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "cni-plugin/berth_test_setup.h"
#include "cni-plugin/direct_call.h"
#include "cni/attachment.h"
#include "crds/names.h"
#include "ipam/entry.h"
#include "k8sclient/clock.h"
#include "k8sclient/testing/date_adder.h"
#include "k8sclient/testing/model_api.h"
#include "node/lock_test_setup.h"
#include "node/node_directory.h"
#include "node/node_mode.h"

namespace berth::cni_plugin {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

constexpr std::chrono::seconds kCooldown = 30s;

class DirectClock : public testing::TestWithParam<std::chrono::hours> {
 protected:
  DirectClock() {
    std::filesystem::create_directories(folder_ + "/state");
    EXPECT_TRUE(node::WriteMode(node::Folder::Open(folder_ + "/state").value(), node::NodeMode::kDirect));
    model_.Put(std::string(crds::kPoolsPath),
               {{"metadata", {{"name", "p1"}, {"uid", "uid-of-p1"}}},
                {"spec",
                 {{"subnet", "10.55.0.0/24"},
                  {"affinity", "Node"},
                  {"cooldownSeconds", kCooldown.count()},
                  {"blockSize", 26}}},
                {"status", {{"conditions", {{{"type", "Ready"}, {"status", "True"}, {"reason", "Accepted"}}}}}}});
  }
  ~DirectClock() override { std::filesystem::remove_all(folder_); }

  // Each call has its own DirectCall, like a process of its own: it knows earlier calls only by their files.
  Expected<std::string> Call(cni::Verb verb, const std::string& container) {
    const cni::Environment environment{
        .verb = verb, .container_id = container, .ifname = "eth0", .netns = "/var/run/netns/x", .args = ""};
    const json text = {{"cniVersion", "1.1.0"},
                       {"name", "net"},
                       {"cni.dev/valid-attachments", json::array()},
                       {"ipam",
                        {{"type", "berth"},
                         {"pools", {"p1"}},
                         {"agentSocket", folder_ + "/run/agent.sock"},
                         {"stateDir", folder_ + "/state"}}}};
    const auto config = cni::ParseConfig(text.dump(), verb);
    if (!config) return std::unexpected(config.error());
    DirectCall call(environment,
                    *config,
                    node::BootTimeNow(),
                    {.node = "n1",
                     .state = node::Folder::Open(folder_ + "/state").value(),
                     .directory = node::NodeDirectory::Open(folder_ + "/run", "n1", "https://model").value(),
                     .api = std::shared_ptr<k8sclient::Api>(std::shared_ptr<void>(), &server_)});
    return call.Serve();
  }
  [[nodiscard]] std::vector<ipam::Entry> Entries() const {
    std::vector<ipam::Entry> entries;
    for (const json& block : model_.Objects(std::string(crds::kBlocksPath))) {
      for (const json& entry : block["allocations"]) entries.push_back(ipam::ParseEntry(entry.get<std::string>()));
    }
    return entries;
  }
  void PutBlockWith(const std::string& entry) {
    model_.Put(
        std::string(crds::kBlocksPath),
        {{"metadata", {{"name", "10.55.0.0-26"}, {"finalizers", {"ipam.berth.dev/in-use"}}}},
         {"spec",
          {{"cidr", "10.55.0.0/26"}, {"node", "n1"}, {"pool", "p1"}, {"poolUID", "uid-of-p1"}, {"space", "default"}}},
         {"allocations", {{"1", entry}}},
         {"next", 2},
         {"used", 1},
         {"free", 61}});
  }
  [[nodiscard]] std::string BlockName() const {
    return model_.Objects(std::string(crds::kBlocksPath)).front()["metadata"]["name"];
  }
  [[nodiscard]] static std::chrono::system_clock::time_point ServerNow() {
    return k8sclient::RealClock().WallNow() - GetParam();
  }
  // Expects a time that is `plus` after the API server's time during the calls that began at `began`. The estimate of
  // the API server's time is wrong by at most 1 s, because a Date has no fractions of a second, and the length of a
  // call.
  static void ExpectTime(std::int64_t unix_ms, std::chrono::system_clock::time_point began, std::chrono::seconds plus) {
    const std::chrono::sys_time<std::chrono::milliseconds> time{std::chrono::milliseconds(unix_ms)};
    const auto ended = ServerNow();
    EXPECT_GE(time, began + plus - 2s);
    EXPECT_LE(time, ended + (ended - began) + plus + 2s);
  }

  const std::string folder_ =
      std::filesystem::temp_directory_path() / ("berth-direct-clock." + std::to_string(getpid()));
  k8sclient::testing::ModelApi model_;
  k8sclient::testing::DateAdder server_{model_, [] { return ServerNow(); }};
};

// The second and the third call use the blocks that the first call saved.
TEST_P(DirectClock, EntriesHaveTimesOfTheApiServersClock) {
  const auto began = ServerNow();
  for (const char* container : {"c1", "c2", "c3"}) {
    const auto added = Call(cni::Verb::kAdd, container);
    ASSERT_TRUE(added.has_value()) << added.error().message;
  }
  ASSERT_EQ(Entries().size(), 3U);
  for (const ipam::Entry& entry : Entries()) {
    ASSERT_TRUE(std::holds_alternative<ipam::HeldEntry>(entry));
    ExpectTime(std::get<ipam::HeldEntry>(entry).since_ms, began, 0s);
  }
  for (const char* container : {"c1", "c2", "c3"}) ASSERT_TRUE(Call(cni::Verb::kDel, container).has_value());
  ASSERT_EQ(Entries().size(), 3U);
  for (const ipam::Entry& entry : Entries()) {
    ASSERT_TRUE(std::holds_alternative<ipam::CoolingEntry>(entry));
    ExpectTime(std::get<ipam::CoolingEntry>(entry).until_ms, began, kCooldown);
  }
}

// The first call after a reboot has no notes of earlier calls.
TEST_P(DirectClock, AGcAfterARebootWritesATimeOfTheApiServersClock) {
  ASSERT_TRUE(Call(cni::Verb::kAdd, "c1").has_value());
  model_.Change(std::string(crds::kBlocksPath), BlockName(), [](json& block) {
    json& text = *block["allocations"].begin();
    auto held = std::get<ipam::HeldEntry>(ipam::ParseEntry(text.get<std::string>()));
    held.since_ms -= std::chrono::milliseconds(1min).count();
    text = ipam::FormatEntry(held).value();
  });
  std::filesystem::remove_all(folder_ + "/run");
  const auto began = ServerNow();
  ASSERT_TRUE(Call(cni::Verb::kGc, "").has_value());
  ASSERT_EQ(Entries().size(), 1U);
  const ipam::Entry entry = Entries().front();
  ASSERT_TRUE(std::holds_alternative<ipam::CoolingEntry>(entry));
  ExpectTime(std::get<ipam::CoolingEntry>(entry).until_ms, began, kCooldown);
}

// API servers whose clocks differ tell the two processes different times.
TEST_P(DirectClock, AGcKeepsAnEntryThatAnAddWroteWhileTheGcWaitedForTheLock) {
  const auto directory = node::NodeDirectory::Open(folder_ + "/run", "n1", "https://model").value();
  std::optional<node::HeldFile> lock = directory.Lock(/*deadline=*/0).value();
  Expected<std::string> collected;
  std::jthread gc([&] { collected = Call(cni::Verb::kGc, ""); });
  ASSERT_TRUE(Await([&] { return node::IsLockWaitedFor(directory.path() + "/lock"); }));
  const std::string attachment = cni::MakeAttachment("net", "c1", "eth0");
  const node::HeldFile running = directory.HoldRunning(attachment).value();
  PutBlockWith("ns/web u-1 " + attachment + " i=eth0 t=1");
  lock.reset();
  gc.join();
  ASSERT_TRUE(collected.has_value()) << collected.error().message;
  ASSERT_EQ(Entries().size(), 1U);
  EXPECT_TRUE(std::holds_alternative<ipam::HeldEntry>(Entries().front()));
}

INSTANTIATE_TEST_SUITE_P(Errors, DirectClock, testing::Values(-10h * 24 * 365, -1h, 1h, 10h * 24 * 365),
                         [](const auto& c) { return std::to_string(c.index); });

}  // namespace
}  // namespace berth::cni_plugin
