// SPDX-License-Identifier: Apache-2.0
// Restarts of the API server, in order and by SIGKILL: no write is lost or done twice, and no watcher misses a change.
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "collection_memory.h"
#include "k8sclient/leader_election.h"
#include "k8sclient/reflector.h"
#include "k8sclient/status.h"
#include "k8sclient/verbs.h"
#include "real_server.h"

namespace berth::k8sclient {
namespace {

using nlohmann::json;

class Restart : public RealServer, public ::testing::WithParamInterface<const char*> {
 protected:
  void StopServer() { Cluster(std::string("stop-apiserver") + GetParam()); }
  void StartServer() { Cluster("start-apiserver"); }
};

// Increments a number again and again, by compare-and-swap, and counts the answers of each kind.
struct Counter {
  std::atomic<int> acknowledged = 0;
  std::atomic<int> in_doubt = 0;
  std::atomic<int> refused = 0;
  std::atomic<int> strange = 0;  // unexpected answers

  void Run(Api& api, const std::string& path, const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      const auto read = Get(api, path, CallOptions::Within(std::chrono::seconds(2)));
      if (!read) {
        ++refused;
        static_cast<void>(RealClock().Sleep(std::chrono::milliseconds(5), stop));
        continue;
      }
      const int value = std::stoi((*read)["data"]["value"].get<std::string>());
      const auto patched = MergePatch(api,
                                      path,
                                      {{"metadata", {{"resourceVersion", (*read)["metadata"]["resourceVersion"]}}},
                                       {"data", {{"value", std::to_string(value + 1)}}}},
                                      CallOptions::Within(std::chrono::seconds(2)));
      if (patched) {
        ++acknowledged;
      } else if (patched.error().code == ErrorCode::kUnknownOutcome) {
        ++in_doubt;
      } else if (patched.error().code == ErrorCode::kUnavailable || patched.error().code == ErrorCode::kTimeout) {
        ++refused;
      } else {
        ++strange;
        ADD_FAILURE() << ToString(patched.error().code) << " " << patched.error().message;
      }
    }
  }
};

TEST_P(Restart, WritesAreEitherDoneOrRefusedOrInDoubtAndNeverDoneTwice) {
  CreateMap("counter", "0");
  Counter counter;
  {
    const std::jthread thread([&](const std::stop_token& stop) { counter.Run(api(), PathOf("counter"), stop); });
    for (int round = 0; round < 3; ++round) {
      const int before = counter.acknowledged;
      ASSERT_TRUE(Await([&] { return counter.acknowledged > before + 20; })) << "round " << round;
      const int refused = counter.refused;
      StopServer();
      ASSERT_TRUE(Await([&] { return counter.refused > refused; }));
      StartServer();
    }
    const int before = counter.acknowledged;
    ASSERT_TRUE(Await([&] { return counter.acknowledged > before + 20; }));
  }
  const auto read = Get(api(), PathOf("counter"), Soon());
  ASSERT_TRUE(read.has_value()) << read.error().message;
  const int value = std::stoi((*read)["data"]["value"].get<std::string>());
  EXPECT_GE(value, counter.acknowledged) << "a write that was acknowledged is lost";
  EXPECT_LE(value, counter.acknowledged + counter.in_doubt)
      << "a write that was refused was done, or one was done twice";
  RecordProperty("acknowledged", counter.acknowledged);
  RecordProperty("in_doubt", counter.in_doubt);
}

TEST_P(Restart, TheReflectorMissesNothingThatHappenedMeanwhile) {
  CollectionMemory memory;
  Reflector reflector(
      api(), memory, RealClock(), {.path = Collection(), .field_selector = "metadata.name!=kube-root-ca.crt"});
  CreateMap("kept", "1");
  CreateMap("deleted", "1");
  const std::jthread thread([&reflector](const std::stop_token& stop) { reflector.Run(stop); });
  ASSERT_TRUE(Await([&] { return memory.Names().size() == 2; }));
  StopServer();
  ASSERT_TRUE(Await([&] { return memory.failures() > 0; }));
  StartServer();
  // Another client connects at once, while the Reflector may still wait for its next attempt.
  const auto other = Make(config());
  ASSERT_TRUE(Delete(*other, PathOf("deleted"), {}, Soon()).has_value());
  ASSERT_TRUE(MergePatch(*other, PathOf("kept"), {{"data", {{"value", "2"}}}}, Soon()).has_value());
  ASSERT_TRUE(
      Create(*other, Collection(), {{"metadata", {{"name", "new"}}}, {"data", {{"value", "1"}}}}, Soon()).has_value());
  EXPECT_TRUE(Await([&] { return memory.Names() == std::vector<std::string>{"kept", "new"}; }));
  EXPECT_TRUE(Await([&] { return memory.Value("kept") == "2"; }));
}

TEST_P(Restart, AWatchFromBeforeItIsGone) {
  const json created = CreateMap("a", "1");
  StopServer();
  StartServer();
  std::optional<Response> refused;
  // Version 1 is older than every version that this server remembers: it has loaded its caches after later writes.
  const Request request{.path = Collection(),
                        .query = {{"watch", "true"}, {"resourceVersion", "1"}, {"timeoutSeconds", "30"}}};
  const auto ended = Make(config())->Watch(request, {}, [&refused](std::string_view line) {
    const json event = json::parse(line);
    if (event["type"] != "ERROR") return true;
    refused = Response{.status = event["object"]["code"].get<int>(), .body = event["object"].dump()};
    return false;
  });
  ASSERT_TRUE(ended.has_value()) << ended.error().message;
  if (!ended->ok()) refused = *ended;
  ASSERT_TRUE(refused.has_value());
  EXPECT_EQ(ToString(ToError(request, *refused).code), ToString(ErrorCode::kGone)) << refused->body;
}

INSTANTIATE_TEST_SUITE_P(Kind, Restart, ::testing::Values("", " --kill"),
                         [](const auto& c) { return std::string(*c.param == '\0' ? "InOrder" : "BySigkill"); });

class Election : public RealServer {
 protected:
  [[nodiscard]] ElectionOptions Options(const std::string& identity) const {
    return {.path = Path({"apis", "coordination.k8s.io", "v1", "namespaces", name_space(), "leases"}),
            .name = "berth",
            .identity = identity,
            .times = times_};
  }
  std::string Holder() {
    const auto lease = Get(api(), Options("").path + "/berth", Soon());
    return lease ? (*lease)["spec"].value("holderIdentity", "") : "(none)";
  }

