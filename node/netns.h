// SPDX-License-Identifier: Apache-2.0
// Network namespaces of containers. containerd and CRI-O keep each as a file in a folder `netns`, mostly /run/netns,
// with a name of its own, from before the first ADD until the last DEL was answered. So the file says that the
// container may use its addresses.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace berth::node {

// The file's name, of what CNI_NETNS says; empty: it lies in no folder of that name, as a process's namespace does not.
[[nodiscard]] std::string NetnsName(std::string_view cni_netns);

enum class NetnsState : std::uint8_t {
  kThere,
  kGone,     // the folder can be read, and has no such file
  kUnknown,  // as where the folder was not mounted
};
// A name that is not plain counts as gone: no entry ever recorded one.
[[nodiscard]] NetnsState LookForNetns(const std::string& folder, const std::string& name);

}  // namespace berth::node
