// SPDX-License-Identifier: Apache-2.0
// ForwardedCall: one CNI call that `berth`, which the runtime executes, sends to the node agent
// (docs/agent-protocol.md).
//
// The body is a JSON object. From stdin it contains only the members that the verb reads: a runtime may pass 20 MB of
// other plugins' configuration, and the agent has a small, fixed memory for all callers.
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

// `berth` and the agent refuse a body with more bytes or JSON values: the agent reads up to 56 calls at the same time
// in 64 MiB of memory, and one value of the parsed body takes up to 130 bytes. GCs are rare, and the list of a GC has
// about 110 bytes and three values for each attachment of the node.
struct ForwardedLimits {
  std::size_t bytes;
  std::size_t values;
};
[[nodiscard]] constexpr ForwardedLimits LimitsOf(Verb verb) {
  if (verb == Verb::kGc) return {.bytes = std::size_t{4} << 20, .values = 150'000};
  return {.bytes = std::size_t{64} << 10, .values = 2'000};
}

struct ForwardedCall {
  // The body does not contain netns_override: only the process that the runtime started can compare network namespaces,
  // and it has done so.
  Environment environment;
  // ParseConfig returns the same result for this tree as for stdin. Exception: for a DEL, only timeoutSeconds is the
  // same in the section `ipam`.
  ConfigTree config;
  std::int64_t started_nanos = 0;  // CLOCK_BOOTTIME at the start of the process that the runtime executes
};

// The body of a request. `call.config`: the result of ParseConfigTree for the call's verb. For a DEL, it may be the
// result for another verb: after a failed ADD, `berth` sends a DEL with the ADD's configuration. `dns`: the content of
// the file ipam.resolvConf, which the agent cannot see; it replaces ipam.dns.
// Errors: kInvalid: the body is larger than LimitsOf(verb) allows.
[[nodiscard]] Expected<std::string> MakeForwardedBody(const ForwardedCall& call,
                                                      const std::optional<ipam::Dns>& dns = std::nullopt);

// True if `body` begins as MakeForwardedBody writes it for `verb`. Does not parse the body, so the agent can find
// urgent calls early. If a person has written the body, the result may be false although the body is a call with
// `verb`.
[[nodiscard]] bool BeginsWithVerb(std::string_view body, Verb verb);

// The agent calls ParseForwardedCall, which checks the variables like ParseEnvironment, because the agent trusts no
// caller. Errors: kDecode, kInvalid: the body; kEnvironment: the variables, or a verb that needs no agent.
[[nodiscard]] Expected<ForwardedCall> ParseForwardedCall(std::string_view body);

}  // namespace berth::cni
