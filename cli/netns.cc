// SPDX-License-Identifier: Apache-2.0
// Reads addresses in network namespaces, and compares them with entries.
#include "cli/netns.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <ifaddrs.h>
#include <map>
#include <net/if.h>
#include <netdb.h>
#include <sched.h>
#include <set>
#include <sys/socket.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace berth::cli {

namespace {

// Returns nullopt for an address that berth never gives to a pod: a loopback address, an IPv6 link-local address, or an
// address of another family than IPv4 and IPv6.
std::optional<ipam::Address> AddressOf(const ifaddrs& one) {
  if (one.ifa_addr == nullptr || (one.ifa_flags & IFF_LOOPBACK) != 0) return std::nullopt;
  const int family = one.ifa_addr->sa_family;
  if (family != AF_INET && family != AF_INET6) return std::nullopt;
  std::array<char, NI_MAXHOST> text{};
  const socklen_t size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  if (getnameinfo(one.ifa_addr, size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) != 0) return std::nullopt;
  // The text of a link-local address ends with its interface ("%eth0"), so Parse refuses it.
  const auto address = ipam::Address::Parse(text.data());
  return address ? std::optional(*address) : std::nullopt;
}

// Reads the addresses in the network namespace of the calling thread.
Expected<void> AppendConfigured(const std::string& netns, std::vector<Configured>& into) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) {
    return Fail(ErrorCode::kIo, "read the addresses in " + netns + ": " + std::strerror(errno));
  }
  for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
    if (const auto address = AddressOf(*one)) into.push_back({.address = *address, .netns = netns});
  }
  freeifaddrs(list);
  return {};
}

// The namespaces that were read already: several files may show the same namespace.
using Inodes = std::set<std::pair<dev_t, ino_t>>;

Expected<void> LookInto(const std::filesystem::path& file, Inodes& seen, std::vector<Configured>& into) {
  const int netns = open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (netns < 0 && errno == ENOENT) return {};
  if (netns < 0) return Fail(ErrorCode::kIo, "open " + file.string() + ": " + std::strerror(errno));
  struct stat is = {};
  const bool is_new = fstat(netns, &is) == 0 && seen.emplace(is.st_dev, is.st_ino).second;
  Expected<void> done;
  // Enter the namespace in a new thread, which ends there.
  std::thread([&] {
    if (!is_new) return;
    if (setns(netns, CLONE_NEWNET) == 0) {
      done = AppendConfigured(file.filename(), into);
    } else if (errno != EINVAL) {  // EINVAL: the file is not a network namespace any more
      done = Fail(ErrorCode::kIo,
                  "enter the network namespace " + file.string() + ": " + std::strerror(errno),
                  "run berthctl as root");
    }
  }).join();
  close(netns);
  return done;
}

std::string PodText(const ipam::HeldEntry& entry) { return entry.pod_namespace + "/" + entry.pod; }

}  // namespace

Expected<std::vector<Configured>> ReadConfigured(const std::string& folder) {
  std::error_code error;
  std::vector<Configured> configured;
  Inodes seen;
  std::filesystem::directory_iterator file(folder, error);
  for (; !error && file != std::filesystem::directory_iterator(); file.increment(error)) {
    if (const auto done = LookInto(file->path(), seen, configured); !done) return std::unexpected(done.error());
  }
  if (error) return Fail(ErrorCode::kIo, "read the folder " + folder + ": " + error.message());
  return configured;
}

Expected<std::vector<Finding>> CheckConfigured(const Inventory& inventory, const std::vector<Configured>& configured,
                                               const std::string& node) {
  if (!inventory.nodes.contains(node)) {
    return Fail(ErrorCode::kInvalid, "there is no Node " + Quoted(node), "see kubectl get nodes");
  }
  std::vector<Finding> findings;
  int running = 0;
  int missing = 0;
  std::map<ipam::Address, std::set<std::string>> where;
  for (const auto& [address, netns] : configured) where[address].insert(netns);
  // The spaces whose blocks have an entry for the address: two spaces may contain the same addresses.
  std::map<ipam::Address, std::set<std::string>> recorded;
  for (const Use& use : UsesOf(inventory)) {
    const ipam::HeldEntry* held = use.held();
    const bool may_be_here = use.node() == node || (use.block->shared() && held == nullptr);
    if (!may_be_here) continue;
    // A cooling entry does not count as recorded: no container should have its address. If a container with the address
    // is just ending, the second check does not report it (InBoth). An entry that cannot be parsed counts as held.
    if (held != nullptr || std::holds_alternative<ipam::OpaqueEntry>(use.entry)) {
      recorded[use.address()].insert(use.block->space);
    }
    const Pod* pod = held == nullptr ? nullptr : inventory.FindPod(held->pod_namespace, held->pod);
    const bool is_running = pod != nullptr && IsOf(*held, *pod) && pod->phase == "Running";
    running += is_running ? 1 : 0;
    if (!is_running || where.contains(use.address())) continue;
    ++missing;
    findings.push_back(
        {.kind = "not-configured",
         .object = "ipblock/" + use.block->name,
         .space = use.block->space,
         .address = use.address().ToString(),
         .message = "pod " + PodText(*held) + " runs on this node, but no network namespace has its address",
         .remedy = "restart the pod"});
  }
  if (missing > 1 && missing == running) {
    return Fail(ErrorCode::kInvalid,
                "none of the " + std::to_string(running) + " addresses of running pods of node " + node +
                    " is in these network namespaces",
                "run berthctl on the node that --node names, and give --netns the folder in which the runtime of this "
                "node keeps the network namespaces of pods");
  }
  for (const auto& [address, namespaces] : where) {
    const auto block = std::ranges::find_if(inventory.blocks, [&](const auto& b) { return b.cidr.Contains(address); });
    const std::size_t times = recorded[address].size();
    if (block == inventory.blocks.end() || namespaces.size() <= times) continue;
    const std::string& first = *namespaces.begin();
    const auto add = [&](std::string kind, std::string message, std::string remedy) {
      findings.push_back({.kind = std::move(kind),
                          .object = "ipblock/" + block->name,
                          .space = block->space,
                          .address = address.ToString(),
                          .message = std::move(message),
                          .remedy = std::move(remedy)});
    };
    if (namespaces.size() > 1) {
      add("duplicate",
          "the network namespaces " + first + " and " + *std::next(namespaces.begin()) + " both have this address",
          "restart one of the two pods");
    }
    if (times == 0) {
      add("not-recorded",
          "the network namespace " + first + " has this address, but no entry of node " + node + " is for this address",
          "restart the pod: until then, berth may give the address to another pod");
    }
  }
  std::ranges::sort(findings);
  return findings;
}

}  // namespace berth::cli
