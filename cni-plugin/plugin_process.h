// SPDX-License-Identifier: Apache-2.0
// For tests only: one process of the built `berth`, started as an interface plugin starts it.
#pragma once

#include <array>
#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <functional>
#include <map>
#include <poll.h>
#include <string>
#include <string_view>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/places.h"
#include "cni-plugin/descriptor.h"

namespace berth::cni_plugin {

using Variables = std::map<std::string, std::string>;

inline Variables CallVariables(const std::string& verb) {
  return {{"CNI_COMMAND", verb},
          {"CNI_CONTAINERID", "c1"},
          {"CNI_NETNS", "/some/where"},
          {"CNI_IFNAME", "eth0"},
          {"CNI_ARGS", "IgnoreUnknown=1;K8S_POD_NAME=p"},
          {"CNI_PATH", "/opt/cni/bin"}};
}

// The state folder that belongs to `socket`.
inline std::string StateOf(const std::string& socket) { return socket.substr(0, socket.rfind('/')) + "/state"; }

// A network configuration with the agent's socket `socket`; `more`: further members of ipam.
inline std::string Configuration(const std::string& socket, const std::string& more = "") {
  return R"({"cniVersion":"1.1.0","name":"n1","type":"bridge","ipam":{"type":"berth","pools":["p1"],"agentSocket":")" +
         socket + R"(","stateDir":")" + StateOf(socket) + "\"" + more + "}}";
}

// Checks the condition every 2 ms until it is true. For conditions of other processes that cannot wake this process.
// False: the condition was not true within 10 s.
inline bool Await(const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    poll(nullptr, 0, 2);
  }
  return true;
}

struct Finished {
  int status = -1;  // exit status; -1: ended by a signal
  std::string out;
  std::string err;
  std::chrono::milliseconds took{};
};

class PluginProcess {
 public:
  struct Options {
    Variables variables;
    std::string input;
    std::string program = BuildDir() + "/bin/berth";
    int stdin_descriptor = -1;       // instead of `input`
    bool without_reader = false;     // stdout has no reader from the start
    bool has_mortal_parent = false;  // see KillParent
  };

  explicit PluginProcess(const Options& options)
      : start_(std::chrono::steady_clock::now()), errors_(memfd_create("stderr", MFD_CLOEXEC)) {
    const auto [output_reader, output_writer] = Pipe();
    output_ = Descriptor(output_reader);
    const Descriptor writer(output_writer);
    if (options.without_reader) output_.Close();
    const Descriptor input(memfd_create("stdin", MFD_CLOEXEC));
    EXPECT_EQ(write(input.number(), options.input.data(), options.input.size()),
              static_cast<ssize_t>(options.input.size()));
    lseek(input.number(), 0, SEEK_SET);
    stdin_ = options.stdin_descriptor >= 0 ? options.stdin_descriptor : input.number();

    std::vector<std::string> variables;
    for (const auto& [name, value] : options.variables) variables.push_back(name + "=" + value);
    std::vector<char*> environment;
    for (std::string& variable : variables) environment.push_back(variable.data());
    environment.push_back(nullptr);
    if (options.has_mortal_parent) {
      StartUnderParent(options.program, environment.data(), writer.number());
    } else {
      pid_ = fork();
      if (pid_ == 0) Execute(options.program, environment.data(), writer.number());
    }
  }
  PluginProcess(const PluginProcess&) = delete;
  PluginProcess& operator=(const PluginProcess&) = delete;
  ~PluginProcess() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

  [[nodiscard]] pid_t pid() const { return pid_; }

  // Kills the process that started the plugin. When KillParent returns, the plugin has another parent.
  void KillParent() {
    kill(parent_, SIGKILL);
    waitpid(parent_, nullptr, 0);
  }

  void CloseOutput() { output_.Close(); }

  // Waits until the plugin waits for an agent: it then has an inotify descriptor.
  [[nodiscard]] bool AwaitWaiting() const {
    return Await([this] {
      const std::string folder = "/proc/" + std::to_string(pid_) + "/fd";
      std::error_code error;
      for (const auto& file : std::filesystem::directory_iterator(folder, error)) {
        if (std::filesystem::read_symlink(file.path(), error) == "anon_inode:inotify") return true;
      }
      return false;
    });
  }

  Finished Wait() {
    Finished finished;
    finished.out = output_.is_open() ? ReadToEnd(output_.number()) : "";
    int status = 0;
    waitpid(std::exchange(pid_, -1), &status, 0);
    finished.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    lseek(errors_.number(), 0, SEEK_SET);
    finished.err = ReadToEnd(errors_.number());
    finished.took = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - start_);
    return finished;
  }

 private:
  static std::array<int, 2> Pipe() {
    std::array<int, 2> ends{};
    EXPECT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
    return ends;
  }

  // Runs in the child after fork: only system calls are allowed, because the test's other threads do not exist here.
  [[noreturn]] void Execute(const std::string& program, char* const* environment, int output) const {
    dup2(stdin_, STDIN_FILENO);
    dup2(output, STDOUT_FILENO);
    dup2(errors_.number(), STDERR_FILENO);
    std::array<char*, 2> arguments = {const_cast<char*>(program.c_str()), nullptr};
    execve(program.c_str(), arguments.data(), environment);
    _exit(127);
  }

  void StartUnderParent(const std::string& program, char* const* environment, int output) {
    prctl(PR_SET_CHILD_SUBREAPER, 1);  // so that this process can wait for the orphan
    const auto [pid_reader, pid_writer] = Pipe();
    const Descriptor reader(pid_reader);
    const Descriptor writer(pid_writer);
    parent_ = fork();
    if (parent_ == 0) {
      const pid_t child = fork();
      if (child == 0) Execute(program, environment, output);
      if (write(pid_writer, &child, sizeof(child)) != sizeof(child)) _exit(1);
      pause();
      _exit(0);
    }
    EXPECT_EQ(read(pid_reader, &pid_, sizeof(pid_)), static_cast<ssize_t>(sizeof(pid_)));
  }

  static std::string ReadToEnd(int descriptor) {
    std::string text;
    std::array<char, 65536> chunk{};
    for (ssize_t count = read(descriptor, chunk.data(), chunk.size()); count > 0;
         count = read(descriptor, chunk.data(), chunk.size())) {
      text.append(chunk.data(), static_cast<std::size_t>(count));
    }
    return text;
  }

  std::chrono::steady_clock::time_point start_;
  Descriptor errors_;
  Descriptor output_;
  int stdin_ = -1;
  pid_t pid_ = -1;
  pid_t parent_ = -1;
};

// Runs one call from start to end.
inline Finished RunBerth(const std::string& verb, const std::string& configuration) {
  return PluginProcess({.variables = CallVariables(verb), .input = configuration}).Wait();
}

// The JSON object that a failed call prints.
inline nlohmann::json ErrorOf(const Finished& finished) {
  EXPECT_EQ(finished.status, EXIT_FAILURE) << finished.out;
  nlohmann::json object = nlohmann::json::parse(finished.out, nullptr, false);
  EXPECT_TRUE(object.is_object()) << finished.out;
  return object;
}

}  // namespace berth::cni_plugin
