// SPDX-License-Identifier: Apache-2.0
// Kubeconfig: from the files to one ClientConfig, by the rules of client-go.
//
// Several files: the first that names a cluster, user or context, or sets current-context, wins; each whole entry, not
// field by field. Relative paths start at the folder of the file they stand in. Inline data wins over a path, tokenFile
// over token. Format: kubernetes.io/docs/reference/config-api/kubeconfig.v1.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "k8sclient/client_config.h"

namespace berth::k8sclient {

// The files in a KUBECONFIG variable: separated by colons, empty ones and repetitions left out.
[[nodiscard]] std::vector<std::string> SplitKubeconfigList(const std::string& variable);

// context: empty for the files' current-context.
//
// Errors: kDecode, with file, field and remedy, also when a file cannot be read. Of several files those that cannot be
// read are skipped as long as one can.
[[nodiscard]] Expected<ClientConfig> LoadKubeconfig(const std::vector<std::string>& paths, const std::string& context,
                                                    const ReadFile& read_file);

}  // namespace berth::k8sclient
