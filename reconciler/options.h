// SPDX-License-Identifier: Apache-2.0
// Options: the command line of berth-controller.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "http/http_probe.h"
#include "reconciler/decide.h"

namespace berth::reconciler {

struct Options {
  std::string kubeconfig;  // empty: the pod's service account
  std::string lease_namespace = "berth-system";
  std::string lease_name = "berth-controller";
  bool elects_leader = true;
  Settings settings = {.reclaim = Reclaim::kOn, .keeps_allocations = true, .counts = true};
  std::string health_address;       // host:port; empty: no endpoint
  std::string probe_socket;         // a UNIX socket that serves the same paths; empty: none
  std::uint16_t extender_port = 0;  // 0: no extender
  std::string extender_cert;
  std::string extender_key;
  std::string extender_client_ca;  // empty: the extender answers every caller
  std::string extender_address;    // IP address at which the scheduler reaches this controller
  std::string extender_resources = "ipv4";
  std::string log_level = "info";
  bool logs_json = false;
};

// The program ends at once: with 0 after --help or --version, with 2 after a mistake in the arguments.
struct Exit {
  int code = 0;
};

// Options: run as a controller. ProbeOptions: ask another controller. Exit: do neither. Prints help and mistakes, and
// `version` for --version.
[[nodiscard]] std::variant<Options, http::ProbeOptions, Exit> ParseOptions(int argc, const char* const* argv,
                                                                           const std::string& version);

}  // namespace berth::reconciler
