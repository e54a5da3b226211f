// SPDX-License-Identifier: Apache-2.0
// AgentCall: one CNI call that `berth` sends to the node agent. AgentCall decides when `berth` sends the call, when it
// repeats the call, and when it frees the addresses that an ADD got.
//
// `berth` sends an ADD at most once. `berth` then sends a DEL if it does not know whether the agent served the ADD, or
// if it cannot print the answer and this ADD gave the attachment all of its addresses. `berth` sends DEL, CHECK, GC and
// STATUS a second time if the first attempt fails and time is left, because these calls may be repeated without harm.
// If no agent listens in time, `berth` stores a DEL on disk for the next agent.
#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"
#include "cni-plugin/agent_answer.h"
#include "cni-plugin/caller.h"
#include "cni-plugin/deadline.h"
#include "cni-plugin/plugin.h"

namespace berth::cni_plugin {

class AgentCall {
 public:
  // `caller` must outlive this object. `started_nanos`: CLOCK_BOOTTIME at the start of this process.
  AgentCall(PluginCall call, const Caller& caller, std::int64_t started_nanos);

  // Serves the call, prints the answer, and returns the exit status.
  [[nodiscard]] int Serve();

 private:
  // Sends a DEL, because this ADD may have got addresses. Reports failures only on stderr, because the runtime's own
  // DEL or the controller can still free the addresses.
  void TakeBack() const;
  [[nodiscard]] Expected<std::string> MakeBody() const;
  [[nodiscard]] Expected<std::string> MakeTakeBackBody() const;
  // Errors: kUnknownOutcome: the agent may have served the call, or may still serve it. After any other error of an
  // ADD, `berth` has sent no byte of the ADD. For other verbs the error is that of the second attempt, so the agent may
  // have served the first attempt.
  [[nodiscard]] Expected<AgentAnswer> Ask(const std::string& body) const;
  [[nodiscard]] Expected<AgentAnswer> NotConnected(int error) const;
  // Called if no agent listens. A STATUS succeeds if an agent has loaded its blocks since the node booted. A DEL goes
  // to an agent that has started to listen meanwhile, or otherwise into the queue (node/del_queue.h). All other calls
  // fail.
  [[nodiscard]] Expected<AgentAnswer> WithoutAgent(const std::string& body, int error) const;
  // Returns the exit status. Errors: kUnknownOutcome: the answer is not a CNI result or error.
  [[nodiscard]] Expected<int> Print(const AgentAnswer& answer) const;
  [[nodiscard]] int Fail(Error error) const;
  [[nodiscard]] bool Is(cni::Verb verb) const { return call_.environment.verb == verb; }
  [[nodiscard]] const std::string& Socket() const { return call_.config.ipam.agent_socket; }

  PluginCall call_;
  const Caller& caller_;
  std::int64_t started_nanos_;
  Expected<std::string> take_back_body_;  // only for an ADD
  Deadline last_connect_;                 // time limit of connecting; the wait for an agent also ends after 10 s
  Deadline end_;                          // time limit of everything but TakeBack
};

}  // namespace berth::cni_plugin
