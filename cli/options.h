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
  std::string context = {};     // empty: the kubeconfig's current context
  Format format = Format::kTable;
  std::string colour = "auto";              // auto, always, never
  std::string pool = {};                    // show: only this pool; empty: all pools
  std::string html = {};                    // show map: file for a web page; "-": stdout; empty: text
  std::string who = {};                     // who: an address or a pod
  std::string pod = {};                     // why: a pod
  std::chrono::seconds settle{15};          // check: time between the two checks
  std::string netns = {};                   // check: folder of network namespaces; empty: do not compare them
  std::string node = {};                    // check: the node of these network namespaces
  std::vector<std::string> addresses = {};  // release: the addresses to release
  std::string report = {};                  // release: file with a report of `check -o json`; "-": stdin
  std::string space = {};                   // release: the space of `addresses`
  bool is_sure = false;                     // release: option --sure (Release::is_sure)
};

// The program ends at once: with code 0 after --help, --version or without arguments, with code 2 after a usage error.
struct Exit {
  int code = 0;
};

// Prints help, usage errors, and `version` for --version. Without arguments, prints how to begin.
[[nodiscard]] std::variant<Options, Exit> ParseOptions(int argc, const char* const* argv, const std::string& version);

}  // namespace berth::cli
