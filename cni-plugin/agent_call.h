// SPDX-License-Identifier: Apache-2.0
// AgentCall: one CNI call through the node agent: when it is sent, when again, and when an ADD is taken back.
//
// The rule behind all of it: an ADD is sent at most once, and whenever this process cannot say that its caller has the
// answer, a DEL follows. DEL, CHECK, GC and STATUS may be repeated without harm, and are, once. A DEL for which no
// agent comes is written down for the next one.
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
  // The caller must outlive it. `started_nanos`: CLOCK_BOOTTIME, when this process began.
  AgentCall(PluginCall call, const Caller& caller, std::int64_t started_nanos);

  // Serves the call, prints, and returns the exit status.
  [[nodiscard]] int Serve();

 private:
  // A DEL for what this ADD may have taken. Failures go to stderr: the caller's own DEL, or the controller, comes next.
  void TakeBack() const;
  [[nodiscard]] Expected<std::string> MakeBody() const;
  [[nodiscard]] Expected<std::string> MakeTakeBackBody() const;
  // Errors: kUnknownOutcome: the call may have been served, or may still be; any other: not one byte of it went out.
  [[nodiscard]] Expected<AgentAnswer> Ask(const std::string& body) const;
  [[nodiscard]] Expected<AgentAnswer> NotConnected(int error) const;
  // No agent came: for STATUS one may be restarting, a DEL goes into the queue (node/del_queue.h), or to an agent that
  // listens by now.
  [[nodiscard]] Expected<AgentAnswer> WithoutAgent(const std::string& body, int error) const;
  // Returns the exit status. Errors: kUnknownOutcome: this is no answer to the call.
  [[nodiscard]] Expected<int> Print(const AgentAnswer& answer) const;
  [[nodiscard]] int Fail(Error error) const;
  [[nodiscard]] bool Is(cni::Verb verb) const { return call_.environment.verb == verb; }
  [[nodiscard]] const std::string& Socket() const { return call_.config.ipam.agent_socket; }

  PluginCall call_;
  const Caller& caller_;
  std::int64_t started_nanos_;
  Expected<std::string> take_back_body_;  // of an ADD
  Deadline last_connect_;                 // for an agent that is not there
  Deadline end_;                          // for everything but TakeBack
};

}  // namespace berth::cni_plugin
