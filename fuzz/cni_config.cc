// SPDX-License-Identifier: Apache-2.0
// Network configurations for each verb, the paths that they contain, and the JSON of an error about them.
#include <array>
#include <string_view>

#include "base/check.h"
#include "cni/config.h"
#include "cni/error.h"
#include "cni/path_rules.h"
#include "fuzz/target.h"

namespace berth::fuzz {

namespace {
constexpr std::array<std::string_view, 5> kPaths = {"kubeconfig", "resolvConf", "stateDir", "agentSocket", "logFile"};
}  // namespace

void RunCniConfig(std::string_view bytes) {
  const cni::PathChecks checks{.more_rules = [](std::string_view) { return std::vector<cni::PathRule>{"/opt/"}; },
                               .fault = [](const cni::PathRule&, std::string_view) { return std::string(); }};
  for (const cni::Verb verb :
       {cni::Verb::kAdd, cni::Verb::kDel, cni::Verb::kCheck, cni::Verb::kGc, cni::Verb::kStatus}) {
    const auto config = cni::ParseConfig(bytes, verb);
    if (!config) {
      static_cast<void>(cni::ErrorJson(config.error(), cni::VersionForErrors(bytes)).size());
      continue;
    }
    BERTH_CHECK(*config == *cni::ParseConfig(bytes, verb));
    if (const auto checked = cni::CheckPaths(config->ipam, kPaths, checks); checked) {
      BERTH_CHECK(!config->ipam.log_file.contains("/../"));
    }
    static_cast<void>(cni::RequestedAddresses(*config, {}).has_value());
  }
}

}  // namespace berth::fuzz
