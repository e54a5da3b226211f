// SPDX-License-Identifier: Apache-2.0
// For tests only: what the agent's tests start with: an API server in memory with two pools, a folder for state, and
// calls.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <memory>
#include <mutex>
#include <set>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <unistd.h>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "agent/agent.h"
#include "crds/names.h"
#include "k8sclient/testing/model_api.h"

namespace berth::agent {

using k8sclient::testing::ApiFault;

inline const std::string kBlocks(crds::kBlocksPath);

inline bool IsListOfSharedBlocks(const k8sclient::Request& request) {
  return request.method == k8sclient::Method::kGet && request.path == kBlocks &&
         std::ranges::any_of(request.query, [](const auto& pair) { return pair.second == "spec.node="; });
}

// Passes everything to another Api, but can delay the lines of watches.
class LateWatchApi final : public k8sclient::Api {
 public:
  explicit LateWatchApi(k8sclient::Api& inner) : inner_(inner) {}
  // From now on each watch waits before a line that contains `text`. Empty: no watch waits.
  void Hold(const std::string& text) {
    const std::scoped_lock lock(mutex_);
    held_ = text;
    changed_.notify_all();
  }

  Expected<k8sclient::Response> Call(const k8sclient::Request& request,
                                     const k8sclient::CallOptions& options) override {
    return inner_.Call(request, options);
  }
  Expected<k8sclient::Response> Watch(const k8sclient::Request& request, const k8sclient::WatchOptions& options,
                                      const k8sclient::WatchSink& sink) override {
    return inner_.Watch(request, options, [&](std::string_view line) {
      AwaitPassage(line, options.stop);
      return sink(line);
    });
  }

 private:
  void AwaitPassage(std::string_view line, const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, stop, [&] { return held_.empty() || line.find(held_) == std::string_view::npos; });
  }

  k8sclient::Api& inner_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::string held_;
};

class AgentTest : public testing::Test {
 protected:
  AgentTest() {
    static std::atomic<int> number = 0;
    directory_ = std::filesystem::temp_directory_path() /
                 ("berth-agent-test." + std::to_string(getpid()) + "." + std::to_string(++number));
    std::filesystem::create_directories(directory_);
    PutPool("p1", "10.55.0.0/24", "Node");
    PutPool("shared", "10.66.0.0/26", "Shared");
  }
  ~AgentTest() override { std::filesystem::remove_all(directory_); }
  // The agent ends before the members of a derived fixture, such as the Api that its threads use.
  void TearDown() override { agent_.reset(); }

  void PutPool(const std::string& name, const std::string& subnet, const std::string& affinity, int block_size = 26,
               const std::string& uid_prefix = "uid-of-") {
    api_.Put(std::string(crds::kPoolsPath),
             {{"metadata", {{"name", name}, {"uid", uid_prefix + name}}},
              {"spec",
               {{"subnet", subnet},
                {"affinity", affinity},
                {"warmAddresses", 0},
                {"resource", ""},
                {"blockSize", block_size}}},
              {"status", {{"conditions", {{{"type", "Ready"}, {"status", "True"}, {"reason", "Accepted"}}}}}}});
  }

  [[nodiscard]] std::string run_dir() const { return directory_ / "run"; }
  [[nodiscard]] std::string state_dir() const { return directory_ / "state"; }

  struct Wanted {
    bool watches_blocks = true;
    bool reads_pods = false;
    std::string server = "https://model";
    std::size_t standby = 0;
    std::string node = "n1";
    std::string machine = {};  // each machine has its own files
    std::chrono::milliseconds looks_within = std::chrono::milliseconds(0);
    std::chrono::milliseconds list_wait_max = AgentOptions().list_wait_max;
  };
  std::unique_ptr<Agent> MakeAgent(bool watches_blocks = true, const std::string& server = "https://model") {
    return MakeAgentOf(watched_, {.watches_blocks = watches_blocks, .server = server});
  }
  std::unique_ptr<Agent> MakeAgentOf(k8sclient::Api& api, const Wanted& wanted) {
    return MakeAgentBy(k8sclient::RealClock(), api, wanted);
  }
  std::unique_ptr<Agent> MakeAgentBy(k8sclient::Clock& clock, k8sclient::Api& api, const Wanted& wanted) {
    auto made = Agent::Make(api,
                            clock,
                            {.node = wanted.node,
                             .state_dir = state_dir() + wanted.machine,
                             .run_dir = run_dir() + wanted.machine,
                             .server = wanted.server,
                             .loaded_mark = LoadedMark(),
                             .standby = wanted.standby,
                             .looks_within = wanted.looks_within,
                             .list_wait_max = wanted.list_wait_max,
                             .watches_blocks = wanted.watches_blocks,
                             .reads_pods = wanted.reads_pods},
                            [this] { ++replaced_; });
    EXPECT_TRUE(made.has_value());
    return *std::move(made);
  }
  [[nodiscard]] std::string LoadedMark() const { return directory_ / "agent.sock.loaded"; }
  void StartAgent() {
    agent_ = MakeAgent();
    agent_->Start();
  }

