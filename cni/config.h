// SPDX-License-Identifier: Apache-2.0
// NetworkConfig: the parts that berth reads of the network configuration on stdin. Stdin has the interface plugin's
// whole configuration, whose section `ipam` is for berth.
//
// berth reads a configuration like the reference libraries do: keys may have any letter case, the last of duplicate
// keys counts, null counts as absent, and unknown keys are ignored. ParseConfig refuses a byte order mark, trailing
// bytes and anything but one JSON object (docs/cni.md). It checks the limits of depth, size and number of values while
// it parses, so no input can exhaust the process's memory or stack.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/error.h"
#include "cni/args.h"
#include "cni/environment.h"
#include "cni/version.h"
#include "ipam/address.h"
#include "ipam/pool.h"

namespace berth::cni {

// ParseConfigTree refuses a longer input, so a reader of stdin may stop after this many bytes plus one.
inline constexpr std::size_t kConfigBytesMax = std::size_t{64} << 20;

// The parser keeps only those of the runtime's pod annotations whose names have this prefix.
inline constexpr std::string_view kAnnotationPrefix = "ipam.berth.dev/";

// When an agent has loaded its blocks, it creates a file with the path of its socket plus this suffix. A reboot removes
// the file with /run. If the file is missing, no agent of that socket has loaded its blocks since the node booted.
inline constexpr std::string_view kLoadedMarkSuffix = ".loaded";

enum class LogLevel : std::uint8_t { kError, kWarn, kInfo, kDebug };

// The section `ipam`. Paths are absolute, because the working directory depends on the runtime.
struct IpamConfig {
  std::vector<std::string> pools;                  // in order, without duplicates; empty: an annotation must name pools
  std::string kubeconfig;                          // empty: the kubelet's kubeconfig
  std::string node_name;                           // empty: from the kubeconfig's user, else the host's name
  std::chrono::seconds timeout{25};                // 1 to 600
  std::optional<std::vector<ipam::Route>> routes;  // if given, replace the routes of the pools
  std::optional<ipam::Dns> dns;                    // if given, replaces the `dns` of the pools
  std::string resolv_conf;  // file with the `dns` to use if `dns` is absent (resolv_conf.h); empty: none
  std::string state_dir = "/var/lib/berth";
  std::string agent_socket = "/run/berth/agent.sock";
  std::string log_file;  // empty: stderr
  LogLevel log_level = LogLevel::kInfo;

  friend bool operator==(const IpamConfig&, const IpamConfig&) = default;
};

// An address of prevResult.
struct PreviousAddress {
  ipam::Address address;
  std::optional<ipam::Address> gateway;
  friend bool operator==(const PreviousAddress&, const PreviousAddress&) = default;
};

struct ValidAttachment {
  std::string container_id;
  std::string ifname;
  friend auto operator<=>(const ValidAttachment&, const ValidAttachment&) = default;
};

struct NetworkConfig {
  Version version = Version::k0_1_0;
  std::string name;
  IpamConfig ipam;

  // ADD and CHECK. "address[/length]", not parsed; see RequestedAddresses.
  std::vector<std::string> runtime_ips;  // runtimeConfig.ips
  std::vector<std::string> args_ips;     // args.cni.ips
  // ADD and CHECK. The annotations with kAnnotationPrefix from runtimeConfig's member
  // io.kubernetes.cri.pod-annotations.
  std::map<std::string, std::string> annotations;
  // CHECK only; prevResult is required there.
  std::vector<PreviousAddress> previous;
  // GC only. nullopt: the caller sent no list, so GC must not free any address. Empty: no attachment is valid.
  std::optional<std::vector<ValidAttachment>> valid_attachments;

  friend bool operator==(const NetworkConfig&, const NetworkConfig&) = default;
};

// A network configuration from stdin or from a forwarded body, with at least the members that the verb reads.
// ParseConfig reads it, and MakeForwardedBody sends it to the agent. Functions with a parameter of this type require
// that it is not null.
using ConfigTree = std::shared_ptr<const nlohmann::ordered_json>;

// Requires: like ParseConfig. Errors: kDecode: not JSON, or over one of the limits.
[[nodiscard]] Expected<ConfigTree> ParseConfigTree(std::string_view bytes, Verb verb);

// Requires: `verb` reads stdin: ADD, DEL, CHECK, GC, STATUS.
//
// DEL and GC ignore pools, routes, dns, runtimeConfig, args and prevResult, even if these have errors. If `ipam` is
// missing, DEL and GC use the defaults. ADD ignores prevResult. Errors, in the order in which ParseConfig checks them:
//   kDecode               not one JSON object; cniVersion or `name` is not a string
//   kInvalid              `name` is missing or malformed
//   kIncompatibleVersion  cniVersion is not supported, or does not have the verb yet; kDecode if the verb is CHECK, GC
//                         or STATUS and cniVersion is not a version number
//   kDecode               another member has a value of the wrong JSON type (the message names the field)
//   kInvalid              a value breaks a rule; `ipam` is missing; prevResult is missing (CHECK)
//   kIncompatibleVersion  prevResult has another cniVersion (CHECK)
// ParseConfig checks the last three rows of this table together, member by member, and returns the first error.
[[nodiscard]] Expected<NetworkConfig> ParseConfig(const ConfigTree& tree, Verb verb);
// Calls ParseConfigTree, then ParseConfig.
[[nodiscard]] Expected<NetworkConfig> ParseConfig(std::string_view bytes, Verb verb);

// The cniVersion of an error object: the configuration's version (0.1.0 if absent) if it can be read and is supported,
// otherwise the newest.
[[nodiscard]] Version VersionForErrors(const ConfigTree& tree);
[[nodiscard]] Version VersionForErrors(std::string_view bytes);

// The addresses that this call requests, from the first of these sources that has any: runtimeConfig, args.cni,
// CNI_ARGS. At most one address of each family. A length after "/" must be valid for the family, but has no effect,
// because the result has the pool's prefix length.
// Errors: kInvalid (kEnvironment if the source is CNI_ARGS): an address is malformed, or two have the same family.
[[nodiscard]] Expected<std::vector<ipam::Address>> RequestedAddresses(const NetworkConfig& config, const Args& args);

// Parses addresses that are separated by commas, without blanks, such as an annotation's value. Errors: kInvalid: an
// address is malformed, or two have the same family.
[[nodiscard]] Expected<std::vector<ipam::Address>> ParseAddressList(std::string_view text);

}  // namespace berth::cni
