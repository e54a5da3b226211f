// SPDX-License-Identifier: Apache-2.0
// Kubeconfigs: LoadKubeconfig reads no other file, even if the kubeconfig names files.
#include "k8sclient/kubeconfig.h"

#include "base/check.h"
#include "fuzz/target.h"
#include "k8sclient/url.h"

namespace berth::fuzz {

void RunKubeconfig(std::string_view bytes) {
  const auto read = [bytes](const std::string& path) -> Expected<std::string> {
    BERTH_CHECK(path == "/kubeconfig");
    return std::string(bytes);
  };
  const auto config = k8sclient::LoadKubeconfig({"/kubeconfig"}, "", read);
  if (!config) return;
  static_cast<void>(k8sclient::ParseServerUrl(config->server).has_value());
  static_cast<void>(k8sclient::ParseServerUrl(config->proxy_url).has_value());
}

}  // namespace berth::fuzz
