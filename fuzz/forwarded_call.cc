// SPDX-License-Identifier: Apache-2.0
// Forwarded calls: if a call is understood and written as a body again, the body is understood as the same call.
#include "base/check.h"
#include "cni/config.h"
#include "cni/forward.h"
#include "fuzz/target.h"

namespace berth::fuzz {

void RunForwardedCall(std::string_view bytes) {
  for (const cni::Verb verb : {cni::Verb::kAdd, cni::Verb::kDel}) {
    static_cast<void>(cni::BeginsWithVerb(bytes, verb));
  }
  const auto call = cni::ParseForwardedCall(bytes);
  if (!call) return;
  // The agent does the same if it cannot parse the configuration of a call.
  if (!cni::ParseConfig(call->config, call->environment.verb)) static_cast<void>(cni::VersionForErrors(call->config));
  const auto body = cni::MakeForwardedBody(*call);
  if (!body) return;  // the new body may be longer than the agent accepts
  const auto again = cni::ParseForwardedCall(*body);
  BERTH_CHECK(again.has_value());
  BERTH_CHECK(again->environment == call->environment);
  BERTH_CHECK(again->started_nanos == call->started_nanos);
}

}  // namespace berth::fuzz
