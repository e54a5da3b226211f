// SPDX-License-Identifier: Apache-2.0
// `berth` when its caller dies: it sends no ADD, and takes back an ADD that got an address.
#include <fstream>
#include <memory>
#include <poll.h>
#include <sys/syscall.h>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cni-plugin/berth_test_setup.h"
#include "cni-plugin/scripted_agent.h"

namespace berth::cni_plugin {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kCallerResult = R"({"cniVersion":"1.1.0","ips":[{"address":"10.55.0.2/24"}]})";

class Orphan : public testing::Test {
 protected:
  TemporaryFolder folder_;
  std::string socket_ = folder_ / "agent.sock";

  // A call that was waiting for an agent when its parent process died.
  [[nodiscard]] std::unique_ptr<PluginProcess> Orphaned(const std::string& verb) const {
    cni_testing::PluginCall call = BerthCall(verb, Configuration(socket_));
    call.has_mortal_parent = true;
    auto process = std::make_unique<PluginProcess>(std::move(call));
    EXPECT_TRUE(AwaitWaiting(*process));
    process->KillParent();
    return process;
  }
};

TEST_F(Orphan, SendsNoAdd) {
  const auto process = Orphaned("ADD");
  ScriptedAgent agent(socket_, {Answers(200, kCallerResult)});
  const json error = ErrorOf(process->Wait());
  EXPECT_EQ(error["code"], 11);
  EXPECT_THAT(error["msg"], HasSubstr("the caller has ended"));
  EXPECT_THAT(agent.Stop(), IsEmpty());
}

TEST_F(Orphan, StillSendsADel) {
  const auto process = Orphaned("DEL");
  ScriptedAgent agent(socket_, {Answers(200, "")});
  EXPECT_EQ(process->Wait().exit_code, EXIT_SUCCESS);
  EXPECT_EQ(agent.Stop().size(), 1);
}

// The process ID of the parent does not show this case: the parent was gone before `berth` read it for the first time.
TEST_F(Orphan, SendsNoAddIfItsParentDiedBeforeItStarted) {
  ScriptedAgent agent(socket_, {Answers(200, kCallerResult)});
  cni_testing::PluginCall call = BerthCall("ADD", Configuration(socket_));
  call.out = Stdout::kReaderGone;
  EXPECT_EQ(RunPlugin(std::move(call)).exit_code, EXIT_FAILURE);
  EXPECT_THAT(agent.Stop(), IsEmpty());
}

// The connection stays open, without an answer, until the caller is gone.
class UndeliveredAdd : public Orphan {
 protected:
  // The requests that the agent got. `fields`: header fields in its answer to the ADD.
  std::vector<json> Requests(const std::string& fields) {
    Descriptor listener = Listen(socket_);
    PluginProcess process(BerthCall("ADD", Configuration(socket_)));
    pollfd waited{.fd = listener.descriptor(), .events = POLLIN, .revents = 0};
    EXPECT_EQ(poll(&waited, 1, 60'000), 1);
    AwaitSent(process);
    process.CloseOutput();
    ScriptedAgent agent(std::move(listener), {Answers(200, kCallerResult, fields), Answers(200, "")});
    finished_ = process.Wait();
    return agent.Stop();
  }

  PluginOutcome finished_;

 private:
  // After `berth` has connected, it checks its caller with a poll(2) that does not wait. Only a poll(2) that waits
  // shows that `berth` has sent the ADD.
  static void AwaitSent(const PluginProcess& process) {
    EXPECT_TRUE(Await([&process] {
      std::ifstream file("/proc/" + std::to_string(process.pid()) + "/syscall");
      std::string number;
      std::string descriptors;
      std::string count;
      std::string limit;
      file >> number >> descriptors >> count >> limit;
      return number == std::to_string(kPoll) && limit != "0x0";
    }));
  }

#ifdef SYS_poll
  static constexpr long kPoll = SYS_poll;
#else
  static constexpr long kPoll = SYS_ppoll;
#endif
};

TEST_F(UndeliveredAdd, IsFollowedByADelIfItGotNewAddresses) {
  const std::vector<json> requests = Requests("Berth-Took: 1\r\n");
  ASSERT_EQ(requests.size(), 2);
  EXPECT_EQ(requests[1]["command"], "DEL");
  EXPECT_EQ(requests[1]["containerID"], "c1");
  EXPECT_EQ(requests[1]["startedBootNanos"], requests[0]["startedBootNanos"].get<std::int64_t>() + 1);
  EXPECT_EQ(finished_.exit_code, EXIT_FAILURE);
  EXPECT_THAT(finished_.err, HasSubstr("write the answer to stdout"));
}

TEST_F(UndeliveredAdd, KeepsTheAddressesThatItsAttachmentHadBefore) {
  EXPECT_EQ(Requests("Berth-Took: 0\r\n").size(), 1);
  EXPECT_EQ(finished_.exit_code, EXIT_FAILURE);
}

TEST_F(UndeliveredAdd, KeepsAllAddressesIfTheAnswerHasNoHeaderBerthTook) { EXPECT_EQ(Requests("").size(), 1); }

}  // namespace
}  // namespace berth::cni_plugin
