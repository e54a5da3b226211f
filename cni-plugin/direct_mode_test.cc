// SPDX-License-Identifier: Apache-2.0
// berth-direct serves calls only in direct mode. No API server runs at the kubeconfig's address: an error with this
// address shows that berth-direct tried to reach it.
#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <sys/inotify.h>
#include <unistd.h>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/places.h"
#include "cni-plugin/berth_test_setup.h"
#include "cni-plugin/scripted_agent.h"
#include "cni/attachment.h"
#include "k8sclient/testing/scripted_server.h"
#include "node/lock_test_setup.h"
#include "node/node_directory.h"
#include "node/node_mode.h"

namespace berth::cni_plugin {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr const char* kApiServer = "127.0.0.1:1";

class DirectMode : public testing::Test {
 protected:
  DirectMode() { WriteKubeconfig("u"); }

  void WriteKubeconfig(const std::string& user, const std::string& server = "http://127.0.0.1:1") const {
    const json kubeconfig = {{"apiVersion", "v1"},
                             {"kind", "Config"},
                             {"current-context", "c"},
                             {"contexts", {{{"name", "c"}, {"context", {{"cluster", "k"}, {"user", user}}}}}},
                             {"clusters", {{{"name", "k"}, {"cluster", {{"server", server}}}}}},
                             {"users", {{{"name", user}, {"user", json::object()}}}}};
    std::ofstream(folder_ / "kubeconfig") << kubeconfig;
  }

  [[nodiscard]] cni_testing::PluginCall Call(const std::string& verb) const {
    std::string configuration =
        Configuration(socket_, R"(,"nodeName":"n1","kubeconfig":")" + (folder_ / "kubeconfig") + "\"");
    configuration.insert(1, R"("prevResult":{},"cni.dev/valid-attachments":[],)");
    cni_testing::PluginCall call = BerthCall(verb, std::move(configuration));
    call.binary = BuildDir() + "/bin/berth-direct";
    return call;
  }
  [[nodiscard]] node::Folder State() const { return node::Folder::Open(StateOf(socket_)).value(); }
  [[nodiscard]] node::NodeDirectory Directory() const {
    return node::NodeDirectory::Open(folder_ / "", "n1", "http://127.0.0.1:1").value();
  }
  void ExpectRefusal(const std::string& verb, const json& error) const {
    EXPECT_EQ(error["code"], verb == "STATUS" ? 50U : 11U) << error;
    EXPECT_THAT(error["msg"], HasSubstr(StateOf(socket_) + "/mode does not say direct"));
    EXPECT_THAT(error["details"], HasSubstr("berth-agent --retire"));
  }

  TemporaryFolder folder_;
  std::string socket_ = folder_ / "agent.sock";
};

class DirectModeOf : public DirectMode, public testing::WithParamInterface<const char*> {};

TEST_P(DirectModeOf, WithoutAModeFileTheCallIsRefused) {
  ExpectRefusal(GetParam(), ErrorOf(RunPlugin(Call(GetParam()))));
  EXPECT_FALSE(std::filesystem::exists(StateOf(socket_))) << "a configuration makes no folder";
  EXPECT_FALSE(std::filesystem::exists(folder_ / "nodes"));
}

TEST_P(DirectModeOf, InAgentModeTheCallIsRefused) {
  ASSERT_TRUE(node::WriteMode(State(), node::NodeMode::kAgent));
  ExpectRefusal(GetParam(), ErrorOf(RunPlugin(Call(GetParam()))));
}

TEST_P(DirectModeOf, InDirectModeTheCallAsksTheApiServer) {
  ASSERT_TRUE(node::WriteMode(State(), node::NodeMode::kDirect));
  EXPECT_THAT(ErrorOf(RunPlugin(Call(GetParam())))["msg"], HasSubstr(kApiServer));
}

INSTANTIATE_TEST_SUITE_P(Table, DirectModeOf, testing::Values("ADD", "DEL", "CHECK", "GC", "STATUS"),
                         [](const auto& c) { return std::string(c.param); });

