// SPDX-License-Identifier: Apache-2.0
// Compares network namespaces by their files.
#include "cni-plugin/netns.h"

#include <sys/stat.h>

namespace berth::cni_plugin {

Expected<void> CheckNetns(const cni::Environment& environment) {
  const bool is_checked = environment.verb == cni::Verb::kAdd || environment.verb == cni::Verb::kDel;
  if (!is_checked || environment.netns_override || environment.netns.empty()) return {};
  struct stat own = {};
  struct stat container = {};
  if (stat("/proc/self/ns/net", &own) != 0 || stat(environment.netns.c_str(), &container) != 0) return {};
  if (own.st_dev != container.st_dev || own.st_ino != container.st_ino) return {};
  return Fail(ErrorCode::kInvalidNetns,
              "CNI_NETNS " + environment.netns + " and the plugin's network namespace should not be the same",
              "correct CNI_NETNS; if both shall be the same namespace, set CNI_NETNS_OVERRIDE=1");
}

}  // namespace berth::cni_plugin
