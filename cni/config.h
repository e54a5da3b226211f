// SPDX-License-Identifier: Apache-2.0
// NetworkConfig: what stdin holds: the interface plugin's whole network configuration, of which `ipam` is ours.
//
// Read as the reference libraries read it: keys in any letter case, the last duplicate wins, null is absent, unknown
// keys are ignored; a byte order mark, trailing bytes and anything but one JSON object are refused (docs/cni.md).
// Depth, size and number of values are bounded before anything is kept, so no input can exhaust the process.
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

// What a reader of stdin may stop at: one byte more is refused by ParseConfig.
inline constexpr std::size_t kConfigBytesMax = std::size_t{64} << 20;

// Annotations with this prefix are kept from what the runtime hands over.
inline constexpr std::string_view kAnnotationPrefix = "ipam.berth.dev/";

// The agent's socket's path and this: a file made by an agent that has loaded. It goes with /run: where there is none,
// no agent of that socket has loaded since the node has booted.
inline constexpr std::string_view kLoadedMarkSuffix = ".loaded";

enum class LogLevel : std::uint8_t { kError, kWarn, kInfo, kDebug };

// The section `ipam`. Paths are absolute: the working directory of a runtime is no place anybody knows.
struct IpamConfig {
  std::vector<std::string> pools;                  // in order, without duplicates; empty: an annotation must choose
  std::string kubeconfig;                          // empty: the kubelet's
  std::string node_name;                           // empty: from the kubeconfig's user, else the host's name
  std::chrono::seconds timeout{25};                // 1 to 600
  std::optional<std::vector<ipam::Route>> routes;  // where given, in place of those of the pools
  std::optional<ipam::Dns> dns;                    // where given, in place of that of the pools
  std::string resolv_conf;  // a file to take dns from where `dns` is absent (resolv_conf.h); empty: none
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
  std::string name;  // of the network
  IpamConfig ipam;

  // ADD and CHECK. "address[/length]", not parsed; see RequestedAddresses.
  std::vector<std::string> runtime_ips;  // runtimeConfig.ips
  std::vector<std::string> args_ips;     // args.cni.ips
  // ADD and CHECK. From runtimeConfig's io.kubernetes.cri.pod-annotations, those with kAnnotationPrefix.
  std::map<std::string, std::string> annotations;
  // CHECK only, where it is never absent.
  std::vector<PreviousAddress> previous;
  // GC only. Not given: nobody said what is valid, so nothing may be freed. Empty: nothing is valid.
  std::optional<std::vector<ValidAttachment>> valid_attachments;

  friend bool operator==(const NetworkConfig&, const NetworkConfig&) = default;
};

// A network configuration as it stands on stdin or in a body, with the members that the verb reads: what ParseConfig
// reads, and what goes on to the agent. Functions that take one require that it is not null.
using ConfigTree = std::shared_ptr<const nlohmann::ordered_json>;

// Requires: as ParseConfig. Errors: kDecode: not JSON, or beyond a bound.
[[nodiscard]] Expected<ConfigTree> ParseConfigTree(std::string_view bytes, Verb verb);

// Requires: verb is one that reads stdin: ADD, DEL, CHECK, GC, STATUS.
// DEL and GC read only what a release needs: they ignore pools, routes, dns, runtimeConfig, args and prevResult
// whatever these hold, and do without `ipam` as a whole (the defaults are then used). ADD ignores prevResult.
// Errors, in the order in which they are looked for:
//   kDecode               not one JSON object; a value of the wrong JSON type (the message names the field)
//   kInvalid              name missing or malformed
//   kIncompatibleVersion  cniVersion not supported, or the verb not defined in it; kDecode where CHECK, GC or STATUS
//                         meet a cniVersion that is no version at all
//   kInvalid              a value that breaks a rule; `ipam` missing; prevResult missing (CHECK)
[[nodiscard]] Expected<NetworkConfig> ParseConfig(const ConfigTree& tree, Verb verb);
// ParseConfigTree and the above.
[[nodiscard]] Expected<NetworkConfig> ParseConfig(std::string_view bytes, Verb verb);

// The version in which to report an error about a configuration: its own where that can be read and is supported, else
// the newest.
[[nodiscard]] Version VersionForErrors(const ConfigTree& tree);
[[nodiscard]] Version VersionForErrors(std::string_view bytes);

// The addresses that this call asks for: those of runtimeConfig, else of args.cni, else of CNI_ARGS; at most one of
// each family. A length after "/" must be a number that fits and has no other meaning: the pool's mask counts.
// Errors: kInvalid (kEnvironment where they came in CNI_ARGS): malformed, or two of one family.
[[nodiscard]] Expected<std::vector<ipam::Address>> RequestedAddresses(const NetworkConfig& config, const Args& args);

// The same for any other list, such as an annotation's value: comma-separated, blanks refused.
[[nodiscard]] Expected<std::vector<ipam::Address>> ParseAddressList(std::string_view text);

}  // namespace berth::cni
