// SPDX-License-Identifier: Apache-2.0
// A backup of etcd is restored, so that versions go back: a Reflector drops objects that the backup does not contain.
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "collection_memory.h"
#include "k8sclient/client_config.h"
#include "k8sclient/reflector.h"
#include "k8sclient/verbs.h"
#include "real_server.h"

namespace berth::k8sclient {
namespace {

class Restore : public RealServer {
 protected:
  // Stops the API server and etcd, copies `from` to `to` (to make or restore a backup), and starts both again.
  void Copy(const std::filesystem::path& from, const std::filesystem::path& to) {
    Cluster("stop-apiserver --kill");
    Cluster("stop etcd");
    std::filesystem::remove_all(to);
    std::filesystem::copy(from, to, std::filesystem::copy_options::recursive);
    Cluster("start etcd");
    Cluster("start-apiserver");
  }
};

TEST_F(Restore, TheReflectorForgetsWhatTheBackupDoesNotKnow) {
  const std::filesystem::path cluster = ProcessEnvironment("BERTH_TEST_CLUSTER_DIR");
  CreateMap("kept", "1");
  Copy(cluster / "etcd", cluster / "backup");
  CollectionMemory memory;
  Reflector reflector(
      api(), memory, RealClock(), {.path = Collection(), .field_selector = "metadata.name!=kube-root-ca.crt"});
  const std::jthread thread([&reflector](const std::stop_token& stop) { reflector.Run(stop); });
  CreateMap("lost", "0");
  // More writes than the cluster itself makes in the minute in which the Reflector must notice the restore.
  constexpr int kWrites = 2000;
  for (int i = 1; i <= kWrites; ++i) {
    ASSERT_TRUE(MergePatch(api(), PathOf("lost"), {{"data", {{"value", std::to_string(i)}}}}, Soon()).has_value());
  }
  ASSERT_TRUE(Await([&] { return memory.Value("lost") == std::to_string(kWrites); }));
  Copy(cluster / "backup", cluster / "etcd");
  EXPECT_TRUE(Await([&] { return memory.Names() == std::vector<std::string>{"kept"}; }));
  CreateMap("new", "1");
  EXPECT_TRUE(Await([&] { return memory.Value("new") == "1"; }));
}

}  // namespace
}  // namespace berth::k8sclient
