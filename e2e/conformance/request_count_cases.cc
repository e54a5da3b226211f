// SPDX-License-Identifier: Apache-2.0
// How many requests an ADD and a DEL send, and that none of them is a consistent LIST. The tests count requests in the
// API server's audit log; in agent mode they count at the proxy, because the log does not distinguish agents.
#include <cstdlib>
#include <fstream>
#include <poll.h>

#include "e2e/agent_process.h"
#include "e2e/conformance/conformance.h"
#include "e2e/conformance/node_proxy.h"

namespace berth::conformance {
namespace {

using testing::SizeIs;

struct Audited {
  std::string verb;
  std::string uri;
};

class RequestCount : public Conformance {
 protected:
  void SetUp() override {
    const char* const log = std::getenv("BERTH_AUDIT_LOG");
    ASSERT_NE(log, nullptr) << "run e2e/conformance.sh";
    log_ = log;
    node_.emplace(Scratch());
  }

  // The requests of a call through the proxy. The proxy knows how many lines the log must get.
  std::vector<Audited> RequestsOf(const Call& call) {
    const auto begin = static_cast<std::streamoff>(std::ifstream(log_, std::ios::ate).tellg());
    static_cast<void>(Passed());  // notes the blocks whose watches have begun
    node_->NoFaults();
    Ok(node_->Through(call));
    AwaitWritten();
    const std::size_t sent = node_->proxy().Seen().size();
    std::vector<Audited> requests = InAgentMode() ? Passed() : std::vector<Audited>();
    watched_.clear();
    for (int tries = 0; tries < 1000 && !InAgentMode() && requests.size() < sent; ++tries) {
      ::poll(nullptr, 0, 5);
      requests = ReadLog(begin);
    }
    if (!InAgentMode()) {
      EXPECT_THAT(requests, SizeIs(sent)) << "the audit log and the proxy disagree";
    }
    for (const Audited& request : requests) {
      EXPECT_FALSE(request.verb == "list" && request.uri.find("resourceVersion=") == std::string::npos)
          << "a consistent LIST: " << request.uri;
    }
    return requests;
  }

  // Makes a first call: then the state folder contains the node's last version, and an agent watches its blocks.
  void WarmUp() {
    node_->NoFaults();
    Ok(node_->Through(Base("ADD", pools()).With("CNI_CONTAINERID", "warm-up")));
    AwaitWritten();
    if (InAgentMode()) AwaitWatched();
  }

  // Waits until the agent knows that it has no block any more.
  void AwaitNoBlocks() {
    EXPECT_TRUE(Eventually([this] { return Blocks().empty(); }));
  }

  void AwaitWatched() {
    EXPECT_TRUE(Eventually([this] {
      std::set<std::string> blocks = Blocks();
      for (const e2e::SeenRequest& request : node_->proxy().Seen()) {
        if (request.status != 0) blocks.erase(WatchedBlock(request));
      }
      return blocks.empty();
    }));
  }

  // The names of the blocks that the agent knows.
  [[nodiscard]] std::set<std::string> Blocks() const {
    const auto reply = e2e::GetOverSocket(node_->socket(), "/debug/blocks");
    if (!reply) return {"of an agent that does not answer"};
    const json state = json::parse(reply->body);
    std::set<std::string> names;
    for (const json& block : state.at("blocks")) names.insert(block.at("name"));
    return names;
  }

  // The block whose watch begins with this list; empty: the request is no such list.
  [[nodiscard]] static std::string WatchedBlock(const e2e::SeenRequest& request) {
    static constexpr std::string_view kSelector = "fieldSelector=metadata.name%3D";
    const std::size_t begin = request.target.find(kSelector);
    if (begin == std::string::npos) return "";
    const std::size_t name = begin + kSelector.size();
    return request.target.substr(name, request.target.find('&', name) - name);
  }

  static std::string Text(const std::vector<Audited>& requests) {
    std::string text;
    for (const Audited& request : requests) text += request.verb + " " + request.uri + "\n";
    return text;
  }

  struct Limit {
    std::size_t direct;
    std::size_t agent;
  };
  void ExpectAtMost(Limit limit, const Call& call) {
    const std::vector<Audited> requests = RequestsOf(call);
    EXPECT_LE(requests.size(), InAgentMode() ? limit.agent : limit.direct) << Text(requests);
    EXPECT_GE(requests.size(), 1U) << Text(requests);
  }

