// SPDX-License-Identifier: Apache-2.0
// berth-direct: the CNI IPAM plugin that talks to the API server itself. Reads one call from the environment and stdin,
// prints one JSON document or nothing, and exits.
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>
#include <string_view>

#include "cni-plugin/call_log.h"
#include "cni-plugin/direct_call.h"
#include "cni-plugin/netns.h"
#include "cni/config.h"
#include "cni/environment.h"
#include "cni/error.h"
#include "cni/version.h"

namespace berth::cni_plugin {
namespace {

using ipam::ErrorCode;
using ipam::Expected;

Expected<std::string> ReadAll(int descriptor, std::size_t bytes_max) {
  std::string text;
  constexpr std::size_t kStep = std::size_t{64} << 10;
  while (text.size() <= bytes_max) {
    const std::size_t before = text.size();
    text.resize(before + kStep);
    const ssize_t count = read(descriptor, text.data() + before, kStep);
    text.resize(before + static_cast<std::size_t>(count > 0 ? count : 0));
    if (count == 0) return text;
    if (count < 0 && errno != EINTR) {
      return ipam::Fail(ErrorCode::kIo, std::string("read the network configuration from stdin: ") + std::strerror(errno));
    }
  }
  return text;
}

Expected<void> WriteAll(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = write(descriptor, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return ipam::Fail(ErrorCode::kIo, std::string("write the answer to stdout: ") + std::strerror(errno));
    text.remove_prefix(static_cast<std::size_t>(count));
  }
  return {};
}

int PrintError(const ipam::Error& error, cni::Version version) {
  static_cast<void>(WriteAll(STDOUT_FILENO, cni::ErrorJson(error, version) + "\n"));
  return EXIT_FAILURE;
}

// What is to be printed; empty for verbs that print nothing.
Expected<std::string> Serve(DirectCall& call, cni::Verb verb) {
  const auto silent = [](const Expected<void>& outcome) -> Expected<std::string> {
    if (!outcome) return std::unexpected(outcome.error());
    return std::string();
  };
  switch (verb) {
    case cni::Verb::kAdd:
      return call.Add();
    case cni::Verb::kDel:
      return silent(call.Del());
    case cni::Verb::kCheck:
      return silent(call.Check());
    case cni::Verb::kGc:
      return silent(call.Gc());
    case cni::Verb::kStatus:
      return silent(call.Status());
    case cni::Verb::kAbout:
    case cni::Verb::kVersion:
      break;
  }
  return ipam::Fail(ErrorCode::kInternal, "this verb needs no call");
}

int RunCall(const cni::Environment& environment, node::BootNanos started) {
  const auto bytes = ReadAll(STDIN_FILENO, cni::kConfigBytesMax);
  if (!bytes) return PrintError(bytes.error(), cni::kNewestVersion);
  const auto config = cni::ParseConfig(*bytes, environment.verb);
  if (!config) return PrintError(config.error(), cni::VersionForErrors(*bytes));
  CallLog log(config->ipam.log_file, config->ipam.log_level);
  const auto fail = [&](const ipam::Error& error) {
    log.Failed(environment, *config, error);
    return PrintError(error, config->version);
  };
  if (auto netns = CheckNetns(environment); !netns) return fail(netns.error());
  auto call = DirectCall::Make(environment, *config, started);
  if (!call) {
    ipam::Error error = call.error();
    if (environment.verb == cni::Verb::kStatus) error.code = ErrorCode::kNotReady;
    return fail(error);
  }
  const auto text = Serve(**call, environment.verb);
  if (!text) return fail(text.error());
  if (text->empty()) {
    log.Succeeded(environment, *config, (*call)->node(), (*call)->attachment(), *text);
    return EXIT_SUCCESS;
  }
  if (auto printed = WriteAll(STDOUT_FILENO, *text + "\n"); !printed) {
    log.Failed(environment, *config, printed.error());
    if (auto taken_back = (*call)->TakeBackAdd(); !taken_back) log.Failed(environment, *config, taken_back.error());
    return EXIT_FAILURE;
  }
  (*call)->AnswerDelivered();
  log.Succeeded(environment, *config, (*call)->node(), (*call)->attachment(), *text);
  return EXIT_SUCCESS;
}

int Run(node::BootNanos started) {
  const auto environment = cni::ParseEnvironment([](const char* name) { return std::getenv(name); });
  if (!environment) return PrintError(environment.error(), cni::kNewestVersion);
  if (environment->verb == cni::Verb::kAbout) {
    static_cast<void>(WriteAll(STDERR_FILENO, cni::AboutText("berth-direct")));
    return EXIT_SUCCESS;
  }
  if (environment->verb == cni::Verb::kVersion) {
    const auto printed = WriteAll(STDOUT_FILENO, cni::VersionAnswer() + "\n");
    return printed ? EXIT_SUCCESS : PrintError(printed.error(), cni::kNewestVersion);
  }
  return RunCall(*environment, started);
}

}  // namespace
}  // namespace berth::cni_plugin

int main() {
  const berth::node::BootNanos started = berth::node::BootTimeNow();
  // A reader that is gone is an error of write(2), after which the address is given back.
  std::signal(SIGPIPE, SIG_IGN);
  try {
    return berth::cni_plugin::Run(started);
  } catch (const std::exception& e) {
    // Out of memory, in the main: nothing below throws on purpose.
    const berth::ipam::Error error{.code = berth::ipam::ErrorCode::kInternal, .message = e.what()};
    return berth::cni_plugin::PrintError(error, berth::cni::kNewestVersion);
  }
}
