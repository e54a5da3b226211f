// SPDX-License-Identifier: Apache-2.0
// Which requests the store answers, which a lagging cache answers, and which are refused.
#include "sim/api_server.h"

#include <memory>
#include <stop_token>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "k8sclient/verbs.h"
#include "sim/test_history.h"

namespace berth::sim {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

// An API server in front of a store of Nodes. Its cache lags by up to a second.
struct OneServer {
  OneServer() {
    store.OnStore([this](const std::string& collection, const json& before, const json& after) {
      server.Learn(std::make_shared<const ApiServer::Change>(collection, before, after));
    });
    server.Lag(1s);
    Put("early");
    std::this_thread::sleep_for(2s);
  }
  void Put(const std::string& name) { store.Put("/api/v1/nodes", {{"metadata", {{"name", name}}}}); }
  // The version and the names in the list, or the error.
  [[nodiscard]] std::string List(const k8sclient::ListOptions& list) {
    const auto objects = k8sclient::List(server, "/api/v1/nodes", list, {});
    if (!objects) return std::string(berth::ToString(objects.error().code));
    std::string names = "@" + objects->resource_version;
    for (const json& object : objects->items) names += " " + object["metadata"]["name"].get<std::string>();
    return names;
  }
  // The first line of a watch from the version: a name, or the code of an error.
  [[nodiscard]] std::string Watch(const std::string& version) {
    std::string told;
    static_cast<void>(
        server.Watch({.path = "/api/v1/nodes", .query = {{"resourceVersion", version}}}, {}, [&](auto line) {
          const json object = json::parse(line)["object"];
          told = object.value("kind", "") == "Status" ? object["code"].dump()
                                                      : object["metadata"]["name"].get<std::string>();
          return false;
        }));
    return told;
  }

  k8sclient::testing::ModelApi store;
  ApiServer server{store, "apiserver"};
};

TEST(ApiServer, AnswersAConsistentReadFromTheStoreAndAnyOtherFromItsCache) {
  EXPECT_EQ(TellOf(1,
                   [](std::string& text) {
                     OneServer one;
                     one.server.Lag(1h);
                     one.Put("late");
                     text = one.List({}) + "; " + one.List({.resource_version = "0"});
                   })
                .text,
            "@102 early late; @101 early");
}

TEST(ApiServer, WaitsForAVersionThatItsCacheHasNotSeenYet) {
  EXPECT_EQ(TellOf(1,
                   [](std::string& text) {
                     OneServer one;
                     one.Put("late");
                     text = one.List({.resource_version = "102", .resource_version_match = "NotOlderThan"});
                   })
                .text,
            "@102 early late");
}

TEST(ApiServer, RefusesAReadIfItsCacheDoesNotSeeTheVersionWithinThreeSeconds) {
  EXPECT_EQ(TellOf(1,
                   [](std::string& text) {
                     OneServer one;
                     text = one.List({.resource_version = "500", .resource_version_match = "NotOlderThan"});
                   })
                .text,
            "Gone");
}

TEST(ApiServer, ShowsInAWatchWhatItsCacheSees) {
  EXPECT_EQ(TellOf(1,
                   [](std::string& text) {
                     OneServer one;
                     one.Put("late");
                     text = one.Watch("101");
                   })
                .text,
            "late");
}

TEST(ApiServer, RefusesAWatchFromBeforeItsRestart) {
  EXPECT_EQ(TellOf(1,
                   [](std::string& text) {
                     OneServer one;
                     one.Put("late");
                     one.server.Restart();
                     text = one.Watch("101") + " " + one.List({.resource_version = "0"});
                   })
                .text,
            "410 @102 early late");
}

TEST(ApiServer, ListsNoDeletedObjectWithOrWithoutAFinalizer) {
  const auto body = [](std::string& text) {
    OneServer one;
    one.store.Put("/api/v1/nodes", {{"metadata", {{"name", "held"}, {"finalizers", {"a/b"}}}}});
    for (const char* const name : {"early", "held"}) {
      static_cast<void>(k8sclient::Delete(one.server, std::string("/api/v1/nodes/") + name, {}, {}));
    }
    std::this_thread::sleep_for(2s);
    text = one.List({.resource_version = "0"});
    const json last = {{"metadata", {{"finalizers", nullptr}}}};
    static_cast<void>(k8sclient::MergePatch(one.server, "/api/v1/nodes/held", last, {}));
    std::this_thread::sleep_for(2s);
    text += "; " + one.List({.resource_version = "0"});
  };
  EXPECT_EQ(TellOf(1, body).text, "@104 held; @105");
}

}  // namespace
}  // namespace berth::sim
