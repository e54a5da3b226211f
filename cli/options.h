// SPDX-License-Identifier: Apache-2.0
// Options: the command line of berthctl.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "cli/show.h"

namespace berth::cli {

enum class Command : std::uint8_t {
  kShowPools,
  kShowBlocks,
  kShowAddresses,
  kShowNodes,
  kShowMap,
  kWho,
  kWhy,
  kCheck,
  kRelease
};

struct Options {
  Command command = Command::kShowPools;
  std::string kubeconfig = {};  // empty: KUBECONFIG, or ~/.kube/config
  std::string context = {};     // empty: the kubeconfig's
  Format format = Format::kTable;
  std::string colour = "auto";              // auto, always, never
  std::string pool = {};                    // show: of this pool only; empty: all
  std::string html = {};                    // show map: a file for a web page; "-" is stdout; empty: text
  std::string who = {};                     // who: an address or a pod
  std::string pod = {};                     // why: a pod
  std::chrono::seconds settle{15};          // check: between the two looks
  std::string netns = {};                   // check: a folder of network namespaces; empty: none are looked at
  std::string node = {};                    // check: whose they are
  std::vector<std::string> addresses = {};  // release
  std::string report = {};                  // release: a file of `check -o json`; "-" is stdin
  std::string space = {};                   // release
  bool is_sure = false;                     // release
};

// The program ends at once: after --help, --version or without arguments with 0, after a mistake with 2.
struct Exit {
  int code = 0;
};

// Prints help and mistakes, `version` for --version, and without arguments where to begin.
[[nodiscard]] std::variant<Options, Exit> ParseOptions(int argc, const char* const* argv, const std::string& version);

}  // namespace berth::cli
