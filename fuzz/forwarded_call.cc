// SPDX-License-Identifier: Apache-2.0
// Forwarded calls: what is understood, and made into a body again, is understood as the same.
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
  // As the agent does.
  if (!cni::ParseConfig(call->config, call->environment.verb)) static_cast<void>(cni::VersionForErrors(call->config));
  const auto body = cni::MakeForwardedBody(*call);
  if (!body) return;  // written anew, it may be longer than the agent takes
  const auto again = cni::ParseForwardedCall(*body);
  BERTH_CHECK(again.has_value());
  BERTH_CHECK(again->environment == call->environment);
  BERTH_CHECK(again->started_nanos == call->started_nanos);
}

}  // namespace berth::fuzz
