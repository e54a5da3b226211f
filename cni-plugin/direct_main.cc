// SPDX-License-Identifier: Apache-2.0
// berth-direct: the CNI IPAM plugin that calls the API server itself. It reads one call from the environment and stdin,
// prints one JSON document or nothing, and ends. It serves calls only in direct mode (docs/adr/0007).
#include <array>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/version.h"
#include "cni-plugin/call_log.h"
#include "cni-plugin/direct_call.h"
#include "cni-plugin/netns.h"
#include "cni-plugin/plugin.h"

namespace berth::cni_plugin {
namespace {

int ServeDirectly(const PluginCall& called, node::BootNanos started) {
  const cni::Environment& environment = called.environment;
  const cni::NetworkConfig& config = called.config;
  CallLog log(config.ipam.log_file, config.ipam.log_level);
  const auto fail = [&](const Error& error) {
    log.Failed(environment, config, error);
    return PrintError(error, config.version);
  };
  if (auto netns = CheckNetns(environment); !netns) return fail(netns.error());
  auto place = FindDirectPlace(config);
  if (!place) {
    Error error = place.error();
    if (environment.verb == cni::Verb::kStatus) error.code = ErrorCode::kNotReady;
    return fail(error);
  }
  DirectCall call(environment, config, started, *std::move(place));
  const auto text = call.Serve();
  if (!text) return fail(text.error());
  if (text->empty()) {
    log.Succeeded(environment, config, call.node(), call.attachment(), *text);
    return EXIT_SUCCESS;
  }
  if (auto printed = PrintAnswer(*text); !printed) {
    log.Failed(environment, config, printed.error());
    const auto taken_back = call.TakeBackAdd();
    if (!taken_back) log.Failed(environment, config, taken_back.error());
    return EXIT_FAILURE;
  }
  log.Succeeded(environment, config, call.node(), call.attachment(), *text);
  // Call AnswerDelivered last: until this process ends, the runtime may send a GC with a list that lacks this ADD.
  call.AnswerDelivered();
  return EXIT_SUCCESS;
}

}  // namespace
}  // namespace berth::cni_plugin

int main(int argc, char** argv) {  // NOLINT(misc-const-correctness): the standard declares it so
  const berth::node::BootNanos started = berth::node::BootTimeNow();
  constexpr std::array<std::string_view, 5> kPaths = {"kubeconfig", "resolvConf", "stateDir", "agentSocket", "logFile"};
  const berth::cni_plugin::Program program{
      .name = "berth-direct", .version = berth::kVersionAndCommit, .paths = kPaths};
  return berth::cni_plugin::RunPlugin(
      program, {argv, static_cast<std::size_t>(argc)}, [started](berth::cni_plugin::PluginCall call) {
        call.tree = nullptr;  // `config` has everything that is needed
        return berth::cni_plugin::ServeDirectly(call, started);
      });
}
