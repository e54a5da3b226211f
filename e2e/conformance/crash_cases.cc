// SPDX-License-Identifier: Apache-2.0
// Crash safety: a fault at every request of ADD and DEL, on every kind of pool.
//
// If a request or an answer is lost, if the process dies, or if a request arrives late, then a DEL leaves nothing, a
// repeated ADD gives exactly one address of each family, and a late write never frees an address that another
// attachment got meanwhile.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string_view>
#include <thread>

#include "e2e/conformance/conformance.h"
#include "e2e/conformance/node_proxy.h"
#include "ipam/seeded.h"

namespace berth::conformance {
namespace {

using e2e::Fault;
using e2e::SeenRequest;
using testing::SizeIs;

// An ADD or DEL sends fewer requests than this, even with a few repetitions. More requests mean an endless loop.
constexpr int kRequestsMax = 20;

struct Scenario {
  const char* name;
  bool has_block;  // true: the node has a block, and an ADD patches it; false: an ADD creates a block
  bool has_v4;
  bool v4_is_shared;
  bool has_v6;
  bool v6_is_shared;
};

constexpr Scenario kScenarios[] = {
    {.name = "NodePoolWithBlock",
     .has_block = true,
     .has_v4 = true,
     .v4_is_shared = false,
     .has_v6 = false,
     .v6_is_shared = false},
    {.name = "NodePoolWithoutBlock",
     .has_block = false,
     .has_v4 = true,
     .v4_is_shared = false,
     .has_v6 = false,
     .v6_is_shared = false},
    {.name = "SharedPoolWithBlock",
     .has_block = true,
     .has_v4 = true,
     .v4_is_shared = true,
     .has_v6 = false,
     .v6_is_shared = false},
    {.name = "SharedPoolWithoutBlock",
     .has_block = false,
     .has_v4 = true,
     .v4_is_shared = true,
     .has_v6 = false,
     .v6_is_shared = false},
    {.name = "DualStackWithBlocks",
     .has_block = true,
     .has_v4 = true,
     .v4_is_shared = false,
     .has_v6 = true,
     .v6_is_shared = false},
    {.name = "DualStackWithoutBlocks",
     .has_block = false,
     .has_v4 = true,
     .v4_is_shared = false,
     .has_v6 = true,
     .v6_is_shared = false},
    {.name = "DualStackNodeAndShared",
     .has_block = true,
     .has_v4 = true,
     .v4_is_shared = false,
     .has_v6 = true,
     .v6_is_shared = true},
    {.name = "DualStackBothShared",
     .has_block = true,
     .has_v4 = true,
     .v4_is_shared = true,
     .has_v6 = true,
     .v6_is_shared = true},
};

// Whether the tests try every moment and not a sample. `make test-all` (tools/run-tests) sets the variable.
bool IsSweepWhole() {
  const char* const sweep = std::getenv("BERTH_SWEEP");  // NOLINT(concurrency-mt-unsafe): tests do not set variables
  return sweep != nullptr && std::string_view(sweep) == "all";
}

class CrashSafety : public Conformance, public testing::WithParamInterface<Scenario> {
 protected:
  void SetUp() override {
    const Scenario& scenario = GetParam();
    if (scenario.has_v4) MakePool({{"affinity", scenario.v4_is_shared ? "Shared" : "Node"}});
    if (scenario.has_v6) MakePool6({{"affinity", scenario.v6_is_shared ? "Shared" : "Node"}});
    node_.emplace(Scratch());
    if (scenario.has_block) Ok(Of("ADD", "resident"));
    MakeReady();
  }

  [[nodiscard]] NodeProxy& node() { return *node_; }
  [[nodiscard]] std::size_t families() const { return pools().size(); }

  [[nodiscard]] Call Of(const std::string& verb, const std::string& container) {
    Call call = node_->Through(Base(verb, pools()).With("CNI_CONTAINERID", container));
    call.config["ipam"]["timeoutSeconds"] = 10;
    return call;
  }

  // Removes the blocks if the scenario begins without a block, and expects that only the resident has addresses.
  void MakeReady() {
    node_->NoFaults();
    if (!GetParam().has_block) {
      for (const std::string& pool : pools()) cluster().RemoveBlocks(pool);
    }
    baseline_ = Allocated();
    ASSERT_THAT(baseline_, SizeIs(GetParam().has_block ? families() : 0));
  }

  void ExpectNothingLeft(const std::string& when) {
    SCOPED_TRACE(when);
    ExpectAllocatedAtLast(baseline_);
  }

