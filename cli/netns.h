// SPDX-License-Identifier: Apache-2.0
// Netns: the addresses that are configured in the network namespaces of a node's pods. Comparing them with the entries
// shows errors that the entries alone cannot show.
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
  std::string netns = {};  // name of the network namespace's file
};

// The addresses in each network namespace that has a file in the folder, except addresses of loopback interfaces, IPv6
// link-local addresses, and addresses in namespaces that end meanwhile. Blocks until all are read. The calling thread
// stays in its own namespace. Errors: kIo: the folder cannot be read, or a namespace cannot be opened, entered (this
// needs CAP_SYS_ADMIN) or read.
[[nodiscard]] Expected<std::vector<Configured>> ReadConfigured(const std::string& folder);

// Findings, sorted. "duplicate": several namespaces have the same address, and fewer spaces than namespaces have an
// entry of the node for this address. "not-recorded": a namespace has an address of a block, and the node has no entry
// for it. "not-configured": a running pod of the node has an entry, but no namespace has the entry's address.
// Errors: kInvalid: the Node does not exist; or running pods of the node have several entries, but no namespace has any
// of the entries' addresses: then the folder belongs to another node, or does not belong to a runtime.
[[nodiscard]] Expected<std::vector<Finding>> CheckConfigured(const Inventory& inventory,
                                                             const std::vector<Configured>& configured,
                                                             const std::string& node);

}  // namespace berth::cli
