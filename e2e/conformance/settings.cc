// SPDX-License-Identifier: Apache-2.0
// Settings: reads the environment once.
#include "e2e/conformance/settings.h"

#include <cstdlib>
#include <stdexcept>

namespace berth::conformance {
namespace {

std::string Read(const char* name, const char* otherwise) {
  const char* const value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : otherwise;
}

std::string Require(const char* name) {
  std::string value = Read(name, "");
  if (value.empty()) throw std::runtime_error(std::string(name) + " is not set; run e2e/conformance.sh");
  return value;
}

Settings Load() {
  const std::string mode = Read("BERTH_MODE", "direct");
  if (mode != "direct" && mode != "agent") throw std::runtime_error("BERTH_MODE is neither direct nor agent");
  Settings settings;
  settings.plugin = Require("BERTH_PLUGIN");
  settings.mode = mode == "agent" ? Mode::kAgent : Mode::kDirect;
  settings.admin_kubeconfig = Require("BERTH_TEST_KUBECONFIG");
  settings.nodes_dir = Require("BERTH_TEST_NODES");
  settings.scratch_dir = Require("BERTH_TEST_SCRATCH");
  if (settings.mode == Mode::kAgent) settings.agent = Require("BERTH_AGENT");
  settings.shard = std::stoi(Read("GTEST_SHARD_INDEX", "0"));
  return settings;
}

}  // namespace

const Settings& Settings::Get() {
  static const Settings kSettings = Load();
  return kSettings;
}

std::string Settings::NodeName(int step) const {
  constexpr int kShardsMax = 10;
  return "n" + std::to_string(1 + shard % kShardsMax + step * kShardsMax);
}

}  // namespace berth::conformance
