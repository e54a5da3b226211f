// SPDX-License-Identifier: Apache-2.0
// For tests only: calls of the built `berth`, as an interface plugin makes them.
#pragma once

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <poll.h>
#include <string>
#include <utility>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/places.h"
#include "cni/testing/plugin_process.h"

namespace berth::cni_plugin {

using cni_testing::PluginOutcome;
using cni_testing::PluginProcess;
using cni_testing::RunPlugin;
using cni_testing::Stdin;
using cni_testing::Stdout;
using Variables = std::map<std::string, std::string>;

inline Variables CallVariables(const std::string& verb) {
  return {{"CNI_COMMAND", verb},
          {"CNI_CONTAINERID", "c1"},
          {"CNI_NETNS", "/some/where"},
          {"CNI_IFNAME", "eth0"},
          {"CNI_ARGS", "IgnoreUnknown=1;K8S_POD_NAME=p"},
          {"CNI_PATH", "/opt/cni/bin"}};
}

// The state folder of an agent on `socket`.
inline std::string StateOf(const std::string& socket) { return socket.substr(0, socket.rfind('/')) + "/state"; }

// A network configuration whose agent is on `socket`; `more` are further members of ipam. Unless a test sets a time
// limit, it is the longest: with the default of 25 s, calls on a busy machine end too early.
inline std::string Configuration(const std::string& socket, const std::string& more = R"(,"timeoutSeconds":600)") {
  return R"({"cniVersion":"1.1.0","name":"n1","type":"bridge","ipam":{"type":"berth","pools":["p1"],"agentSocket":")" +
         socket + R"(","stateDir":")" + StateOf(socket) + "\"" + more + "}}";
}

// Waits until a condition of another process is true, and polls it, because the other process sends no signal. False:
// the condition was not true within 60 s.
inline bool Await(const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    poll(nullptr, 0, 2);
  }
  return true;
}

// Waits until the plugin waits for an agent: from then on the plugin has an inotify descriptor.
[[nodiscard]] inline bool AwaitWaiting(const PluginProcess& process) {
  return Await([&process] {
    const std::string folder = "/proc/" + std::to_string(process.pid()) + "/fd";
    std::error_code error;
    for (const auto& file : std::filesystem::directory_iterator(folder, error)) {
      if (std::filesystem::read_symlink(file.path(), error) == "anon_inode:inotify") return true;
    }
    return false;
  });
}

// A call of the built `berth`, for RunPlugin or PluginProcess.
inline cni_testing::PluginCall BerthCall(const std::string& verb, std::string configuration) {
  // A test may look at the plugin while the plugin waits for its agent, so the plugin gets all of stdin at once.
  return {.binary = BuildDir() + "/bin/berth",
          .environment = CallVariables(verb),
          .input = std::move(configuration),
          .is_fed_at_start = true};
}

// Runs the built `berth` with `verb` from start to end.
inline PluginOutcome RunBerth(const std::string& verb, std::string configuration) {
  return RunPlugin(BerthCall(verb, std::move(configuration)));
}

// The one JSON object that a failed call prints.
inline nlohmann::json ErrorOf(const PluginOutcome& finished) {
  EXPECT_EQ(finished.exit_code, EXIT_FAILURE) << finished.out;
  nlohmann::json object = nlohmann::json::parse(finished.out, nullptr, false);
  EXPECT_TRUE(object.is_object()) << finished.out;
  return object;
}

}  // namespace berth::cni_plugin
