// SPDX-License-Identifier: Apache-2.0
// Kubeconfig: turns kubeconfig files into one ClientConfig, by the rules of client-go.
//
// If several files have the same cluster, user or context, or set current-context, the first file wins, with its whole
// entry and not field by field. Relative paths start at the folder of their file. Inline data wins over a path, and
// tokenFile wins over token. Format: kubernetes.io/docs/reference/config-api/kubeconfig.v1.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "k8sclient/client_config.h"

namespace berth::k8sclient {

// The paths in a KUBECONFIG variable, separated by colons. Leaves out empty paths and repetitions.
[[nodiscard]] std::vector<std::string> SplitKubeconfigList(const std::string& variable);

// `context`: empty for the files' current-context. Skips files that cannot be read, if at least one file can be read.
//
// Errors: kDecode, with file, field and remedy, also if no file can be read.
[[nodiscard]] Expected<ClientConfig> LoadKubeconfig(const std::vector<std::string>& paths, const std::string& context,
                                                    const ReadFile& read_file);

}  // namespace berth::k8sclient