  // Runs `round` with the index of each request that a call sends, until the fault meets no request.
  void AtEveryRequest(const std::function<void(int index)>& round) {
    for (int index = 0; index < kRequestsMax; ++index) {
      MakeReady();
      SCOPED_TRACE("fault at request " + std::to_string(index));
      struck_ = false;
      round(index);
      if (HasFailure()) {
        for (const SeenRequest& request : seen_) ADD_FAILURE() << Describe(request);
        return;
      }
      if (!struck_) {
        EXPECT_GT(index, 0) << "no request was ever faulted";
        return;
      }
    }
    FAIL() << "more than " << kRequestsMax << " requests";
  }

  // Runs one call to its end, with a fault at this request.
  PluginOutcome RunWithFault(const Call& call, int index, Fault fault) {
    node_->FaultAt(index, fault);
    PluginOutcome outcome = Run(call);
    AwaitWritten();
    NoteSeen();
    return outcome;
  }

  // The shorter time of two ADDs, each from the start to the end of its process.
  std::chrono::milliseconds TimeOfAdd() {
    auto shortest = std::chrono::milliseconds::max();
    for (int i = 0; i < 2; ++i) {
      MakeReady();
      const PluginOutcome outcome = Run(Of("ADD", "c1"));
      EXPECT_EQ(outcome.exit_code, 0) << outcome.out;
      shortest = std::min(shortest, outcome.took);
      OkSilently(Of("DEL", "c1"));
    }
    return shortest;
  }

  // Kills an ADD after `moment`, and expects that a DEL leaves nothing. False: the ADD had ended by itself.
  bool KillAddAfter(std::chrono::microseconds moment) {
    SCOPED_TRACE("killed after " + std::to_string(moment.count()) + " us");
    MakeReady();
    PluginProcess process(Prepare(Of("ADD", "c1")));
    std::jthread waiting([&] { static_cast<void>(process.Wait()); });
    std::this_thread::sleep_for(moment);  // the moment under test
    const bool is_killed = process.IsRunning();
    process.Signal(SIGKILL);
    waiting.join();
    OkSilently(Of("DEL", "c1"));
    ExpectNothingLeft("after DEL");
    return is_killed;
  }

  // Kills a call while it waits for the answer to this request. In agent mode, also kills the agent.
  void KillAt(const Call& call, int index, Fault fault) {
    node_->FaultAt(index, fault);
    PluginProcess process(Prepare(call));
    std::jthread waiting([&] { static_cast<void>(process.Wait()); });
    while (!node_->proxy().AwaitHeld(std::chrono::milliseconds(20)) && process.IsRunning()) {
    }
    process.Signal(SIGKILL);
    waiting.join();
    // A DEL ends before the agent sends the DEL's request, and an ADD may end before its request, too.
    const auto is_sent = [&] {
      return node_->proxy().AwaitHeld(std::chrono::milliseconds(0)) || UnwrittenOf(node_->socket()).empty();
    };
    if (InAgentMode()) static_cast<void>(Eventually(is_sent));
    NoteSeen();
    if (InAgentMode() && struck_) node_->ReplaceAgent();
  }

 private:
  void NoteSeen() {
    seen_ = node_->proxy().Seen();
    for (const SeenRequest& request : seen_) struck_ = struck_ || request.fault != Fault::kNone;
    node_->NoFaults();
  }

  static std::string Describe(const SeenRequest& request) {
    return "request " + std::to_string(request.index) + ": " + request.method + " " + request.target + " status " +
           std::to_string(request.status) + (request.fault == Fault::kNone ? "" : " (faulted)");
  }