  [[nodiscard]] Call Add(const std::string& id) { return Base("ADD", pools()).With("CNI_CONTAINERID", id); }
  [[nodiscard]] Call Del(const std::string& id) { return Base("DEL", pools()).With("CNI_CONTAINERID", id); }

 private:
  // The requests that the agent has sent, in the words of the audit log. Leaves out the lists with which watches begin,
  // because no call waits for them, and one read of each such block: the agent reads the block if the list came from a
  // cache that lags.
  [[nodiscard]] std::vector<Audited> Passed() {
    std::vector<Audited> requests;
    for (const e2e::SeenRequest& request : node_->proxy().Seen()) {
      if (const std::string block = WatchedBlock(request); !block.empty()) {
        watched_.insert(block);
        continue;
      }
      if (request.method == "GET" && watched_.erase(request.target.substr(request.target.rfind('/') + 1)) > 0) continue;
      const bool is_list = request.method == "GET" && request.target.find('?') != std::string::npos;
      requests.push_back({.verb = is_list                     ? "list"
                                  : request.method == "PATCH" ? "patch"
                                  : request.method == "POST"  ? "create"
                                                              : "get",
                          .uri = request.target});
    }
    return requests;
  }

  std::vector<Audited> ReadLog(std::streamoff begin) const {
    const std::string user = "system:node:" + Settings::Get().NodeName();
    std::ifstream file(log_);
    file.seekg(begin);
    std::vector<Audited> requests;
    for (std::string line; std::getline(file, line);) {
      const json event = json::parse(line, nullptr, false);
      if (event.is_discarded() || event.value("stage", "") != "ResponseComplete") continue;
      if (event["user"].value("username", "") != user) continue;
      requests.push_back({.verb = event.value("verb", ""), .uri = event.value("requestURI", "")});
    }
    return requests;
  }

  std::string log_;
  std::set<std::string> watched_;  // blocks whose watch has begun, so the agent may read each of them once
  std::optional<NodeProxy> node_;
};

TEST_F(RequestCount, OneFamilyTakesThreeForAddAndTwoForDelOrOneEach) {
  MakePool();
  WarmUp();
  ExpectAtMost({.direct = 3, .agent = 1}, Add("c1"));
  ExpectAtMost({.direct = 2, .agent = 1}, Del("c1"));
}

TEST_F(RequestCount, ANewBlockTakesTwoMore) {
  MakePool();
  WarmUp();
  cluster().RemoveBlocks(pools()[0]);
  if (InAgentMode()) AwaitNoBlocks();
  ExpectAtMost({.direct = 5, .agent = 3}, Add("c1"));
}

TEST_F(RequestCount, AFurtherFamilyTakesOneWriteMore) {
  MakePool();
  MakePool6();
  WarmUp();
  ExpectAtMost({.direct = 4, .agent = 2}, Add("c1"));
  ExpectAtMost({.direct = 3, .agent = 2}, Del("c1"));
}

TEST_F(RequestCount, EachKindOfSelectorTakesOneMore) {
  MakePool({{"nodeSelector", {{"matchExpressions", {{{"key", "absent"}, {"operator", "DoesNotExist"}}}}}}});
  WarmUp();
  ExpectAtMost({.direct = 4, .agent = 1}, Add("c1"));
  cluster().PatchPool(
      pools()[0],
      {{"spec", {{"namespaceSelector", {{"matchExpressions", {{{"key", "absent"}, {"operator", "DoesNotExist"}}}}}}}}});
  ExpectAtMost({.direct = 5, .agent = 1}, Add("c2").With("CNI_ARGS", "K8S_POD_NAMESPACE=default;K8S_POD_NAME=web"));
}

TEST_F(RequestCount, ASharedPoolTakesOneMore) {
  MakePool({{"affinity", "Shared"}});
  WarmUp();
  // The first ADD that uses a Shared block reads the block's pool once more.
  RequestsOf(Add("first"));
  ExpectAtMost({.direct = 4, .agent = 2}, Add("c1"));
  ExpectAtMost({.direct = 3, .agent = 2}, Del("c1"));
}

TEST_F(RequestCount, ARepeatedAddTakesNoWrite) {
  MakePool();
  WarmUp();
  for (const Audited& request : RequestsOf(Add("warm-up"))) EXPECT_NE(request.verb, "patch") << request.uri;
}

}  // namespace
}  // namespace berth::conformance