  static std::string Body(const std::string& verb, const std::string& container, const std::string& pools = "p1",
                          std::int64_t started_nanos = node::BootTimeNow(), int timeout_s = 20) {
    return nlohmann::json{{"command", verb},
                          {"containerID", container},
                          {"ifname", "eth0"},
                          {"netns", "/var/run/netns/x"},
                          {"args", ""},
                          {"startedBootNanos", started_nanos},
                          {"config",
                           {{"cniVersion", "1.1.0"},
                            {"name", "net"},
                            {"ipam", {{"type", "berth"}, {"pools", {pools}}, {"timeoutSeconds", timeout_s}}}}}}
        .dump();
  }
  Reply Add(const std::string& container, const std::string& pool = "p1") {
    return agent_->Handle(Body("ADD", container, pool));
  }
  Reply Del(const std::string& container) { return agent_->Handle(Body("DEL", container)); }

  static std::string AddressIn(const Reply& reply) {
    const auto result = nlohmann::json::parse(reply.body, nullptr, false);
    return reply.ok ? result["ips"][0]["address"].get<std::string>() : "error: " + reply.body;
  }

  [[nodiscard]] std::multiset<std::string> Held() const {
    std::multiset<std::string> held;
    for (const auto& block : api_.Objects(std::string(crds::kBlocksPath))) {
      // A named variable, because items() refers to it and it must outlive the loop.
      const nlohmann::json allocations = block.value("allocations", nlohmann::json::object());
      for (const auto& [offset, entry] : allocations.items()) {
        held.insert(block["metadata"]["name"].get<std::string>() + "/" + offset);
      }
    }
    return held;
  }

  // Waits until `condition` holds; fails the test after 60 s. Checks every 1 ms, because the agent's threads signal no
  // event to the test.
  template <typename Condition>
  void Await(const Condition& condition, const char* what) const {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!condition()) {
      ASSERT_LT(std::chrono::steady_clock::now(), end) << "not within a minute: " << what;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  // The next patches get these faults, one each; later patches get none.
  void FailPatches(std::vector<ApiFault> faults) {
    const auto left = std::make_shared<std::vector<ApiFault>>(std::move(faults));
    const auto mutex = std::make_shared<std::mutex>();
    api_.SetFaults([left, mutex](const k8sclient::Request& request) {
      if (request.method != k8sclient::Method::kPatch) return ApiFault::kNone;
      const std::scoped_lock lock(*mutex);
      if (left->empty()) return ApiFault::kNone;
      const ApiFault fault = left->front();
      left->erase(left->begin());
      return fault;
    });
  }

  // Deletes an empty block like the controller.
  void RemoveBlock(const std::string& name) {
    const std::string path = std::string(crds::kBlocksPath) + "/" + name;
    ASSERT_TRUE(api_.Call({.method = k8sclient::Method::kDelete, .path = path}, {})->ok());
    ASSERT_TRUE(
        api_.Call({.method = k8sclient::Method::kPatch, .path = path, .body = R"({"metadata":{"finalizers":null}})"},
                  {})
            ->ok());
  }

  k8sclient::testing::ModelApi api_;
  LateWatchApi watched_{api_};
  std::unique_ptr<Agent> agent_;
  std::atomic<int> replaced_ = 0;

 private:
  std::filesystem::path directory_;
};

}  // namespace berth::agent