  ElectionTimes times_;
};

// Leaders lead until their token requests a stop. Counts how many lead at the same time.
class Leaders {
 public:
  void Lead(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    most_at_once = std::max(most_at_once.load(), ++leading);
    asked_.wait(lock, stop, [] { return false; });
    --leading;
  }
  std::atomic<int> leading = 0;
  std::atomic<int> most_at_once = 0;

 private:
  std::mutex mutex_;
  std::condition_variable_any asked_;
};

TEST_F(Election, OneLeadsAndTheOtherTakesOverWhenItIsReleased) {
  // The test waits at most 60 s, so the second candidate cannot lead because the Lease has expired. A leader has
  // `retry` to give up its Lease.
  times_ = {
      .lease = std::chrono::minutes(10), .renew_deadline = std::chrono::minutes(1), .retry = std::chrono::seconds(10)};
  Leaders leaders;
  const auto first_api = Make(config());
  const auto second_api = Make(config());
  LeaderElector first(*first_api, RealClock(), Options("first"));
  LeaderElector second(*second_api, RealClock(), Options("second"));
  const auto lead = [&leaders](const std::stop_token& stop) { leaders.Lead(stop); };
  std::jthread first_thread([&](const std::stop_token& stop) { EXPECT_TRUE(first.Run(stop, lead).has_value()); });
  ASSERT_TRUE(Await([&] { return leaders.leading == 1; }));
  EXPECT_EQ(Holder(), "first");
  std::jthread second_thread([&](const std::stop_token& stop) { EXPECT_TRUE(second.Run(stop, lead).has_value()); });
  first_thread.request_stop();
  first_thread.join();
  // Waits until the second candidate leads. If it ended before it knew that it has the Lease, the Lease might have to
  // expire.
  ASSERT_TRUE(Await([&] { return leaders.leading == 1; }));
  EXPECT_EQ(Holder(), "second");
  second_thread.request_stop();
  second_thread.join();
  EXPECT_EQ(Holder(), "");
  EXPECT_EQ(leaders.most_at_once, 1);
}

TEST_F(Election, ALeaderGivesUpWhileTheServerIsAwayForLong) {
  times_.lease = std::chrono::minutes(2);
  Leaders leaders;
  LeaderElector elector(api(), RealClock(), Options("first"));
  Expected<void> ended;
  std::atomic<bool> has_ended = false;
  std::jthread thread([&](const std::stop_token& stop) {
    ended = elector.Run(stop, [&leaders](const std::stop_token& leading) { leaders.Lead(leading); });
    has_ended = true;
  });
  ASSERT_TRUE(Await([&] { return leaders.leading == 1; }));
  Cluster("stop-apiserver");
  EXPECT_TRUE(Await([&] { return leaders.leading == 0; })) << "before the lease runs out";
  EXPECT_TRUE(Await([&] { return has_ended.load(); })) << "it gives up by itself";
  thread.request_stop();  // so that a failure does not wait for ever
  thread.join();
  ASSERT_FALSE(ended.has_value());
  EXPECT_EQ(ended.error().code, ErrorCode::kUnavailable);
  Cluster("start-apiserver");
}

}  // namespace
}  // namespace berth::k8sclient