TEST_F(DirectMode, AFailedAddRemovesTheFileThatSaysThatItRuns) {
  ASSERT_TRUE(node::WriteMode(State(), node::NodeMode::kDirect));
  EXPECT_THAT(ErrorOf(RunPlugin(Call("ADD")))["msg"], HasSubstr(kApiServer));
  EXPECT_TRUE(std::filesystem::is_empty(Directory().path() + "/running"));
}

// Answers with a pool, and with a block of it in which the container c1 has an address.
void ServePoolAndBlock(k8sclient::testing::Peer& peer) {
  const json ready = {{{"type", "Ready"}, {"status", "True"}, {"reason", "Accepted"}}};
  const json pool = {{"metadata", {{"name", "p1"}, {"uid", "uid-of-p1"}, {"resourceVersion", "1"}}},
                     {"spec", {{"subnet", "10.55.0.0/24"}, {"blockSize", 26}}},
                     {"status", {{"conditions", ready}}}};
  const json block = {
      {"metadata", {{"name", "10.55.0.0-26"}, {"uid", "uid-of-block"}, {"resourceVersion", "2"}}},
      {"spec",
       {{"cidr", "10.55.0.0/26"}, {"node", "n1"}, {"pool", "p1"}, {"poolUID", "uid-of-p1"}, {"space", "default"}}},
      {"allocations", {{"1", "ns/p u-1 " + cni::MakeAttachment("n1", "c1", "eth0") + " i=eth0 t=1"}}},
      {"used", 1},
      {"free", 61}};
  const json blocks = {{"metadata", {{"resourceVersion", "2"}}}, {"items", {block}}};
  while (const auto request = peer.ReadRequest()) {
    const bool is_pool = request->target.find("/ippools/p1") != std::string::npos;
    peer.Answer(200, (is_pool ? pool : blocks).dump(), "Content-Type: application/json\r\n");
  }
}

// A runtime's list of attachments may lack an ADD whose process still writes its log. A GC keeps the address of this
// ADD only if the end of the ADD is noted afterwards.
TEST_F(DirectMode, AnAddNotesItsEndAfterItsLastLogLine) {
  ASSERT_TRUE(node::WriteMode(State(), node::NodeMode::kDirect));
  const k8sclient::testing::ScriptedServer server(ServePoolAndBlock);
  WriteKubeconfig("u", server.url());
  const std::string log = folder_ / "log";
  std::ofstream(log) << "";
  const node::HeldFile changes(inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  ASSERT_GE(inotify_add_watch(changes.descriptor(), log.c_str(), IN_MODIFY), 0);
  ASSERT_GE(inotify_add_watch(changes.descriptor(), (Directory().path() + "/running").c_str(), IN_ATTRIB), 0);
  cni_testing::PluginCall call = Call("ADD");
  call.input.insert(call.input.find(R"("nodeName")"), R"("logLevel":"info","logFile":")" + log + R"(",)");
  const PluginOutcome outcome = RunPlugin(call);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  std::vector<std::uint32_t> seen;
  alignas(inotify_event) std::array<char, 4096> buffer{};
  const ssize_t length = read(changes.descriptor(), buffer.data(), buffer.size());
  for (ssize_t at = 0; at < length;) {
    const auto* const event = reinterpret_cast<const inotify_event*>(buffer.data() + at);
    seen.push_back(event->mask);
    at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
  }
  EXPECT_EQ(seen, (std::vector<std::uint32_t>{IN_ATTRIB, IN_MODIFY, IN_ATTRIB}));
}

// A tenant chooses the name, and must not fill the disk.
TEST_F(DirectMode, ALogLineOfALongNameIsShort) {
  ASSERT_TRUE(node::WriteMode(State(), node::NodeMode::kDirect));
  const std::string log = folder_ / "log";
  cni_testing::PluginCall call = Call("ADD");
  call.input.insert(call.input.find(R"("nodeName")"), R"("logFile":")" + log + R"(",)");
  const std::string_view name = R"("name":"n1)";
  call.input.insert(call.input.find(name) + name.size(), std::string(5000, 'n'));
  EXPECT_THAT(ErrorOf(RunPlugin(call))["msg"], HasSubstr(kApiServer));
  EXPECT_GT(std::filesystem::file_size(log), 200U);
  EXPECT_LT(std::filesystem::file_size(log), 1000U);
}

