// SPDX-License-Identifier: Apache-2.0
// Tests agents with parallel ADDs and DELs, on an API server that fails, loses answers and commits late, while agents
// end and are followed by the next. No address may ever have two holders. In the end every answered ADD must be
// recorded, and nothing else (invariants 1, 2 and 6 of docs/design.md).
#include <algorithm>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "agent/agent.h"
#include "agent/agent_test_setup.h"
#include "cni/attachment.h"
#include "ipam/seeded.h"

namespace berth::agent {
namespace {

using k8sclient::Method;
using nlohmann::json;

constexpr int kThreads = 4;
constexpr int kAgents = 5;
constexpr int kRounds = 30;

class StormTest : public AgentTest {
 protected:
  // Records which address a container was told.
  void NoteAdded(const std::string& container, const std::string& address) {
    const std::scoped_lock lock(mutex_);
    for (const auto& [other, its] : holders_) {
      EXPECT_TRUE(other == container || its != address) << other << " has what " << container << " was told";
    }
    holders_[container] = address;
  }
  // Called before the DEL is sent, because from then on another container may get the address.
  void NoteDeleted(const std::string& container) {
    const std::scoped_lock lock(mutex_);
    holders_.erase(container);
  }

  void MakeWeather(std::uint64_t seed) {
    const auto random = std::make_shared<ipam::SeededRandom>(seed);
    const auto mutex = std::make_shared<std::mutex>();
    api_.SetFaults([random, mutex, this](const k8sclient::Request& request) {
      std::uint64_t dice = 0;
      {
        const std::scoped_lock lock(*mutex);
        dice = random->Below(100);
      }
      if (dice < 5) api_.ReleaseLateWrites();
      const bool is_write = request.method == Method::kPatch || request.method == Method::kPost;
      if (!is_write || dice < 70) return ApiFault::kNone;
      if (dice < 80) return ApiFault::kUnavailable;
      return dice < 90 ? ApiFault::kLostAfterCommit : ApiFault::kLateCommit;
    });
  }

  // Returns the address of a delivered answer; empty if the ADD failed.
  std::string Added(const std::string& container) {
    const Reply reply = Add(container, "big");
    return reply.ok ? AddressIn(reply) : "";
  }

  // One caller: pods start, and some of them end.
  void Churn(const std::string& name, std::uint64_t seed) {
    ipam::SeededRandom random(seed);
    for (int round = 0; round < kRounds; ++round) {
      const std::string container = name + "-" + std::to_string(round);
      const std::string address = Added(container);
      if (!address.empty()) NoteAdded(container, address);
      const std::string again = !address.empty() && random.OneIn(5) ? Added(container) : "";
      EXPECT_TRUE(again.empty() || again == address) << "the same ADD was told " << again << " after " << address;
      if (!address.empty() && random.OneIn(3)) continue;
      NoteDeleted(container);
      while (!Del(container).ok) {
      }
    }
  }

  [[nodiscard]] std::map<std::string, std::string> Recorded() const {
    std::map<std::string, std::string> recorded;
    for (const json& block : api_.Objects(std::string(crds::kBlocksPath))) {
      const auto cidr = ipam::Prefix::Parse(block["spec"]["cidr"].get<std::string>()).value();
      const json allocations = block["allocations"];
      for (const auto& [offset, entry] : allocations.items()) {
        const std::string address = cidr.At(static_cast<std::uint32_t>(std::stoul(offset))).ToString() + "/20";
        recorded.emplace(std::string(ipam::AttachmentOf(entry.get<std::string>())), address);
      }
    }
    return recorded;
  }
  [[nodiscard]] std::map<std::string, std::string> Answered() const {
    std::map<std::string, std::string> answered;
    for (const auto& [container, address] : holders_) {
      answered.emplace(cni::MakeAttachment("net", container, "eth0"), address);
    }
    return answered;
  }

  // Returns the pairs of `all` that are not in `those`. The complete maps would be too long to read.
  using Pairs = std::vector<std::pair<std::string, std::string>>;
  [[nodiscard]] static Pairs Without(const std::map<std::string, std::string>& all,
                                     const std::map<std::string, std::string>& those) {
    Pairs rest;
    std::ranges::set_difference(all, those, std::back_inserter(rest));
    return rest;
  }

  // Runs one agent after another, each with new callers.
  void Round(ipam::SeededRandom& random) {
    for (int number = 0; number < kAgents; ++number) {
      agent_ = MakeAgentOf(watched_, {.standby = random.OneIn(2) ? 16U : 3U});
      agent_->Start();
      Await([this] { return agent_->IsReady(); }, "the agent is ready");
      MakeWeather(random.Below(1'000'000'000));
      {
        std::vector<std::jthread> callers;
        for (int i = 0; i < kThreads; ++i) {
          callers.emplace_back([this,
                                name = "c" + std::to_string(random.Below(1'000'000'000)),
                                seed = random.Below(1'000'000'000)] { Churn(name, seed); });
        }
      }
      agent_.reset();
      api_.SetFaults(nullptr);
      api_.ReleaseLateWrites();
    }
  }

  std::mutex mutex_;
  std::map<std::string, std::string> holders_;
};

TEST_F(StormTest, NoAddressIsGivenTwiceOrLostOrLeaked) {
  PutPool("big", "10.56.0.0/20", "Node");
  ipam::ForSeeds(2, [this](ipam::SeededRandom& random) {
    Round(random);
    StartAgent();
    // Before the agent is ready, it may not know what the earlier agent left to write.
    Await([this] { return agent_->IsReady(); }, "the last agent is ready");
    Await(
        [this] {
          const json debug = json::parse(agent_->DebugBlocks());
          return debug["journal"].empty() && debug["handedOut"].empty();
        },
        "all is written");
    EXPECT_EQ(Without(Recorded(), Answered()), Pairs{}) << "recorded, and nobody's";
    EXPECT_EQ(Without(Answered(), Recorded()), Pairs{}) << "answered, and not recorded";
    agent_.reset();
  });
}

}  // namespace
}  // namespace berth::agent
