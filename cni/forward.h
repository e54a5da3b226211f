// SPDX-License-Identifier: Apache-2.0
// ForwardedCall: one CNI call as it goes from `berth`, which the runtime executes, to the node agent
// (docs/agent-protocol.md).
//
// A JSON object. Of stdin it carries what the verb reads and nothing else: a runtime may put 20 MB of other plugins'
// configuration there, and the agent has a small, fixed memory for all callers together.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "cni/config.h"
#include "cni/environment.h"
#include "ipam/pool.h"

namespace berth::cni {

// Larger ones are refused on both sides. One attachment in the list of a GC takes about 110 bytes.
inline constexpr std::size_t kForwardedBytesMax = std::size_t{4} << 20;
// A body with more values is refused by the agent, which has 64 MiB: a tree takes up to 130 bytes for each. The largest
// list of a GC has three values for each attachment.
inline constexpr std::size_t kForwardedValuesMax = 150'000;

struct ForwardedCall {
  // netns_override does not travel: only the process that the runtime started can compare namespaces, and has done so.
  Environment environment;
  ConfigTree config;               // ParseConfig gives for it what it gave for stdin
  std::int64_t started_nanos = 0;  // CLOCK_BOOTTIME, when the process that the runtime started began
};

// The body of a request. `call.config`: what ParseConfigTree has made of stdin for this verb, or, for a DEL, for
// another. `dns`: what ipam.resolvConf holds, a file that the agent cannot see; it is put in place of ipam.dns.
// Errors: kInvalid: more than kForwardedBytesMax.
[[nodiscard]] Expected<std::string> MakeForwardedBody(const ForwardedCall& call,
                                                      const std::optional<ipam::Dns>& dns = std::nullopt);

// Whether MakeForwardedBody has made the body for that verb, without parsing it: to tell what is urgent before there is
// time for more. What a person has written may be called for a verb without this saying so.
[[nodiscard]] bool BeginsWithVerb(std::string_view body, Verb verb);

// The agent's side. Nothing is taken on trust: the variables are checked as they are in the environment.
// Errors: kDecode, kInvalid: the body; kEnvironment: the variables, or a verb that needs no agent.
[[nodiscard]] Expected<ForwardedCall> ParseForwardedCall(std::string_view body);

}  // namespace berth::cni
