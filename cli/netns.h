// SPDX-License-Identifier: Apache-2.0
// Netns: the addresses that are really configured on a node, in the network namespaces of its pods. What the record
// says is compared with them: the one can be wrong without the other.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "cli/check.h"
#include "cli/inventory.h"
#include "ipam/address.h"

namespace berth::cli {

struct Configured {
  ipam::Address address = {};
  std::string netns = {};  // the name of its file
};

// The addresses in every network namespace that has a file in the folder, loopback and link-local ones left out.
// Namespaces that go meanwhile are left out too. Blocks for as long as it takes; the calling thread stays where it is.
// Errors: kIo: the folder cannot be read, or a namespace not be entered (that takes CAP_SYS_ADMIN).
[[nodiscard]] Expected<std::vector<Configured>> ReadConfigured(const std::string& folder);

// What is wrong about them, sorted: an address of a block that two namespaces have, unless two address spaces record
// it; one that no entry of the node is for; an entry of a running pod of the node of which no namespace has the
// address. Errors: kInvalid: there is no such node; no namespace has any of several such addresses, so it is another
// node's folder, or none of a runtime.
[[nodiscard]] Expected<std::vector<Finding>> CheckConfigured(const Inventory& inventory,
                                                             const std::vector<Configured>& configured,
                                                             const std::string& node);

}  // namespace berth::cli