// For example, because the file system of /run is full.
TEST_F(DirectMode, ADelOfAContainerWithoutAddressSucceedsAlsoIfItsMarkCannotBeWritten) {
  ASSERT_TRUE(node::WriteMode(State(), node::NodeMode::kDirect));
  const k8sclient::testing::ScriptedServer server([](k8sclient::testing::Peer& peer) {
    while (peer.ReadRequest()) {
      peer.Answer(200, R"({"metadata":{"resourceVersion":"2"},"items":[]})", "Content-Type: application/json\r\n");
    }
  });
  WriteKubeconfig("u", server.url());
  std::filesystem::create_directory(Directory().path() + "/deleted/" + cni::MakeAttachment("n1", "c1", "eth0"));
  const PluginOutcome outcome = RunPlugin(Call("DEL"));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out;
  EXPECT_THAT(outcome.err, HasSubstr("berth-direct: cannot record this DEL"));
}

TEST_F(DirectMode, AnUnknownModeIsAnErrorThatNamesTheFile) {
  ASSERT_TRUE(State().Write("mode", "both\n"));
  EXPECT_THAT(ErrorOf(RunPlugin(Call("DEL")))["msg"], HasSubstr("/mode holds \"both\""));
}

TEST_F(DirectMode, ANodeNameThatIsNotInTheCredentialsIsRefusedBeforeAFolderIsMade) {
  ASSERT_TRUE(node::WriteMode(State(), node::NodeMode::kDirect));
  WriteKubeconfig("system:node:n2");
  const json error = ErrorOf(RunPlugin(Call("ADD")));
  EXPECT_EQ(error["code"], 7U) << error;
  EXPECT_THAT(error["msg"], HasSubstr("ipam.nodeName is \"n1\", but the credentials are of the node \"n2\""));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "nodes"));
}

TEST_F(DirectMode, AUserNameThatNamesNoNodeIsRefusedBeforeAFolderIsMade) {
  ASSERT_TRUE(node::WriteMode(State(), node::NodeMode::kDirect));
  WriteKubeconfig("system:node:../n1");
  cni_testing::PluginCall call = Call("ADD");
  call.input.erase(call.input.find(R"("nodeName")"), std::string_view(R"("nodeName":"n1",)").size());
  EXPECT_THAT(ErrorOf(RunPlugin(call))["msg"], HasSubstr("\"../n1\" cannot be the name of a node"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "nodes"));
}

TEST_F(DirectMode, ACallIsRefusedIfTheModeChangesWhileItWaitsForTheLock) {
  ASSERT_TRUE(node::WriteMode(State(), node::NodeMode::kDirect));
  std::optional<node::HeldFile> lock = Directory().Lock(/*deadline=*/0).value();
  PluginProcess process(Call("DEL"));
  ASSERT_TRUE(Await([this] { return node::IsLockWaitedFor(Directory().path() + "/lock"); }));
  ASSERT_TRUE(State().Remove("mode"));
  lock.reset();
  ExpectRefusal("DEL", ErrorOf(process.Wait()));
}

TEST_F(DirectMode, CallsAreRefusedWhileAnAgentRunsAlsoInDirectMode) {
  ASSERT_TRUE(node::WriteMode(State(), node::NodeMode::kDirect));
  const node::HeldFile agent = Directory().LockShared().value();
  cni_testing::PluginCall call = Call("DEL");
  call.input.insert(call.input.find(R"("nodeName")"), R"("timeoutSeconds":1,)");
  const json error = ErrorOf(RunPlugin(call));
  EXPECT_EQ(error["code"], 11U);
  EXPECT_THAT(error["msg"], HasSubstr("or its agent"));
}

}  // namespace
}  // namespace berth::cni_plugin
