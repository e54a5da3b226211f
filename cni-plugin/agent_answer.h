// SPDX-License-Identifier: Apache-2.0
// AgentAnswer: the HTTP response of a node agent (docs/agent-protocol.md), parsed with limits.
//
// The agent speaks HTTP on its socket so that people can use curl. `berth` needs only one request and one response per
// connection. The response must have a Content-Length: without it, `berth` could not notice a truncated answer (RFC
// 9112, section 6.3).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"

namespace berth::cni_plugin {

inline constexpr std::size_t kAnswerHeadBytesMax = std::size_t{16} << 10;
inline constexpr std::size_t kAnswerBodyBytesMax = std::size_t{1} << 20;

struct AgentAnswer {
  int status = 0;
  bool is_new = false;  // the header field Berth-Took is 1: this ADD gave the attachment all of its addresses
  std::string body;

  friend bool operator==(const AgentAnswer&, const AgentAnswer&) = default;
};

// An HTTP request to /cni with `body`.
[[nodiscard]] std::string MakeAgentRequest(std::string_view body);

// nullopt: `bytes` is the beginning of an answer, so the caller must read more. Errors: kDecode: `bytes` cannot become
// an answer, whatever follows.
[[nodiscard]] Expected<std::optional<AgentAnswer>> ParseAgentAnswer(std::string_view bytes);

}  // namespace berth::cni_plugin