  std::optional<NodeProxy> node_;
  std::set<std::string> baseline_;
  std::vector<SeenRequest> seen_;
  bool struck_ = false;
};

constexpr Fault kLosses[] = {Fault::kCutBefore, Fault::kCutAfter, Fault::kLate};

TEST_P(CrashSafety, AfterALossInAddARetryGivesOneAddressAndDelLeavesNothing) {
  for (const Fault fault : kLosses) {
    SCOPED_TRACE("fault " + std::to_string(static_cast<int>(fault)));
    AtEveryRequest([&](int index) {
      const PluginOutcome first = RunWithFault(Of("ADD", "c1"), index, fault);
      const json result = Ok(Of("ADD", "c1"));
      EXPECT_THAT(Addresses(result), SizeIs(families()));
      EXPECT_TRUE(first.exit_code != 0 || json::parse(first.out) == result) << "the answer changed: " << first.out;
      node().proxy().Release();
      EXPECT_EQ(Ok(Of("ADD", "c1")), result) << "the answer changed when the request arrived late";
      OkSilently(Of("DEL", "c1"));
      ExpectNothingLeft("after DEL");
    });
  }
}

TEST_P(CrashSafety, AfterALossInAddDelLeavesNothing) {
  for (const Fault fault : kLosses) {
    SCOPED_TRACE("fault " + std::to_string(static_cast<int>(fault)));
    AtEveryRequest([&](int index) {
      static_cast<void>(RunWithFault(Of("ADD", "c1"), index, fault));
      OkSilently(Of("DEL", "c1"));
      ExpectNothingLeft("after DEL");
      node().proxy().Release();
      ExpectNothingLeft("after the request arrived late");
    });
  }
}

TEST_P(CrashSafety, AfterAKillInAddDelLeavesNothing) {
  for (const Fault fault : {Fault::kHold, Fault::kStall}) {
    SCOPED_TRACE("fault " + std::to_string(static_cast<int>(fault)));
    AtEveryRequest([&](int index) {
      KillAt(Of("ADD", "c1"), index, fault);
      OkSilently(Of("DEL", "c1"));
      node().proxy().Release();
      ExpectNothingLeft("after DEL, and after the request arrived late");
      EXPECT_THAT(Addresses(Ok(Of("ADD", "c1"))), SizeIs(families()));
      OkSilently(Of("DEL", "c1"));
      ExpectNothingLeft("after ADD and DEL again");
    });
  }
}

// Kills ADDs at random moments between their start and end, and not only while they wait for the API server. In
// `make test-all`, kills each ADD 1 ms later than the one before, until an ADD ends by itself.
TEST_P(CrashSafety, AfterAKillAtAnyMomentOfAddDelLeavesNothing) {
  if (IsSweepWhole()) {
    constexpr int kLastMomentMs = 400;
    int moment_ms = 0;
    while (moment_ms < kLastMomentMs && KillAddAfter(std::chrono::milliseconds(moment_ms)) && !HasFailure())
      ++moment_ms;
    EXPECT_LT(moment_ms, kLastMomentMs) << "an ADD takes longer than the last moment";
    return;
  }
  constexpr int kMomentsDrawn = 12;
  // The bound is the time of an ADD. On a busy machine the next ADD may take a tenth of that, so each ADD that ends
  // before its moment lowers the bound.
  std::chrono::microseconds bound = TimeOfAdd() + std::chrono::milliseconds(1);
  int killed = 0;
  ipam::ForSeeds(kMomentsDrawn, [&](ipam::SeededRandom& random) {
    const std::chrono::microseconds moment(random.Below(static_cast<std::uint64_t>(bound.count())));
    if (KillAddAfter(moment))
      ++killed;
    else
      bound = moment + std::chrono::microseconds(1);
  });
  EXPECT_GT(killed, 0) << "each ADD was over before its moment";
}

TEST_P(CrashSafety, AfterAKillInAddGcLeavesNothing) {
  AtEveryRequest([&](int index) {
    KillAt(Of("ADD", "c1"), index, Fault::kHold);
    Call gc = Of("GC", "");
    gc.config["cni.dev/valid-attachments"] = json::array({{{"containerID", "resident"}, {"ifname", "eth0"}}});
    OkSilently(gc);
    node().proxy().Release();
    ExpectNothingLeft("after GC, and after the request arrived late");
  });
}

TEST_P(CrashSafety, AfterALossInDelARepeatedDelLeavesNothingAndTakesNothingFromOthers) {
  for (const Fault fault : kLosses) {
    SCOPED_TRACE("fault " + std::to_string(static_cast<int>(fault)));
    AtEveryRequest([&](int index) {
      Ok(Of("ADD", "c1"));
      static_cast<void>(RunWithFault(Of("DEL", "c1"), index, fault));
      OkSilently(Of("DEL", "c1"));
      ExpectNothingLeft("after DEL");
      Ok(Of("ADD", "c2"));
      const auto others = Allocated();
      node().proxy().Release();
      EXPECT_EQ(Allocated(), others) << "a late DEL took what another container got";
      OkSilently(Of("DEL", "c2"));
      ExpectNothingLeft("after the other's DEL");
    });
  }
}

TEST_P(CrashSafety, AfterAKillInDelARepeatedDelLeavesNothingAndTakesNothingFromOthers) {
  for (const Fault fault : {Fault::kHold, Fault::kStall}) {
    SCOPED_TRACE("fault " + std::to_string(static_cast<int>(fault)));
    AtEveryRequest([&](int index) {
      Ok(Of("ADD", "c1"));
      KillAt(Of("DEL", "c1"), index, fault);
      OkSilently(Of("DEL", "c1"));
      ExpectNothingLeft("after DEL");
      Ok(Of("ADD", "c2"));
      const auto others = Allocated();
      node().proxy().Release();
      EXPECT_EQ(Allocated(), others) << "a late DEL took what another container got";
      OkSilently(Of("DEL", "c2"));
      ExpectNothingLeft("after the other's DEL");
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Scenarios, CrashSafety, testing::ValuesIn(kScenarios),
                         [](const auto& c) { return std::string(c.param.name); });

}  // namespace
}  // namespace berth::conformance
