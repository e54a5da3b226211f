// SPDX-License-Identifier: Apache-2.0
// Network namespaces of containers. containerd and CRI-O keep each network namespace as a file with a unique name in a
// folder `netns`, usually /run/netns. The file exists from before the first ADD until the last DEL was answered. While
// the file exists, the container may use its addresses.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace berth::node {

// The file name in the path CNI_NETNS. Empty: the file is not in a folder `netns` (for example /proc/<pid>/ns/net), or
// its name is not a plain name.
[[nodiscard]] std::string NetnsName(std::string_view cni_netns);

enum class NetnsState : std::uint8_t {
  kThere,
  kGone,     // the folder can be read, and does not have the file
  kUnknown,  // for example, the folder is not mounted
};
// Looks for the file `name` in `folder`. If `name` is not a plain name, the result is kGone: no entry has such a name.
[[nodiscard]] NetnsState LookForNetns(const std::string& folder, const std::string& name);

}  // namespace berth::node
