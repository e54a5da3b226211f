// SPDX-License-Identifier: Apache-2.0
// AgentAnswer: the HTTP response of a node agent (docs/agent-protocol.md), read within bounds.
//
// HTTP is spoken on the socket so that people can use curl. Of it this side needs one request and one response per
// connection, with a length: an answer without one could end early without anybody noticing (RFC 9112, section 6.3).
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
  bool took = false;  // Berth-Took: 1: this ADD took at least one address that its attachment did not have before
  std::string body;

  friend bool operator==(const AgentAnswer&, const AgentAnswer&) = default;
};

// `body` as a request to /cni.
[[nodiscard]] std::string MakeAgentRequest(std::string_view body);

// Nothing: `bytes` is the beginning of an answer. Errors: kDecode: whatever comes behind it, it will be none.
[[nodiscard]] Expected<std::optional<AgentAnswer>> ParseAgentAnswer(std::string_view bytes);

}  // namespace berth::cni_plugin
